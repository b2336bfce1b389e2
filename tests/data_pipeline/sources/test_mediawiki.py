import bz2
import gzip
import lzma

import pytest

from data_pipeline.sources import formats, mediawiki
from data_pipeline.sources.document import Link
from harp_jax.base.errors import InputError
from tests.support import source_reading
from tests.support.source_files import HEAD, TAIL, page, write


def read(path, **fields):
    return source_reading.read(source_reading.source("mediawiki", path, **fields))


SMALL = HEAD + page("Öbel", "'''Öbel''' is on the [[rhun|Rhun]]. [[Datei:x|y]]\n== A ==\nB.", 7)
SMALL += page("Obel", "#WEITERLEITUNG [[öbel]]", 8, redirect="Öbel") + page("Diskussion:Öbel", "no", 9, ns=1)
OPENERS = {"a.xml": open, "a.gz": gzip.open, "a.xml.bz2": bz2.open, "a.xz": lzma.open}


@pytest.mark.parametrize("name", OPENERS)
def test_reads_articles_and_redirects(tmp_path, name):
    (article, alias), dropped = read(write(tmp_path / name, SMALL + TAIL, OPENERS[name]))
    assert (article.address, article.id, article.title) == ("Öbel", "7", "Öbel")
    assert article.text == "Öbel is on the Rhun.\nB." and article.links == (Link(15, 19, "Rhun"),)
    assert article.text[: article.lead_end] == "Öbel is on the Rhun." and article.redirect is None
    assert (alias.address, alias.redirect, alias.text, alias.links) == ("Obel", "Öbel", "", ())
    assert dropped == [
        (f"{tmp_path / name}: Öbel", "link-outside-prose", "1 of 2", 1),  # the file
        (f"{tmp_path / name}: Diskussion:Öbel", "page-namespace", "Diskussion:Öbel", 1),
    ]


def test_chunks_hold_whole_pages_wherever_blocks_end(tmp_path, monkeypatch):
    text = HEAD + "".join(page(f"P{i:03d}", f"Text {i}. " * (i % 7), i + 1) for i in range(200)) + TAIL
    expected, _ = read(write(tmp_path / "a.xml", text))
    for block in (1, 7, 64, 1000):
        monkeypatch.setattr(mediawiki, "_BLOCK", block)
        monkeypatch.setattr(mediawiki, "CHUNK_BYTES", 3000)
        assert read(tmp_path / "a.xml")[0] == expected
        assert len(list(formats.chunks(source_reading.source("mediawiki", tmp_path / "a.xml")))) > 5


def test_kinds_of_pages(tmp_path):
    text = HEAD + page("A", "#redirect: [[b#c|d]]") + page("B", "#REDIRECT [[Diskussion:X]]") + page("C", "")
    text += page("D", "{}", model="json") + page("E", "x" * 300)
    text += page("Old", "a", ns="x") + page("Diskussion:A", "b", ns="")
    text += "<page><title>Datei:J</title><id>5</id><revision><text>old export without ns</text></revision></page>"
    text += "<page><title>K</title><id>6</id><revision><text>one</text></revision>"
    text += "<revision><text>two</text></revision></page>"
    write(tmp_path / "b.xml", "<mediawiki>" + page("L", "[[x]]y") + TAIL)  # without a <siteinfo>
    write(tmp_path / "a.xml", text + TAIL)
    documents, dropped = read(tmp_path / "*.xml", max_page_bytes=250)
    assert [d.address for d in documents] == ["A", "Old", "K", "L"]
    assert documents[0].redirect == "B" and documents[2].text == "two"
    reasons = "redirect-namespace page-empty page-model page-too-large page-namespace page-namespace"
    assert [each.reason for each in dropped] == reasons.split()


@pytest.mark.parametrize(
    "title,text,flag",
    [
        ("Mercury (Begriffsklärung)", "x", True), ("A", "{{Disambig|x}}", True), ("A", "one{{Human name disambiguation}}", True),
        ("A", "x\n[[Category:All disambiguation pages]]", True), ("A", "x\n[[Catégorie:Homonymie]]", True),
        ("A", "see [[:Category:Disambiguation pages]] and [[Word sense disambiguation]]", False),
        ("Disambiguation", "x {{disambiguation needed}}", False),
        # These take minutes if a pattern backtracks.
        *(("A", run * 40_000, False) for run in ("[[a:", "[[Kategorie:" + 30 * "x", "{{disambig", "{{a a a ", "{{dab ", "{{ ")),
    ],
)  # fmt: skip
def test_disambiguation_is_told_by_title_templates_and_categories(title, text, flag):
    assert mediawiki.is_disambiguation(title, text) == flag


