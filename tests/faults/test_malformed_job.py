"""2,000 malformed pages and one of 100 MB through the whole generation job; HTML that is quadratic in the parser."""

import random
from collections import Counter

import pytest

from data_pipeline.pipeline import generate
from data_pipeline.sources.html_pages import read_page
from harp_jax.input.records import read_manifest
from tests.support import corpus, malformed
from tests.support.generation_job import table
from tests.support.source_files import HEAD, TAIL

pytestmark = pytest.mark.faults

PAGES = 2000
HUGE = 100 << 20


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """2,000 malformed pages, and in the middle one of 100 MB of open brackets."""
    path = tmp_path_factory.mktemp("dump") / "dump.xml"
    with open(path, "wb") as file:
        file.write(HEAD.encode())
        for number in range(PAGES):
            file.write(malformed.wiki_page(number))
            if number == PAGES // 2:
                file.write(b"<page><title>Huge</title><id>99999</id><revision><text>")
                for _ in range(HUGE >> 20):
                    file.write(b"[[{{a|'''x " * ((1 << 20) // 11))
                file.write(b"</text></revision></page>\n")
        file.write(TAIL.encode())
    return path


def test_the_whole_job_takes_them_and_accounts_for_every_one(dump):
    folder = corpus.write(dump.parent / "corpus", files=1)
    c = corpus.config(folder, encoder="idf", workers=2, keep_work=True)
    c.source.format, c.source.paths, c.source.redirects = "mediawiki", (str(dump),), ()
    output = dump.parent / "out"
    generate(c, str(output))
    manifest = read_manifest(str(output))
    lost = Counter({reason: entry["count"] for reason, entry in manifest["losses"].items()})
    print("\n", dict(lost), {task: entry["pairs"] for task, entry in manifest["tasks"].items()})
    assert lost["page-too-large"] == 1 and manifest["losses"]["page-too-large"]["examples"][0][0].endswith(": Huge")
    addresses = len(table(output, "addresses"))
    pages = ("page-namespace", "page-too-large", "page-empty", "page-model")
    redirects = sum(n for reason, n in lost.items() if reason.startswith("redirect-")) + len(table(output, "redirects"))
    assert addresses + redirects + sum(lost[reason] for reason in pages) == PAGES + 1
    links = sum(len(row["links"]) for row in table(output, "documents"))
    resolved = table(output, "resolved")
    assert links == len(resolved) + sum(n for reason, n in lost.items() if reason.startswith("anchor-"))
    problems = Counter(row["problem"] for row in resolved if row["problem"])
    assert problems == {reason: lost[reason] for reason in problems}
    assert all(entry["pairs"] for entry in manifest["tasks"].values())


def test_html_of_2_mib_returns():
    # What is quadratic in the parser would take hours; nothing is timed.
    draw = random.Random(0)
    for _ in range(40):
        unit = "".join(draw.choices(malformed.HTML_TOKENS, k=draw.choice([1, 2, 3])))
        page = "".join(unit.replace("{0}", str(number)) for number in range((2 << 20) // (len(unit) + 5)))
        read_page(page.encode(), "https://x.org/", "w", {"max_page_bytes": 2 << 20}, [])
