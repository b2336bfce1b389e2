"""The real dump excerpt packed as multistream: the same documents by its index, and a damaged block by its place."""

import bz2
import html
import re

import pytest

from data_pipeline.sources import formats
from tests.support.shared_data import shared

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    with bz2.open(shared("dumps", "enwiki-excerpt.xml.bz2")) as file:
        head, *pages = re.split(rb"(?=  <page>\n)", file.read())
    body, tail = pages[-1].split(b"</mediawiki>")[0], b"</mediawiki>\n"
    pages[-1] = body
    folder = tmp_path_factory.mktemp("dump")
    data, lines, starts = bz2.compress(head), [], []
    for first in range(0, len(pages), 20):
        starts.append(len(data))
        for page in pages[first : first + 20]:
            title, number = re.search(rb"<title>(.*?)</title>.*?<id>(\d+)</id>", page, re.S).groups()
            lines.append(f"{len(data)}:{number.decode()}:{html.unescape(title.decode())}")
        data += bz2.compress(b"".join(pages[first : first + 20]))
    (folder / "dump.xml.bz2").write_bytes(data + bz2.compress(tail))
    (folder / "index.txt.bz2").write_bytes(bz2.compress(("\n".join(lines) + "\n").encode()))
    return folder, starts


def read(path, *index):
    source = {"format": "mediawiki", "paths": (str(path),), "index": tuple(map(str, index)), "redirects": ()}
    source["max_page_bytes"] = 2 << 20
    parsed = [formats.parse(chunk, source) for chunk in formats.chunks(source)]
    return [document for documents, _ in parsed for document in documents], [
        each for _, some in parsed for each in some
    ]


def test_blocks_give_the_documents_of_the_whole_dump(packed):
    folder, _ = packed
    documents, dropped = read(folder / "dump.xml.bz2", folder / "index.txt.bz2")
    expected, expected_dropped = read(shared("dumps", "enwiki-excerpt.xml.bz2"))
    assert documents == expected and len(documents) == 205
    assert [each[1:] for each in dropped] == [each[1:] for each in expected_dropped]


def test_a_damaged_block_costs_its_pages(packed):
    folder, starts = packed
    data = bytearray((folder / "dump.xml.bz2").read_bytes())
    data[starts[4] + 5000] ^= 1
    (folder / "damaged.xml.bz2").write_bytes(data)
    documents, dropped = read(folder / "damaged.xml.bz2", folder / "index.txt.bz2")
    damaged = [each for each in dropped if each.reason == "page-in-damaged-block"]
    assert len(damaged) == 20 and damaged[0].where == f"{folder / 'damaged.xml.bz2'} byte {starts[4]}"
    whole, _ = read(folder / "dump.xml.bz2", folder / "index.txt.bz2")
    lost = {each.example for each in damaged}
    assert documents == [document for document in whole if document.title not in lost]
