"""Multistream dumps with their index: the same pages as without it, damage told by its place."""

import bz2

import pytest

from data_pipeline.sources import formats
from data_pipeline.sources import mediawiki as wiki_dump
from harp_jax.base.errors import InputError
from tests.support.mediawiki_dump import HEAD, TAIL, page, write
from tests.support.source_reading import read, source


def dump(folder, blocks=6, pages=5, text="Text of {0} with [[Page {0}|a link]]. "):
    """A dump and its index; returns the source and the bytes where the blocks begin."""
    streams, lines, offset = [bz2.compress(HEAD.encode())], [], 0
    for block in range(blocks):
        offset = sum(map(len, streams))
        content = ""
        for number in range(block * pages, (block + 1) * pages):
            content += page(f"Page: {number} & more", text.format(number) * 30, number + 1)
            lines.append(f"{offset}:{number + 1}:Page: {number} &amp; more")
        streams.append(bz2.compress(content.encode()))
    write(folder / "a.xml.bz2", b"".join([*streams, bz2.compress(TAIL.encode())]))
    write(folder / "a-index.txt.bz2", "\n".join(lines) + "\n", bz2.open)
    starts = sorted({int(line.split(":")[0]) for line in lines})
    return source("mediawiki", folder / "a.xml.bz2", index=(str(folder / "a-index.txt.bz2"),)), starts


@pytest.mark.parametrize("chunk_bytes", [1, 1500, 1 << 20])
def test_the_same_documents_as_without_the_index(tmp_path, monkeypatch, chunk_bytes):
    monkeypatch.setattr(wiki_dump, "_COMPRESSED_BYTES", chunk_bytes)
    where, _ = dump(tmp_path)
    number = len(list(formats.chunks(where)))
    assert number == {1: 6, 1500: number, 1 << 20: 1}[chunk_bytes]
    assert read(where) == read(where | {"index": ()}) and len(read(where)[0]) == 30


def test_damage_costs_its_block_and_names_the_place(tmp_path):
    where, starts = dump(tmp_path)
    path = tmp_path / "a.xml.bz2"
    whole = path.read_bytes()
    expected = [document.title for document in read(where)[0]]
    for place in (starts[2], starts[2] + 20, (starts[2] + starts[3]) // 2, starts[3] - 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        documents, dropped = read(where)
        assert [document.title for document in documents] == expected[:10] + expected[15:]
        assert [each.reason for each in dropped] == ["page-in-damaged-block"] * 5
        assert dropped[0].where == f"{path} byte {starts[2]}" and dropped[0].example == "Page: 10 &amp; more"


def test_a_block_with_a_huge_page_stays_small_in_memory(tmp_path):
    import tracemalloc

    head, tail = bz2.compress(HEAD.encode()), bz2.compress(TAIL.encode())
    block = bz2.compress((page("A", "x" * (40 << 20), 1) + page("B", "[[c]]", 2)).encode())
    write(tmp_path / "a.xml.bz2", head + block + tail)
    write(tmp_path / "i.txt", f"{len(head)}:1:A\n{len(head)}:2:B\n")
    where = source("mediawiki", tmp_path / "a.xml.bz2", index=(str(tmp_path / "i.txt"),), max_page_bytes=1 << 16)
    tracemalloc.start()
    documents, dropped = read(where)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [document.title for document in documents] == ["B"] and dropped[0].reason == "page-too-large"
    assert peak < 12 << 20


@pytest.mark.parametrize("kept", [slice(-10), slice(-len(bz2.compress(TAIL.encode()))), slice(1000), slice(0)])
def test_a_truncated_dump_is_an_input_error(tmp_path, kept):
    where, _ = dump(tmp_path)
    path = tmp_path / "a.xml.bz2"
    path.write_bytes(path.read_bytes()[kept])
    with pytest.raises(InputError, match=r"a\.xml\.bz2 is (truncated|damaged)"):
        read(where)


def test_an_index_that_does_not_fit_is_an_input_error(tmp_path):
    where, _ = dump(tmp_path)
    with pytest.raises(InputError, match="one index per dump"):
        read(where | {"paths": where["paths"] * 2})
    lines = bz2.open(tmp_path / "a-index.txt.bz2", "rt").read().splitlines()
    for broken, part in (
        ([line.replace("Page: ", "Side ") for line in lines], "does not belong to .*a.xml.bz2"),
        ([f"{int(line.split(':')[0]) + 1}:1:a" for line in lines], "does not belong to"),
        ([], "does not belong to"),
        ([*lines[:-1]], "names 4 pages"),
        (lines[::-1], "line 6"),
        (["x", *lines], "line 1"),
        ([*lines, "99999999:9:Z"], "line 31: .* below the"),
    ):
        write(tmp_path / "broken.txt", "\n".join(broken))
        with pytest.raises(InputError, match=part):
            read(where | {"index": (str(tmp_path / "broken.txt"),)})
