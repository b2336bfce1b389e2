"""The pages in a real browser, and POST /v1/rerank with a real client, Cohere's."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.commands import command
from tests.support.look_site import DOCS, HOSTILE, write_site

pytestmark = pytest.mark.real
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"


@contextlib.contextmanager
def chromium(width: int, dark: bool = False) -> Iterator:
    """A selenium driver whose window is `width` pixels wide. Skips the test if either is missing."""
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
    """Nothing in the console, no sideways scrolling and, if axe-core is available, no violation of its rules."""
    assert driver.get_log("browser") == []
    assert driver.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    script = AXE if AXE.exists() else os.environ.get("AXE_JS", "")
    if not script:
        return
    with open(script, encoding="utf-8") as file:
        driver.execute_script(file.read())
    found = driver.execute_async_script("const done = arguments[0]; axe.run().then((found) => done(found.violations))")
    assert not found, [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


@pytest.fixture
def address(tmp_path):
    """(address, directory) of a small site, served by `harp look`."""
    pytest.importorskip("starlette")
    site = write_site(tmp_path / "site")
    words = [sys.executable, "-m", "harp_jax", "look", str(site), "--port=0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().split()[0], site
        process.terminate()


@pytest.mark.parametrize("width, dark", [(400, False), (400, True), (1400, False), (1400, True)])
def test_the_page_works_by_keyboard(address, width, dark):
    url, site = address
    with chromium(width, dark) as driver:
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys
        from selenium.webdriver.support.ui import WebDriverWait

        def shown(selector):
            return [node for node in driver.find_elements(By.CSS_SELECTOR, selector) if node.is_displayed()]

        driver.get(url)
        wait = WebDriverWait(driver, 60)
        wait.until(lambda _: shown("#proposals li button"))
        assert driver.switch_to.active_element.get_attribute("id") == "q"
        driver.switch_to.active_element.send_keys("red cat", Keys.ENTER)
        wait.until(lambda _: shown("li.hit"))
        assert len(shown("#rankings section")) == (3 if width > 1000 else 1)
        sections = driver.find_elements(By.CSS_SELECTOR, "#rankings section")
        assert all(driver.find_elements(By.ID, section.get_attribute("aria-labelledby")) for section in sections)
        assert HOSTILE in driver.find_element(By.ID, "rankings").get_attribute("textContent")
        assert not driver.find_elements(By.CSS_SELECTOR, "img[src='x']")
        for _ in range(40):
            driver.switch_to.active_element.send_keys(Keys.TAB)
            if "yes" in driver.switch_to.active_element.get_attribute("class"):
                break
        driver.switch_to.active_element.send_keys(Keys.SPACE)
        wait.until(lambda _: shown(".yes[aria-pressed='true']"))
        assert (site / "labels.tsv").read_text().startswith("red cat\td")
        if width < 1000:
            shown("#views button")[0].send_keys(Keys.ENTER)
            wait.until(lambda _: shown("[data-name='BM25']"))
        check_page(driver)


@pytest.mark.parametrize("width, dark", [(400, True), (1400, False)])
def test_the_report_reads_well_on_a_phone_and_a_desk(tmp_path, width, dark):
    (tmp_path / "qrels.txt").write_text("".join(f"{i} 0 a{i} 1\n" for i in range(20)))
    for name, order in (("bm25", "bca"), ("ranker", "abc")):
        rows = [f"{i} Q0 {d}{i} {rank} {-rank} x\n" for i in range(20) for rank, d in enumerate(order, 1)]
        (tmp_path / f"{name}.trec").write_text("".join(rows))
    (tmp_path / "w").mkdir()
    rows = [{"step": s, "split": "validation", "rqp_accuracy": 0.5 + s / 10, "mlm_loss": 3.0 - s} for s in range(3)]
    (tmp_path / "w" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = [f"--run={name}={tmp_path}/{name}.trec" for name in ("bm25", "ranker")]
    given = {"qrels": tmp_path / "qrels.txt", "chance": "bm25", "curves": f"x={tmp_path}/w"}
    command("report", *runs, **given, output=tmp_path / "report.html")
    with chromium(width, dark) as driver:
        driver.get(f"file://{tmp_path}/report.html")
        check_page(driver)


def test_a_client_of_cohere_reranks(address):
    """A client that users have: `pip install cohere`."""
    cohere = pytest.importorskip("cohere")
    client = cohere.Client("no key", base_url=address[0])
    texts = [text for _, text in DOCS.values()]
    found = client.rerank(model="ranker", query="red cat", documents=texts, top_n=3, return_documents=True).results
    scores = [hit.relevance_score for hit in found]
    assert len({hit.index for hit in found}) == 3 and all(0 < score < 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert all(hit.document.text == texts[hit.index] for hit in found)
