"""The page in a real browser, and POST /v1/rerank with a real client, Cohere's."""

import shutil
import subprocess
import sys

import pytest

from tests.support.look_site import DOCS, HOSTILE, write_site

pytestmark = pytest.mark.real


@pytest.fixture
def address(tmp_path):
    """(address, directory) of a small site, served by `harp look`."""
    pytest.importorskip("starlette")
    site = write_site(tmp_path / "site")
    words = [sys.executable, "-m", "harp_jax", "look", str(site), "--port=0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().split()[0], site
        process.terminate()


@pytest.fixture
def driver():
    """A selenium driver; skips the test without it or Debian's chromium."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("no chromium and chromedriver")
    options = webdriver.ChromeOptions()
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver"))) as driver:
        yield driver


@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_works_by_keyboard(address, driver, width):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    def shown(selector):
        return [node for node in driver.find_elements(By.CSS_SELECTOR, selector) if node.is_displayed()]

    url, site = address
    window = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)
    driver.get(url)
    wait = WebDriverWait(driver, 60)
    wait.until(lambda _: shown("#proposals li button"))
    assert driver.switch_to.active_element.get_attribute("id") == "q"
    driver.switch_to.active_element.send_keys("red cat", Keys.ENTER)
    wait.until(lambda _: shown("li.hit"))
    assert len(shown("#rankings section")) == (3 if width > 1000 else 1)
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
    assert driver.get_log("browser") == []
    assert driver.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_client_of_cohere_reranks(address):
    """A client that users have: `pip install cohere`."""
    cohere = pytest.importorskip("cohere")
    client = cohere.Client("no key", base_url=address[0])
    texts = [text for _, text in DOCS.values()]
    hits = client.rerank(model="ranker", query="red cat", documents=texts, top_n=3, return_documents=True).results
    scores = [hit.relevance_score for hit in hits]
    assert len({hit.index for hit in hits}) == 3 and 1 > scores[0] >= scores[1] >= scores[2] > 0
    assert all(hit.document.text == texts[hit.index] for hit in hits)
