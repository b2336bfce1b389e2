import bz2
import lzma

import pytest

from data_pipeline.sources import formats, mediawiki
from data_pipeline.sources.document import Link, LinkedDocument
from harp_jax.base.errors import InputError
from tests.support import source_reading
from tests.support.source_files import HEAD, TAIL, page, write


def read(path, **fields):
    return source_reading.read(source_reading.source("mediawiki", path, **fields))


SMALL = HEAD + page("Öbel", "'''Öbel''' is on the [[rhun|Rhun]]. [[Datei:x|y]]\n== A ==\nB.", 7)
SMALL += page("Obel", "#WEITERLEITUNG [[öbel]]", 8, redirect="Öbel") + page("Diskussion:Öbel", "no", 9, ns=1)


def test_reads_articles_and_redirects(tmp_path):
    (article, alias), dropped = read(write(tmp_path / "a.xz", SMALL + TAIL, lzma.open))
    assert article == LinkedDocument("Öbel", "7", "Öbel", "Öbel is on the Rhun.\nB.", (Link(15, 19, "Rhun"),), 20)
    assert alias == LinkedDocument("Obel", "8", "Obel", "", (), 0, redirect="Öbel")
    assert dropped == [
        (f"{tmp_path}/a.xz: Öbel", "link-outside-prose", "1 of 2", 1),  # the file
        (f"{tmp_path}/a.xz: Diskussion:Öbel", "page-namespace", "Diskussion:Öbel", 1),
    ]


def test_chunks_hold_whole_pages_wherever_blocks_end(tmp_path, monkeypatch):
    text = HEAD + "".join(page(f"P{i:03d}", f"Text {i}. " * (i % 7), i + 1) for i in range(200)) + TAIL
    expected, _ = read(write(tmp_path / "a.xml", text))
    monkeypatch.setattr(mediawiki, "CHUNK_BYTES", 3000)
    for block in (1, 7, 1000):
        monkeypatch.setattr(mediawiki, "BLOCK_BYTES", block)
        assert read(tmp_path / "a.xml")[0] == expected
        assert len(list(formats.chunks(source_reading.source("mediawiki", tmp_path / "a.xml")))) > 5


def test_kinds_of_pages(tmp_path):
    text = HEAD + page("A", "#redirect: [[b#c|d]]") + page("B", "#REDIRECT [[Diskussion:X]]") + page("C", "")
    text += page("D", "{}", model="json") + page("E", "x" * 300) + page("Diskussion:A", "b", ns="")
    text += "<page><title>Datei:J</title><id>5</id><revision><text>old export without ns</text></revision></page>"
    text += "<page><title>K</title><revision><text>one</text></revision><revision><text>two</text></revision></page>"
    write(tmp_path / "b.xml", "<mediawiki>" + page("L", "[[x]]y") + TAIL)  # without a <siteinfo>
    # Prefixes of other wikis belong to Wikimedia alone.
    head = HEAD.replace("<case>", "<base>https://wiki.corp.example/wiki/Main</base><case>")
    write(tmp_path / "c.xml", head + page("M", "[[HR: Vacation policy]] for [[fr:Chat]]") + TAIL)
    write(tmp_path / "a.xml", text + TAIL)
    documents, dropped = read(tmp_path / "*.xml", max_page_bytes=250)
    assert [(d.address, d.redirect, d.text) for d in documents] == [
        ("A", "B", ""), ("K", None, "two"), ("L", None, "xy"), ("M", None, "HR: Vacation policy for fr:Chat"),
    ]  # fmt: skip
    reasons = "redirect-namespace page-empty page-model page-too-large page-namespace page-namespace"
    assert [each.reason for each in dropped] == reasons.split()


