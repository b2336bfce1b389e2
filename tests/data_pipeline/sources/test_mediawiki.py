import bz2
import gzip
import lzma
import tracemalloc

import pytest

from data_pipeline.sources import formats
from data_pipeline.sources import mediawiki as dump
from data_pipeline.sources.document import Link
from harp_jax.base.errors import InputError
from tests.support import source_reading
from tests.support.mediawiki_dump import HEAD, TAIL, page, write


def read(path, **fields):
    return source_reading.read(source_reading.source("mediawiki", path, **fields))


SMALL = HEAD + page("Öbel", "'''Öbel''' is on the [[rhun|Rhun]]. [[Datei:x|y]]\n== A ==\nB.", 7)
SMALL += page("Obel", "#WEITERLEITUNG [[öbel]]", 8, redirect="Öbel") + page("Diskussion:Öbel", "no", 9, ns=1)


@pytest.mark.parametrize(
    "name,opener", [("a.xml", open), ("a.gz", gzip.open), ("a.xml.bz2", bz2.open), ("a.xz", lzma.open)]
)
def test_reads_articles_and_redirects(tmp_path, name, opener):
    (article, alias), dropped = read(write(tmp_path / name, SMALL + TAIL, opener))
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
        monkeypatch.setattr(dump, "_BLOCK", block)
        monkeypatch.setattr(dump, "CHUNK_BYTES", 3000)
        assert read(tmp_path / "a.xml")[0] == expected
        assert len(list(formats.chunks(source_reading.source("mediawiki", tmp_path / "a.xml")))) > 5


def test_kinds_of_pages(tmp_path):
    text = HEAD
    text += page("A", "#redirect: [[b#c|d]]") + page("B", "#REDIRECT [[Diskussion:X]]") + page("C", "")
    text += page("D", "{}", model="json") + page("E", "x" * 300) + page("F", "{{Disambig|x}}")
    text += page("G (disambiguation)", "g")
    text += page("H", "x {{disambiguation needed|date=y}}") + page("I", "one{{Human name disambiguation}}")
    text += "<page><title>Datei:J</title><id>5</id><revision><text>old export without ns</text></revision></page>"
    text += "<page><title>K</title><id>6</id><revision><text>one</text></revision>"
    text += "<revision><text>two</text></revision></page>"
    documents, dropped = read(write(tmp_path / "a.xml", text + TAIL), max_page_bytes=250)
    assert [d.address for d in documents] == ["A", "F", "G (disambiguation)", "H", "I", "K"]
    assert [d.is_disambiguation for d in documents] == [False, True, True, False, True, False]
    assert documents[0].redirect == "B" and documents[-1].text == "two"
    assert [each.reason for each in dropped] == [
        "redirect-namespace", "page-empty", "page-model", "page-too-large", "page-namespace",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "title,text,flag",
    [
        ("Mercury (Begriffsklärung)", "x", True),
        ("A", "x\n[[Category:All disambiguation pages]]", True),
        ("A", "x\n[[Kategorie: Begriffsklärung]]", True),
        ("A", "x\n[[Catégorie:Homonymie]]", True),
        ("A", "x\n{{Place name disambiguation|a}}", True),
        ("A", "see [[:Category:Disambiguation pages]] and [[Word sense disambiguation]]", False),
        ("Disambiguation", "x {{disambiguation needed}}", False),
    ],
)
def test_disambiguation_is_a_flag_of_title_templates_and_categories(tmp_path, title, text, flag):
    ((document,), _) = read(write(tmp_path / "a.xml", HEAD + page(title, text) + TAIL))
    assert document.is_disambiguation == flag


@pytest.mark.parametrize("run", ["[[a:", "[[Kategorie:" + 30 * "x", "{{disambig", "{{a a a ", "{{dab ", "{{ ", "[[a"])
def test_looking_for_disambiguation_returns(run):
    assert not dump.is_disambiguation("A", run * 40_000)  # minutes, where a pattern looks twice


