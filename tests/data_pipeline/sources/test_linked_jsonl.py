import bz2
import gzip
import json
import lzma
from functools import partial

import pytest

from data_pipeline.sources import formats, json_formats
from data_pipeline.sources.document import Link
from harp_jax.base.errors import InputError
from tests.support import source_reading

source = partial(source_reading.source, "linked_jsonl")


def read(*paths, **fields):
    return source_reading.read(source(*paths, **fields))


def write(path, *records, opener=open):
    with opener(path, "wt", encoding="utf-8") as file:
        for record in records:
            file.write(record if isinstance(record, str) else json.dumps(record))
            file.write("\n")
    return path


PAGE = {
    "id": "p1", "title": "Öbel", "text": "Öbel lies on the Rhun 😀 river.\nMore.", "lead_end": 30,
    "links": [{"start": 17, "end": 21, "target": "p2"}],
}  # fmt: skip


@pytest.mark.parametrize("name,opener", [("a", open), ("a.gz", gzip.open), ("a.bz2", bz2.open), ("a.xz", lzma.open)])
def test_reads_documents_with_code_point_offsets(tmp_path, name, opener):
    path = write(tmp_path / name, PAGE, "", {"id": "p2", "title": "Rhun", "text": "A river."}, opener=opener)
    (page, destination), dropped = read(path)
    assert dropped == []
    assert (page.address, page.id, page.title, page.lead_end) == ("p1", "p1", "Öbel", 30)
    assert page.links == (Link(17, 21, "p2"),) and page.text[17:21] == "Rhun"
    assert destination.links == () and destination.lead_end == len("A river.")


def test_chunks_have_unique_ordered_names_and_keep_every_line(tmp_path, monkeypatch):
    monkeypatch.setattr(json_formats, "CHUNK_BYTES", 100)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        records = [{"id": f"{folder}{i}", "title": "", "text": "x" * 30} for i in range(9)]
        write(tmp_path / folder / "same.jsonl", *records)
    where = source(tmp_path / "*" / "same.jsonl")
    assert len(list(formats.chunks(where))) > 4
    documents, _ = read(*where["paths"])
    assert [d.id for d in documents] == [f"{folder}{i}" for folder in "ab" for i in range(9)]


@pytest.mark.parametrize(
    "line,part",
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ({"id": "p9", "title": "t"}, "'text'"),
        ({"id": "p9", "title": "t", "text": "abc", "links": [{"start": 1, "end": 4, "target": "q"}]}, "1..4"),
        ({"id": "p9", "title": "t", "text": "abc", "links": [{"start": True, "end": 2, "target": "q"}]}, "True..2"),
        ({"id": "p9", "title": "t", "text": "abc", "links": [{"start": 1, "end": 2}]}, "'target'"),
        ({"id": "p9", "title": "t", "text": "abc", "links": 5}, "'links'"),
        ({"id": "p9", "title": "t", "text": "abc", "lead_end": 4}, "lead_end"),
        ("[" * 100000, "not JSON"),
    ],
)
def test_broken_lines_are_named_by_file_line_and_id(tmp_path, line, part):
    path = write(tmp_path / "bad.jsonl", PAGE, line)
    with pytest.raises(InputError) as error:
        read(path)
    message = str(error.value)
    assert part in message and "bad.jsonl line 2" in message
    if isinstance(line, dict) and "id" in line:
        assert "'p9'" in message


def test_empty_and_overlapping_links_are_dropped_and_anchors_stripped(tmp_path):
    spans = [
        (4, 7, "b"),
        (0, 5, "a"),
        (5, 5, "c"),
        (7, 11, "d"),
        (8, 11, ""),
    ]  # a space before "six" is no part of its anchor
    links = [{"start": start, "end": end, "target": target} for start, end, target in spans]
    (page,), dropped = read(write(tmp_path / "a", {"id": "p", "title": "", "text": "one two six", "links": links}))
    assert page.links == (Link(0, 5, "a"), Link(8, 11, "d"))
    assert sorted(each.reason for each in dropped) == ["link-empty", "link-empty", "link-overlap"]


def test_large_lines_are_counted_and_surrogates_replaced(tmp_path):
    surrogate = '{"id": "q", "title": "", "text": "a\\ud800b"}'
    path = write(tmp_path / "a", {"id": "p", "title": "x" * 200, "text": ""}, surrogate)
    (page,), dropped = read(path, max_page_bytes=100)
    assert page.text == "a\ufffdb" and [each.reason for each in dropped] == ["page-too-large"]


def test_damage_and_absence_are_input_errors(tmp_path):
    with pytest.raises(InputError, match="no file"):
        read(tmp_path / "absent.jsonl")
    path = write(tmp_path / "cut.gz", *[PAGE] * 1000, opener=gzip.open)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"cut\.gz"):
        read(path)
    (tmp_path / "latin").write_bytes(b'{"id": "\xe9"}\n')
    with pytest.raises(InputError, match="latin"):
        read(tmp_path / "latin")


def test_redirects_come_from_tsv_files(tmp_path):
    path = write(tmp_path / "r.tsv", "a\tp1", "b\tp2")
    assert list(formats.redirects(source(redirects=(str(path),)))) == [("a", "p1"), ("b", "p2")]
    write(path, "a p1")
    with pytest.raises(InputError, match=r"r\.tsv line 1"):
        list(formats.redirects(source(redirects=(str(path),))))
