"""Malformed pages do not stop the job, take linear time, and every loss is in the report."""

import bz2
import json
import tracemalloc
from collections import Counter

import pytest

from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine
from data_pipeline.pipeline import generate
from data_pipeline.sources.html_pages import read_page
from data_pipeline.sources.wikitext import Site, plain_text
from tests.support import corpus, malformed
from tests.support.generation_job import table
from tests.support.source_files import HEAD, TAIL, page
from tests.support.source_reading import read, source

SITE, LIMIT = Site({"Talk": 1}), {"max_page_bytes": 2 << 20}


@pytest.mark.parametrize("pages", [120, pytest.param(2000, marks=pytest.mark.faults)])
def test_the_job_takes_malformed_pages_and_accounts_for_every_one(tmp_path, pages):
    folder, output = corpus.write(tmp_path / "corpus", files=1), tmp_path / "out"
    dump = [HEAD.encode(), *map(malformed.wiki_page, range(pages)), TAIL.encode()]
    (folder / "dump.xml").write_bytes(b"".join(dump))
    c = corpus.config(folder, encoder="idf", workers=1, keep_work=True)
    c.source.format, c.source.paths, c.source.redirects = "mediawiki", (str(folder / "dump.xml"),), ()
    c.source.max_page_bytes = 30_000
    manifest = generate(c, str(output), SerialEngine)
    lost = Counter({reason: entry["count"] for reason, entry in manifest["losses"].items()})
    assert all(entry["pairs"] for entry in manifest["tasks"].values()) and lost["page-too-large"]
    dropped = sum(lost[f"page-{why}"] for why in ("namespace", "too-large", "empty", "model"))
    redirects = sum(n for reason, n in lost.items() if reason.startswith("redirect-")) + len(
        table(output, tables.REDIRECTS)
    )
    assert len(table(output, tables.ADDRESSES)) + redirects + dropped == pages
    documents, resolved = table(output, tables.DOCUMENTS), table(output, tables.RESOLVED)
    links = [link for row in documents for link in row["links"]]
    assert len(resolved) + sum(n for reason, n in lost.items() if reason.startswith("anchor-")) == len(links)
    problems = Counter(row["problem"] for row in resolved if row["problem"])
    assert problems == {reason: lost[reason] for reason in problems}
    assert lost["characters-replaced"] > 10 and lost["page-namespace"]
    assert sum(link["target"].startswith("Page ") for link in links) >= 2 * len(documents)


def test_intact_links_before_the_malformed_part_are_kept_offsets_hold_and_no_page_is_lost_uncounted():
    for number in range(100):
        plain = plain_text(f"Near [[Page 1|bak kori]].\n\n{malformed.wikitext(number)}", SITE)
        assert [(plain.text[a:b], target) for a, b, target in plain.links[:1]] == [("bak kori", "Page 1")], number
        malformed.check_offsets(plain)
        assert plain.text == plain.text.strip() and "\n\n" not in plain.text and "  " not in plain.text, number
        dropped: list = []
        documents = read_page(malformed.html_page(number), "https://x.org/", "w", LIMIT, dropped)
        assert documents or any(each.reason.startswith("page-") for each in dropped), number
        for document in documents:
            malformed.check_offsets(document)


@pytest.mark.parametrize("format_", ["linked_jsonl", "mediawiki", "multistream"])
def test_a_page_of_any_size_is_skipped_in_flat_memory(tmp_path, format_):
    titles, texts = ("First", "Huge", "Last"), ("a", "[[" * (15 << 20), "z")
    path = tmp_path / f"pages{'.bz2' * (format_ == 'multistream')}"
    if format_ == "linked_jsonl":
        path.write_text("".join(json.dumps({"id": x, "title": x, "text": y}) + "\n" for x, y in zip(titles, texts)))
    else:
        parts = [HEAD, "".join(map(page, titles, texts, range(3))), TAIL]
        streams = [part.encode() if format_ == "mediawiki" else bz2.compress(part.encode()) for part in parts]
        path.write_bytes(b"".join(streams))
    given = source(format_.replace("multistream", "mediawiki"), path, max_page_bytes=1 << 16)
    tracemalloc.start()
    documents, dropped = read(given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    place, most = ("line 2", 8 << 20) if format_ == "linked_jsonl" else ("Huge", 12 << 20)
    ((where, reason, example, _),) = dropped
    assert [document.title for document in documents] == ["First", "Last"] and reason == "page-too-large"
    assert where.endswith(place) and 31.4e6 < int(example.split()[0]) < 31.5e6 and peak < most
