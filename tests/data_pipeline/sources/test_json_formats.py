import bz2
import gzip
import html
import json

import pytest

from data_pipeline.links import link_graph
from data_pipeline.sources import formats, json_formats
from data_pipeline.sources.document import Link, LinkedDocument
from harp_jax.base.errors import InputError
from tests.support import source_reading


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
    first = linked((17, 22, "p2"), (18, 20, "a"), (5, 5, "b"), (5, 9, ""), id="p1", text=text, lead_end=30)
    surrogate = '{"id": "q", "title": "", "text": "a\\ud800b"}'
    large = linked(id="large", text=(2 << 20) * "x")
    documents, dropped = read("linked_jsonl", tmp_path / "a", first, "", large, surrogate)
    page = LinkedDocument("p1", "p1", "t", text, (Link(17, 21, "p2"),), 30)
    assert documents == [page, LinkedDocument("q", "q", "", "a\ufffdb", (), 3)]
    assert sorted(each.reason for each in dropped) == ["link-empty", "link-empty", "link-overlap", "page-too-large"]


@pytest.mark.parametrize(
    "format_,line,part",
    [
        ("linked_jsonl", "[" * 100000, "not a JSON"), ("linked_jsonl", "[1]", "not a JSON object"),
        ("linked_jsonl", {"id": "p9", "title": "t"}, "'p9': text"), ("linked_jsonl", linked((1, 4, "q")), r"'p9'.*1\.\.4"),
        ("linked_jsonl", linked(lead_end=4), "'p9'.*lead_end"), ("wikiextractor", "<doc id=1>", "--json"),
        ("harp_json", {"tokenized_sentence": [1], "anchors": []}, ""),
    ],
)  # fmt: skip
def test_bad_lines_are_input_errors(tmp_path, format_, line, part):
    with pytest.raises(InputError, match=part) as error:
        read(format_, tmp_path / "bad.jsonl", "", line)
    assert "bad.jsonl line 2" in str(error.value)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(json.dumps(linked()).encode() * 1000)[:-20])
    with pytest.raises(InputError, match="cut.gz is damaged"):
        read(format_, tmp_path / "cut.gz")


def test_redirect_files(tmp_path):
    (tmp_path / "r.tsv").write_text("a\tp1\nb\tp2\nc p3\n")
    source = source_reading.source("wikiextractor", redirects=(str(tmp_path / "r.tsv"),))
    assert formats.addresser(source)("old_mill race") == "Old mill race"
    redirects = formats.redirects(source)
    assert [next(redirects), next(redirects)] == [("a", "p1"), ("b", "p2")]
    with pytest.raises(InputError, match=r"r\.tsv line 3"):
        next(redirects)


RAW = 'The <a href="Bus%20%28vehicle%29">bus</a> of <a href="AT%26T">AT&T</a> &c.'


@pytest.mark.parametrize(
    "text,expected",
    [
        *((text, "The [bus->Bus (vehicle)] of [AT&T->AT&T] &c.") for text in (RAW, html.escape(RAW))),
        ("T\n\none\ntwo\n\nthree", "one\ntwo\nthree"), ("<a href=\"x\">y.", "y."),
        ('A.\nSection::::B.\nBULLET::::- <a href="eiffel%20tower#Past">the tower</a>', "A.\n[the tower->Eiffel tower]"),
        ('<a href="File:x.jpg">f</a> <a href="wikt:y">g</a> <a href="#z">h</a>', "f g h"),
        ('<a href="x">a <a href="y">b</a> c</a>', "a [b->Y] c"), ('<a href="x">a\nb</a> <a href="x">a\n\nb</a>', "[a b->X] a\nb"),
        ('<a href="x">a <i>b</i> < c</a>', "[a b < c->X]"), ("a\0b\x02&#3;c<br>d<nowiki>e", "abcde"), ("", ""),
    ],
)  # fmt: skip
def test_extracted_text_and_links(text, expected):
    assert source_reading.shown(json_formats.plain_text(text, "T")) == expected


def test_folders_of_extracted_text(tmp_path, monkeypatch):
    """In chunks that keep every line; file names occur in several folders."""
    monkeypatch.setattr(formats, "CHUNK_BYTES", 100)
    article = {"id": "1", "text": 'Lead.\nSection::::A.\nBody <a href="x">y.'}
    for folder in ("AA", "AB"):
        (tmp_path / folder).mkdir()
        lines = [article | {"title": f"{folder}{end}"} for end in (0, 1, 2, " (disambiguation)")]
        lines.append(article | {"title": "x", "text": ""})
        read("wikiextractor", tmp_path / folder / "wiki_00.bz2", *lines, opener=bz2.open)
    documents, dropped = read("wikiextractor", tmp_path)
    names = [f"{folder}{end}" for folder in ("AA", "AB") for end in (0, 1, 2, " (disambiguation)")]
    assert [each.address for each in documents] == names
    assert [each.is_disambiguation for each in documents] == [name.endswith(")") for name in names]
    assert {each.text[: each.lead_end] for each in documents} == {"Lead."}
    assert [each.reason for each in dropped] == 2 * [*4 * ["link-malformed"], "page-empty"]


def anchor(text, first, last, passage="A passage."):
    return {"text": text, "pos": [first, last], "passage": passage}


def test_sentences_and_passages(tmp_path):
    anchors = [anchor("old town", 1, 2), anchor("River Ä", 5, 6, "A river."), anchor("by", 3, 3)]
    bad = [anchor("by", 3, 2), anchor("by", -1, 3), anchor("Ä.", 6, 7), anchor("old", 3, 3), anchor("by", 3, 3, "")]
    tokens = ["The", "“old", "town”,", "by", "the", "River", "Ä."]
    linked = {"tokenized_sentence": tokens, "anchors": [[each] for each in anchors + bad]}
    plain = {"tokenized_sentence": ["No", "link"], "anchors": []}
    (first, town, river, other), dropped = read("harp_json", tmp_path / "not-UTF-8-\udce9.jsonl", linked, plain)
    assert [first.text[start:end] for start, end, _ in first.links] == ["old town", "by", "River Ä"]
    assert [link.target for link in first.links] == [town.address, town.address, river.address]
    assert (town.text, town.lead_end, river.text, other.text) == ("A passage.", 10, "A river.", "No link")
    assert [each.reason for each in dropped] == ["anchor-malformed"] * len(bad)
    assert link_graph.losses_of(dropped)[0]["location"].endswith("not-UTF-8-\\udce9.jsonl line 1")
    assert len({document.id.encode() for document in (first, town, river, other)}) == 4
