"""A headless Chromium (Debian: chromium, chromium-driver; pip: selenium), and axe-core for accessibility (npm install axe-core)."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import ROOT

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"


@contextlib.contextmanager
def chromium(width: int, dark: bool = False) -> Iterator[Any]:
    """A selenium driver whose window is `width` pixels wide. Skips the test where Chromium or selenium is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("no chromium and chromedriver")
    options = webdriver.ChromeOptions()
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options, service)
    try:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        yield driver
    finally:
        driver.quit()


def check_page(driver: Any) -> None:
    """Nothing in the console, no sideways scrolling and, where axe-core is there, no violation of its rules."""
    assert driver.get_log("browser") == []
    assert driver.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    script = AXE if AXE.exists() else os.environ.get("AXE_JS", "")
    if not script:
        return
    with open(script, encoding="utf-8") as file:
        driver.execute_script(file.read())
    found = driver.execute_async_script("const done = arguments[0]; axe.run().then((found) => done(found.violations))")
    assert not found, [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
