"""Malformed pages do not stop the job, and every loss is reported."""

import bz2
import tracemalloc
from collections import Counter

import pytest

from tests.support import malformed
from tests.support.source_files import HEAD, TAIL, page, write
from tests.support.source_reading import read, source


def test_malformed_pages_are_read_or_reported_with_the_intact_links_before_the_malformed_part(tmp_path):
    dump = b"".join([HEAD.encode(), *map(malformed.wiki_page, range(400)), TAIL.encode()])
    documents, dropped = read(source("mediawiki", write(tmp_path / "dump.xml", dump), max_page_bytes=30_000))
    lost = Counter(each.reason for each in dropped)
    assert len(documents) + sum(n for why, n in lost.items() if why.startswith(("page-", "redirect-"))) == 400
    assert all(lost[reason] for reason in ("characters-replaced", "page-namespace", "page-too-large"))
    for document in documents:
        malformed.check_offsets(document)
        first, second = (document.text[start:end] for start, end, _ in document.links[:2])
        assert first.startswith("bak kori") and second.startswith("muta"), document.title
        assert "\n\n" not in document.text and "  " not in document.text, document.title


@pytest.mark.parametrize("packed", [False, True])
def test_a_page_of_any_size_is_skipped_in_flat_memory(tmp_path, packed):
    pages = map(page, ("First", "Huge", "Last"), ("a", "[[" * (15 << 20), "z"), range(3))
    streams = [part.encode() for part in (HEAD, "".join(pages), TAIL)]
    path = write(tmp_path / f"pages{'.bz2' * packed}", b"".join(map(bz2.compress, streams) if packed else streams))
    del streams
    tracemalloc.start()
    documents, (lost,) = read(source("mediawiki", path, max_page_bytes=1 << 16))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [each.title for each in documents] == ["First", "Last"] and peak < 12 << 20
    assert (lost.reason, lost.where) == ("page-too-large", f"{path}: Huge")