def test_a_page_of_any_size_is_skipped_in_flat_memory(tmp_path):
    path = tmp_path / "a.xml"
    with open(path, "w") as file:
        file.write(HEAD + page("First", "a"))
        file.write(f"<page><title>Huge</title><ns>0</ns><id>2</id><revision><text>{'x' * 1000}")
        for _ in range(30):
            file.write("[[" * (1 << 19))
        file.write("</text></revision></page>" + page("Last", "z") + TAIL)
    tracemalloc.start()
    documents, dropped = read(path, max_page_bytes=1 << 16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [d.title for d in documents] == ["First", "Last"]
    ((where, reason, example, _),) = dropped
    assert where.endswith("a.xml: Huge") and reason == "page-too-large" and 31.4e6 < int(example.split()[0]) < 31.5e6
    assert peak < 12 << 20


def test_prefixes_of_other_wikis_belong_to_wikimedia_alone(tmp_path):
    text = "Read the [[HR: Vacation policy]] and [[IT:Onboarding|the steps]] first. [[de:Titel]]"
    for base, shown, targets in (
        ("https://wiki.corp.example/index.php/Main", text.replace("[", "").replace("]", ""), 3),
        ("https://de.wikipedia.org/wiki/Haupt", "Read the and first.", 0),
    ):
        head = HEAD.replace("<case>", f"<base>{base}</base><case>")
        (document,), _ = read(write(tmp_path / "a.xml", head + page("A", text) + TAIL))
        assert len(document.links) == targets
        assert document.text == shown.replace("IT:Onboarding|", "")


def test_a_namespace_that_is_no_number_is_told_by_the_title(tmp_path):
    text = HEAD + page("A", "a", ns="x") + page("Diskussion:A", "b", ns="") + TAIL
    documents, dropped = read(write(tmp_path / "a.xml", text))
    assert [d.title for d in documents] == ["A"] and [each.reason for each in dropped] == ["page-namespace"]


@pytest.mark.parametrize(
    "data,part",
    [
        ("", "not a MediaWiki"),
        ("<html><page></page></html>", "not a MediaWiki"),
        (SMALL, "truncated"),
        (SMALL + page("Cut", "x" * 99)[:80], "truncated"),
        (HEAD[:-30] + TAIL, "truncated"),
        (SMALL + TAIL + "<more/>", "truncated"),
        (SMALL.replace("<case>", "<case"), "broken <siteinfo>"),
        (SMALL.replace("</ns><id>8", "<ns><id>8") + TAIL, "broken XML"),
        (SMALL.replace('key="6"', 'key="six"') + TAIL, "broken <siteinfo>: .*six"),
    ],
)
def test_what_is_no_whole_dump_is_an_input_error(tmp_path, data, part):
    with pytest.raises(InputError, match=part) as error:
        read(write(tmp_path / "bad.xml", data))
    assert "bad.xml" in str(error.value)
    if part in ("truncated", "broken XML") and "<id>7" in data:
        assert "bel'" in str(error.value)  # the last page that is whole


def test_damaged_compression_is_an_input_error(tmp_path):
    streams = [bz2.compress(part.encode()) for part in (SMALL, page("Second", "b" * 500), TAIL)]
    path = tmp_path / "a.xml.bz2"
    assert len(read(write(path, b"".join(streams)))[0]) == 3
    damaged = bytearray(b"".join(streams))
    damaged[len(streams[0])] ^= 0xFF  # the head of a stream: Python's bz2 ends there without a word
    with pytest.raises(InputError, match=r"a\.xml\.bz2 is truncated .*Diskussion:Öbel"):
        read(write(path, bytes(damaged)))
    damaged = bytearray(b"".join(streams))
    damaged[len(streams[0]) + 40] ^= 0xFF
    with pytest.raises(InputError, match=r"a\.xml\.bz2 is (damaged|truncated)"):
        read(write(path, bytes(damaged)))
    with pytest.raises(InputError, match=r"a\.xml\.bz2 is damaged"):
        read(write(path, b"".join(streams)[:-20]))


def test_odd_characters_are_replaced_and_counted(tmp_path):
    data = SMALL.encode()
    data += page("Bytes", "a@b").encode().replace(b"@", b"\xff") + page("Nul", "a@b").encode().replace(b"@", b"\0")
    data += page("Reference", "a@b&amp;").encode().replace(b"@", b"&#0;&#65;")
    data += page("Surrogate", "a@b").encode().replace(b"@", b"\xed\xa0\x80") + TAIL.encode()
    documents, dropped = read(write(tmp_path / "a.xml", data))
    texts = {document.title: document.text for document in documents}
    assert texts["Bytes"] == texts["Nul"] == "a\ufffdb" and texts["Reference"] == "a\ufffdAb&"
    assert [each.reason for each in dropped].count("characters-replaced") == 4


def test_several_files_follow_each_other(tmp_path):
    write(tmp_path / "1.xml", HEAD + page("A", "a") + TAIL)
    write(tmp_path / "2.xml", "<mediawiki>" + page("B", "[[x]]y") + TAIL)
    documents, _ = read(tmp_path / "*.xml")
    assert [document.title for document in documents] == ["A", "B"]
    with pytest.raises(InputError, match="no file"):
        read(tmp_path / "none.xml")