def test_prefixes_of_other_wikis_belong_to_wikimedia_alone(tmp_path):
    for host, targets in (("wiki.corp.example", ["HR: Vacation policy", "IT:Onboarding"]), ("de.wikipedia.org", [])):
        head = HEAD.replace("<case>", f"<base>https://{host}/wiki/Main</base><case>")
        dump = head + page("A", "Read the [[HR: Vacation policy]] and [[IT:Onboarding|the steps]] first.") + TAIL
        (document,), _ = read(write(tmp_path / "a.xml", dump))
        assert [link.target for link in document.links] == targets


@pytest.mark.parametrize(
    "data,part",
    [
        ("<html><page></page></html>", "not a MediaWiki"), (SMALL, "truncated"),
        (SMALL + page("Cut", "x" * 99)[:80], "truncated"), (SMALL + TAIL + "<more/>", "truncated"),
        (SMALL.replace("<case>", "<case"), "broken <siteinfo>"),
        (SMALL.replace("</ns><id>8", "<ns><id>8") + TAIL, "broken XML"),
        (SMALL.replace('key="6"', 'key="six"') + TAIL, "broken <siteinfo>: .*six"),
    ],
)  # fmt: skip
def test_what_is_no_whole_dump_is_an_input_error(tmp_path, data, part):
    with pytest.raises(InputError, match=part) as error:
        read(write(tmp_path / "bad.xml", data))
    assert "bad.xml" in str(error.value)
    if part in ("truncated", "broken XML") and "<id>7" in data:
        assert "bel'" in str(error.value)  # the last complete page


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def test_odd_characters_are_replaced_and_counted(tmp_path):
    odd = {"Bytes": b"\xff", "Nul": b"\0", "Reference": b"&#0;&#65;", "Surrogate": b"\xed\xa0\x80"}
    pages = [page(title, "a@b&amp;").encode().replace(b"@", characters) for title, characters in odd.items()]
    documents, dropped = read(write(tmp_path / "a.xml", SMALL.encode() + b"".join(pages) + TAIL.encode()))
    texts = {document.title: document.text for document in documents}
    assert texts["Bytes"] == texts["Nul"] == "a\ufffdb&" and texts["Reference"] == "a\ufffdAb&"
    assert [each.reason for each in dropped].count("characters-replaced") == 4


def multistream(path, blocks=6):
    """Writes a dump in which every five pages are a stream; returns where the streams begin."""
    pages = [
        page(f"Page: {n} & more", f"Text of {n} with [[Page {n}|a link]]. " * 30, n + 1) for n in range(5 * blocks)
    ]
    parts = [HEAD, *("".join(pages[n : n + 5]) for n in range(0, len(pages), 5)), TAIL]
    streams = [bz2.compress(part.encode()) for part in parts]
    write(path, b"".join(streams))
    return [sum(map(len, streams[:n])) for n in range(len(streams))]


@pytest.mark.parametrize(("chunk_bytes", "chunks"), [(1, 7), (1500, 2), (1 << 20, 1)])
def test_streams_of_pages_are_decompressed_by_the_workers(tmp_path, monkeypatch, chunk_bytes, chunks):
    monkeypatch.setattr(mediawiki, "_COMPRESSED_BYTES", chunk_bytes)
    multistream(tmp_path / "a.xml.bz2")
    documents = read(write(tmp_path / "a.xml", bz2.open(tmp_path / "a.xml.bz2").read()))
    assert read(tmp_path / "a.xml.bz2") == documents and len(documents[0]) == 30
    assert len(list(formats.chunks(source_reading.source("mediawiki", tmp_path / "a.xml.bz2")))) == chunks


def test_damage_costs_its_stream_and_names_the_place(tmp_path):
    path = tmp_path / "a.xml.bz2"
    starts = multistream(path)
    whole = path.read_bytes()
    expected = [document.title for document in read(path)[0]]
    # Damage in a stream's first bytes hides where it begins: the stream before is lost, too.
    for place, lost in ((starts[3], 2), (starts[3] + 20, 3), (starts[4] - 3, 3)):
        documents, dropped = read(write(path, flipped(whole, place)))
        assert [document.title for document in documents] == expected[: 5 * (lost - 1)] + expected[15:]
        assert [(each.reason, each.where) for each in dropped] == [
            ("page-in-damaged-block", f"{path} byte {starts[lost]}")
        ]
    within_a_page, plain = (
        b"".join(bz2.compress(part.encode()) for part in parts)
        for parts in ((HEAD, page("A", "b")[:-9], TAIL), (SMALL, page("B", "b" * 500), TAIL))
    )
    second = len(bz2.compress(SMALL.encode()))
    cut = [whole[:end] for end in (starts[-1] + 10, starts[-1], starts[1], starts[0] + 10)]
    for damaged in (*cut, within_a_page, plain[:-20], flipped(plain, second), flipped(plain, second + 40)):
        with pytest.raises(InputError, match=r"a\.xml\.bz2 is (truncated|damaged|not a MediaWiki)"):
            read(write(path, damaged))