@pytest.mark.parametrize("title,text,flag", [
    ("Mercury (Begriffsklärung)", "x", True), ("A", "one{{Human name disambiguation}}", True), ("A", "{{Disambig|x}}", True),
    ("A", "x\n[[Category:All disambiguation pages]]", True),
    ("A", "see [[:Category:Disambiguation pages]] and [[Word sense disambiguation]]", False),
    ("Disambiguation", "x {{disambiguation needed}}", False),
    # These take minutes if a pattern backtracks.
    *(("A", run * 40_000, False) for run in ("[[a:", "[[Kategorie:" + 30 * "x", "{{a a a ", "{{dab ")),
])  # fmt: skip
def test_disambiguation_is_told_by_title_templates_and_categories(title, text, flag):
    assert mediawiki.is_disambiguation(title, text) == flag


@pytest.mark.parametrize("data,part", [
    ("<html><page></page></html>", " is not a MediaWiki"), (SMALL + TAIL + "<more/>", " is truncated"),
    (SMALL + page("A", "x" * 99)[:80], " is truncated"), (SMALL.replace("</ns><id>8", "<id>8") + TAIL, ": Obel: broken XML"),
    (SMALL.replace('key="6"', 'key="six"') + TAIL, " has a broken <siteinfo>: .*six"),
])  # fmt: skip
def test_what_is_no_whole_dump_is_an_input_error(tmp_path, data, part):
    with pytest.raises(InputError, match=rf"bad\.xml{part}"):
        read(write(tmp_path / "bad.xml", data))


def test_odd_characters_are_replaced_and_counted(tmp_path):
    odd = [b"\xff", b"\0", b"&#0;", b"&#" + b"9" * 5000 + b";", b"\xed\xa0\x80"]
    pages = [page(f"{n}", "a@b&amp;").encode().replace(b"@", characters) for n, characters in enumerate(odd)]
    documents, dropped = read(write(tmp_path / "a.xml", HEAD.encode() + b"".join(pages) + TAIL.encode()))
    assert [document.text for document in documents] == [*4 * ["a\ufffdb&"], "a\ufffd\ufffd\ufffdb&"]
    assert [each.reason for each in dropped] == 5 * ["characters-replaced"]


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def multistream(path):
    """Writes a dump of 30 pages in which every five are a stream; returns where the streams begin."""
    pages = [page(f"Page: {n} & more", f"Text of {n} with [[Page {n}|a link]]. " * 30, n + 1) for n in range(30)]
    parts = [HEAD, *("".join(pages[n : n + 5]) for n in range(0, 30, 5)), TAIL]
    streams = [bz2.compress(part.encode()) for part in parts]
    write(path, b"".join(streams))
    return [sum(map(len, streams[:n])) for n in range(len(streams))]


def test_streams_of_pages_are_decompressed_by_the_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "CHUNK_BYTES", 6000)
    path = tmp_path / "a.xml.bz2"
    multistream(path)
    documents = read(write(tmp_path / "a.xml", bz2.open(path).read()))
    assert read(path) == documents and len(documents[0]) == 30
    assert len(list(formats.chunks(source_reading.source("mediawiki", path)))) == 2


def test_damage_costs_its_stream_and_names_the_place(tmp_path):
    path = tmp_path / "a.xml.bz2"
    starts = multistream(path)
    whole = path.read_bytes()
    expected = [document.title for document in read(path)[0]]
    # Damage in a stream's first bytes hides where it begins: the stream before is lost, too.
    for place, lost in ((starts[3], 2), (starts[3] + 20, 3), (starts[4] - 3, 3)):
        documents, dropped = read(write(path, flipped(whole, place)))
        assert [document.title for document in documents] == expected[: 5 * (lost - 1)] + expected[15:]
        assert [each[:2] for each in dropped] == [(f"{path} byte {starts[lost]}", "page-in-damaged-block")]
    cut_page = b"".join(bz2.compress(part.encode()) for part in (HEAD, page("A", "b")[:-9], TAIL))
    cut = [whole[:end] for end in (starts[-1] + 10, starts[-1], starts[1], starts[0] + 10)]
    two = [bz2.compress(SMALL.encode()), bz2.compress((page("B", "b" * 500) + TAIL).encode())]
    for damaged in (*cut, cut_page, b"".join(two)[:-20], two[0] + flipped(two[1], 40)):
        with pytest.raises(InputError, match=r"a\.xml\.bz2 is (truncated|damaged|not a MediaWiki)"):
            read(write(path, damaged))
