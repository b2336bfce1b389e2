"""Malformed pages through the job: none stops it, work grows linearly, nothing is lost without a line in the report.

Here a few pages as far as the link graph; tests/faults has 2,000 and a page of 100 MB, all the way to the shards.
"""

from collections import Counter

import pytest

from data_pipeline.links import link_graph
from data_pipeline.sources import json_formats
from data_pipeline.sources.document import Link, LinkedDocument
from data_pipeline.sources.html_pages import read_page
from data_pipeline.sources.wikitext import Site, plain_text
from data_pipeline.text.sentences import sentences
from tests.support import corpus, malformed
from tests.support.generation_job import linked_documents, table
from tests.support.mediawiki_dump import HEAD, TAIL
from tests.support.source_reading import read, source
from tests.support.steps import check_linear

PAGES = 120
SITE, LIMIT = Site({"Talk": 1}), {"max_page_bytes": 2 << 20}


def test_the_job_takes_malformed_pages_and_accounts_for_every_one(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=1)
    dump = HEAD.encode() + b"".join(malformed.wiki_page(number) for number in range(PAGES)) + TAIL.encode()
    (folder / "dump.xml").write_bytes(dump)
    c = corpus.config(folder, workers=1)
    c.source.format, c.source.paths, c.source.redirects = "mediawiki", (str(folder / "dump.xml"),), ()
    c.source.max_page_bytes = 30_000
    documents = linked_documents(c, tmp_path / "out")
    lost = Counter()
    for row in table(tmp_path / "out", "losses"):
        lost[row["reason"]] += row["n"]
    read = len(table(tmp_path / "out", "addresses"))
    assert (
        read + sum(n for reason, n in lost.items() if reason.startswith("page-") and reason != "page-too-short")
        == PAGES
    )
    links = [link for row in documents.values() for link in row["links"]]
    assert len(table(tmp_path / "out", "resolved")) + sum(
        n for reason, n in lost.items() if "anchor-" in reason
    ) == len(links)
    assert lost["characters-replaced"] > 10 and lost["page-too-large"] and lost["page-namespace"]
    assert sum(link["target"].startswith("Page ") for link in links) >= 2 * len(documents)


def test_intact_links_before_the_malformed_part_are_kept():
    for number in range(PAGES):
        text = f"Near [[Page 1|bak kori]].\n\n{malformed.wikitext(number)}"
        plain = plain_text(text, SITE)
        assert [(plain.text[a:b], target) for a, b, target in plain.links[:1]] == [("bak kori", "Page 1")], number


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_twice_the_page_takes_twice_the_steps(number):
    text = malformed.wikitext(number)[:20_000] + "\n\n"

    def parse(times: int) -> None:
        plain = plain_text(text * times, SITE)
        spans = [dict(start=start, end=end, target=target) for start, end, target in plain.links]
        list(link_graph.in_sentences(plain.text, spans))
        sentences(plain.text)

    check_linear(parse, slack=500, size=4)
    page = malformed.html_page(number)[:10_000] + b"\n"
    check_linear(lambda times: read_page(page * times, "https://x.org/", "w", LIMIT, []), slack=2000, size=2)


def test_html_pages_are_read_or_counted():
    for number in range(300):
        dropped: list = []
        documents = read_page(malformed.html_page(number), "https://x.org/", "w", LIMIT, dropped)
        assert documents or any(each.reason.startswith("page-") for each in dropped)
        for document in documents:
            malformed.check_offsets(document)


def test_extracted_text_keeps_its_offsets():
    for number in range(PAGES):
        text = malformed.wikitext(number).replace("[[", '<a href="x">').replace("]]", "</a>")
        plain = json_formats.plain_text(json_formats.string({"text": text}, "text", ""), "T")
        links = tuple(Link(*link) for link in plain.links)
        malformed.check_offsets(LinkedDocument("a", "a", "T", plain.text, links, plain.lead_end))


def test_a_long_line_is_measured_and_not_held(tmp_path):
    import tracemalloc

    with open(tmp_path / "a.jsonl", "wb") as file:
        file.write(b'{"id": "a", "title": "", "text": "x"}\n{"id": "b", "title": "", "text": "')
        for _ in range(30):
            file.write(b"[[" * (1 << 19))
        file.write(b'"}\n{"id": "c", "title": "", "text": "x"}\n')
    given = source("linked_jsonl", tmp_path / "a.jsonl", max_page_bytes=1 << 16)
    tracemalloc.start()
    documents, dropped = read(given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [document.id for document in documents] == ["a", "c"] and peak < 8 << 20
    assert [(each.reason, each.where.rpartition(" ")[2]) for each in dropped] == [("page-too-large", "2")]
    assert 31.4e6 < int(dropped[0].example.split()[0]) < 31.5e6
