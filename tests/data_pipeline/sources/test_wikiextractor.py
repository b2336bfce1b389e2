import bz2
import html
import json

import pytest

from data_pipeline.sources.json_formats import plain_text
from harp_jax.base.errors import InputError
from tests.support import source_reading
from tests.support.steps import check_linear


def article(number, title, text):
    return json.dumps({"id": str(number), "url": "https://en.wikipedia.org/wiki?curid=1", "title": title, "text": text})


def read(*paths, **fields):
    return source_reading.read(source_reading.source("wikiextractor", *paths, **fields))


def shown(text):
    return source_reading.shown(plain_text(text, "T"))


RAW = 'The <a href="Bus%20%28vehicle%29">bus</a> of <a href="AT%26T">AT&T</a> &c.'


def test_escaped_and_plain_links_read_the_same():
    expected = "The [bus->Bus (vehicle)] of [AT&T->AT&T] &c."
    assert shown(RAW) == shown(html.escape(RAW, quote=False)) == shown(html.escape(RAW)) == expected


@pytest.mark.parametrize(
    "text,expected",
    [
        ("T\n\none\ntwo\n\nthree", "one\ntwo\nthree"),
        ("Lead.\nSection::::Life.\nBULLET::::- item\nBULLET::::- more", "Lead.\nitem\nmore"),
        ('<a href="eiffel%20tower#Past">the tower</a>', "[the tower->Eiffel tower]"),
        ('<a href="File:x.jpg">f</a> <a href="wikt:y">g</a> <a href="#z">h</a>', "f g h"),
        ('<a href="x"> a </a>b<a href="y"></a>c', "[a->X] bc"),
        ('<a href="x">a <a href="y">b</a> c</a>', "a [b->Y] c"),
        ('<a href="x">a\nb</a>', "a\nb"),
        ('<a href="x">a <i>b</i> < c</a>', "[a b < c->X]"),
        ("a\0b\x02\ud800&#3;c<br>d<nowiki>e", "abcde"),
        ("", ""),
    ],
)
def test_text_and_links(text, expected):
    assert shown(text.replace("\ud800", "")) == expected


def test_sections_and_what_is_dropped():
    plain = plain_text('Lead.\nSection::::A.\nBody <a href="x">y.', "T")
    assert plain.text[: plain.lead_end] == "Lead." and plain.dropped == [("link-malformed", '<a href="x">')]
    assert plain_text("One.\nTwo.", "T").lead_end == len("One.\nTwo.")


def test_folders_of_plain_and_compressed_files(tmp_path):
    for folder, name in (("AA", "wiki_00"), ("AA", "wiki_01"), ("AB", "wiki_00.bz2")):
        (tmp_path / folder).mkdir(exist_ok=True)
        lines = f"{article(len(name), f'{folder} {name[5:7]}', RAW)}\n{article(9, 'Empty', '')}\n"
        (tmp_path / folder / name).write_bytes(bz2.compress(lines.encode()) if name.endswith("bz2") else lines.encode())
    documents, dropped = read(tmp_path)
    assert [document.address for document in documents] == ["AA 00", "AA 01", "AB 00"]
    assert [each.reason for each in dropped] == ["page-empty"] * 3
    with open(tmp_path / "large", "w") as file:
        file.write(article(1, "L", "x" * 5000) + "\n" + article(2, "bus (disambiguation)", "Buses."))
    (document,), dropped = read(tmp_path / "large", max_page_bytes=5000)
    assert document.address == "Bus (disambiguation)" and document.is_disambiguation
    assert [(each.reason, each.where) for each in dropped] == [("page-too-large", f"{tmp_path / 'large'} line 1")]


@pytest.mark.parametrize(
    "line,part",
    [
        ("<doc id=1>", "--json"),
        ('{"id": 3, "title": "t", "text": ""}', "'id'"),
        (b"\xff", "line 2"),
    ],
)
def test_other_lines_are_input_errors(tmp_path, line, part):
    (tmp_path / "wiki_00").write_bytes(
        (article(1, "a", "b") + "\n").encode() + (line if isinstance(line, bytes) else line.encode())
    )
    with pytest.raises(InputError, match=part):
        read(tmp_path)


@pytest.mark.parametrize(
    "markup", ['<a href="x">', "</a>", '<a href="', "<a ", '<a href="x">y</a>', "&lt;a", "Section::::\n"]
)
def test_unbalanced_links_take_linear_steps(markup):
    check_linear(lambda n: plain_text(markup * n, "T"))
    plain_text(markup * 40000, "T")  # a quadratic pattern would take minutes
