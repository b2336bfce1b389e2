"""Malformed pages do not stop the job, take linear time, and every loss is in the report."""

import bz2
import json
import tracemalloc
from collections import Counter

import pytest

from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine
from data_pipeline.pipeline import generate
from data_pipeline.sources.wikitext import Site, plain_text
from tests.support import corpus, malformed
from tests.support.generation_job import table
from tests.support.source_files import HEAD, TAIL, page
from tests.support.source_reading import read, source


@pytest.mark.parametrize("pages", [120, pytest.param(2000, marks=pytest.mark.faults)])
def test_the_job_takes_malformed_pages_and_accounts_for_every_one(tmp_path, pages):
    folder, output = corpus.write(tmp_path / "corpus", files=1), tmp_path / "out"
    dump = [HEAD.encode(), *map(malformed.wiki_page, range(pages)), TAIL.encode()]
    (folder / "dump.xml").write_bytes(b"".join(dump))
    dumped = dict(format="mediawiki", paths=(str(folder / "dump.xml"),), redirects=(), max_page_bytes=30_000)
    manifest = generate(corpus.config(folder, encoder="idf", keep_work=True, source=dumped), str(output), SerialEngine)
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


def test_intact_links_before_the_malformed_part_are_kept_and_offsets_hold():
    for number in range(100):
        plain = plain_text(f"Near [[Page 1|bak kori]].\n\n{malformed.wikitext(number)}", Site({"Talk": 1}))
        assert [(plain.text[a:b], target) for a, b, target in plain.links[:1]] == [("bak kori", "Page 1")], number
        malformed.check_offsets(plain)
        assert plain.text == plain.text.strip() and "\n\n" not in plain.text and "  " not in plain.text, number


@pytest.mark.parametrize("format_", ["linked_jsonl", "mediawiki", "multistream"])
def test_a_page_of_any_size_is_skipped_in_flat_memory(tmp_path, format_):
    titles, texts = ("First", "Huge", "Last"), ("a", "[[" * (15 << 20), "z")
    path = tmp_path / f"pages{'.bz2' * (format_ == 'multistream')}"
    if format_ == "linked_jsonl":
        path.write_text("".join(json.dumps({"id": x, "title": x, "text": y}) + "\n" for x, y in zip(titles, texts)))
    else:
        streams = [part.encode() for part in (HEAD, "".join(map(page, titles, texts, range(3))), TAIL)]
        path.write_bytes(b"".join(map(bz2.compress, streams) if format_ == "multistream" else streams))
    given = source(format_.replace("multistream", "mediawiki"), path, max_page_bytes=1 << 16)
    tracemalloc.start()
    documents, (lost,) = read(given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    place, most = ("line 2", 8 << 20) if format_ == "linked_jsonl" else ("Huge", 12 << 20)
    assert [each.title for each in documents] == ["First", "Last"] and peak < most
    assert (
        lost.reason == "page-too-large"
        and lost.where.endswith(place)
        and 31.4e6 < int(lost.example.split()[0]) < 31.5e6
    )
