import bz2
import gzip
import html
import json

import pytest

from data_pipeline.sources import formats, json_formats
from data_pipeline.sources.document import Link
from harp_jax.base.errors import InputError
from tests.support import source_reading
from tests.support.shared_data import shared


def read(format_, path, *records, opener=open):
    """Reads the records after writing them to `path`, or the file that is already there."""
    if records:
        with opener(path, "wt", encoding="utf-8") as file:
            file.writelines((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in records)
    return source_reading.read(source_reading.source(format_, path))


def linked(*links, **fields):
    rows = [dict(zip(("start", "end", "target"), link)) for link in links]
    return {"id": "p9", "title": "t", "text": "abc", "links": rows} | fields


def test_linked_pages_have_code_point_offsets_and_disjoint_links_without_spaces_at_their_ends(tmp_path):
    text = "Öbel lies on the Rhun 😀 river.\nMore."
    links = (17, 22, "p2"), (18, 20, "a"), (5, 5, "b"), (5, 9, "")
    first = linked(*links, id="p1", title="Öbel", text=text, lead_end=30)
    surrogate = '{"id": "q", "title": "", "text": "a\\ud800b"}'
    (page, other), dropped = read("linked_jsonl", tmp_path / "a", first, "", surrogate)
    assert (page.address, page.id, page.title, page.text, page.lead_end) == ("p1", "p1", "Öbel", text, 30)
    assert page.links == (Link(17, 21, "p2"),) and page.text[17:21] == "Rhun"
    assert sorted(each.reason for each in dropped) == ["link-empty", "link-empty", "link-overlap"]
    assert (other.text, other.links, other.lead_end) == ("a\ufffdb", (), 3)


def test_chunks_keep_every_line(tmp_path, monkeypatch):
    monkeypatch.setattr(json_formats, "CHUNK_BYTES", 100)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        read("linked_jsonl", tmp_path / folder / "same", *[linked(id=f"{folder}{i}", text="x" * 30) for i in range(9)])
    source = source_reading.source("linked_jsonl", tmp_path / "*" / "same")
    assert len(list(formats.chunks(source))) > 4
    assert [d.id for d in source_reading.read(source)[0]] == [f"{folder}{i}" for folder in "ab" for i in range(9)]


@pytest.mark.parametrize(
    "format_,line,part",
    [
        ("linked_jsonl", "{", "not JSON"), ("linked_jsonl", "[" * 100000, "not JSON"),
        ("linked_jsonl", "[1]", "not a JSON object"), ("linked_jsonl", {"id": "p9", "title": "t"}, "'text'.*'p9'"),
        ("linked_jsonl", linked((1, 4, "q")), r"1\.\.4.*'p9'"), ("linked_jsonl", linked((True, 2, "q")), r"True\.\.2.*'p9'"),
        ("linked_jsonl", linked(lead_end=4), "lead_end.*'p9'"), ("wikiextractor", "<doc id=1>", "--json"),
        ("harp_json", {"tokenized_sentence": [1], "anchors": []}, ""),
    ],
)  # fmt: skip
def test_bad_lines_are_input_errors(tmp_path, format_, line, part):
    with pytest.raises(InputError, match=part) as error:
        read(format_, tmp_path / "bad.jsonl", "", line)
    assert "bad.jsonl line 2" in str(error.value)


def test_damaged_and_absent_files_are_input_errors(tmp_path):
    (tmp_path / "damaged.gz").write_bytes(gzip.compress(json.dumps(linked()).encode() * 1000)[:-20])
    for name in ("absent", "damaged.gz"):
        with pytest.raises(InputError, match=name):
            read("linked_jsonl", tmp_path / name)


def test_redirect_files(tmp_path):
    path = tmp_path / "r.tsv"
    source = source_reading.source("wikiextractor", redirects=(str(path),))
    path.write_text("a\tp1\nb\tp2\n")
    assert list(formats.redirects(source)) == [("a", "p1"), ("b", "p2")]
    assert formats.addresser(source)("old_mill race") == "Old mill race"
    path.write_text("a p1\n")
    with pytest.raises(InputError, match=r"r\.tsv line 1"):
        list(formats.redirects(source))


RAW = 'The <a href="Bus%20%28vehicle%29">bus</a> of <a href="AT%26T">AT&T</a> &c.'
RAW_SHOWN = "The [bus->Bus (vehicle)] of [AT&T->AT&T] &c."


@pytest.mark.parametrize(
    "text,expected",
    [
        *((text, RAW_SHOWN) for text in (RAW, html.escape(RAW), html.escape(RAW, quote=False))),
        ("T\n\none\ntwo\n\nthree", "one\ntwo\nthree"),
        ("Lead.\nSection::::Life.\nBULLET::::- item\nBULLET::::- more", "Lead.\nitem\nmore"),
        ('<a href="eiffel%20tower#Past">the tower</a>', "[the tower->Eiffel tower]"),
        ('<a href="File:x.jpg">f</a> <a href="wikt:y">g</a> <a href="#z">h</a>', "f g h"),
        ('<a href="x"> a </a>b<a href="y"></a>c', "[a->X] bc"),
        ('<a href="x">a <a href="y">b</a> c</a>', "a [b->Y] c"), ('<a href="x">a\nb</a> <a href="x">a\n\nb</a>', "[a b->X] a\nb"),
        ('<a href="x">a <i>b</i> < c</a>', "[a b < c->X]"), ("a\0b\x02&#3;c<br>d<nowiki>e", "abcde"), ("", ""),
    ],
)  # fmt: skip
def test_extracted_text_and_links(text, expected):
    assert source_reading.shown(json_formats.plain_text(text, "T")) == expected


def test_extracted_sections():
    plain = json_formats.plain_text('Lead.\nSection::::A.\nBody <a href="x">y.', "T")
    assert plain.text[: plain.lead_end] == "Lead." and plain.dropped == [("link-malformed", '<a href="x">')]


def test_folders_of_extracted_text(tmp_path):
    article = {"id": "1", "title": "", "text": RAW}
    empty = article | {"title": "bus (disambiguation)", "text": ""}
    (tmp_path / "AA").mkdir()
    read("wikiextractor", tmp_path / "AA" / "wiki_00", article | {"title": "a"}, empty)
    read("wikiextractor", tmp_path / "AA" / "wiki_01.bz2", article | {"title": "b"}, opener=bz2.open)
    documents, dropped = read("wikiextractor", tmp_path)
    assert [each.address for each in documents] == ["A", "B"] and [each.reason for each in dropped] == ["page-empty"]
    (document,), _ = read("wikiextractor", tmp_path / "a", empty | {"text": "Buses."})
    assert document.address == "Bus (disambiguation)" and document.is_disambiguation


def anchor(text, first, last, passage="A passage."):
    return {"text": text, "pos": [first, last], "passage": passage}


def test_sentences_and_passages(tmp_path):
    tokens = ["The", "“old", "town”,", "by", "the", "River", "Ä."]
    anchors = [anchor("old town", 1, 2), anchor("River Ä", 5, 6, "A river."), anchor("by", 3, 3)]
    bad = [anchor("by", 3, 2), anchor("by", -1, 3), anchor("Ä.", 6, 7), anchor("old", 3, 3), anchor("", 3, 3)]
    bad += [anchor("by", 3, 3, ""), anchor("by", "3", 3), {"text": "by", "pos": [3, 3]}, None]
    linked, plain = (
        {"sentence": " ".join(tokens), "tokenized_sentence": tokens, "anchors": [[each] for each in anchors]}
        for tokens, anchors in ((tokens, [*anchors, *bad]), (["No", "link"], []))
    )
    (first, town, river, other), dropped = read("harp_json", tmp_path / "not-UTF-8-\udce9.jsonl", linked, plain)
    assert [first.text[start:end] for start, end, _ in first.links] == ["old town", "by", "River Ä"]
    assert [link.target for link in first.links] == [town.address, town.address, river.address]
    assert (town.text, town.lead_end, river.text, other.text) == ("A passage.", 10, "A river.", "No link")
    assert [each.reason for each in dropped] == ["anchor-malformed"] * len(bad)
    assert len({document.id.encode() for document in (first, town, river, other)}) == 4


@pytest.mark.real
def test_every_sentence_and_every_anchor_of_the_authors_file_is_accounted_for():
    documents, dropped = read("harp_json", shared("harp_official", "demo_data.jsonl"))
    sentences = [document for document in documents if not document.address.startswith("passage-")]
    assert len(sentences) == 95 and sum(len(document.links) for document in sentences) == 97
    assert {each.reason for each in dropped} == {"anchor-malformed"}
    assert [each.where.rpartition(" ")[2] for each in dropped] == ["2", "24", "95"]
