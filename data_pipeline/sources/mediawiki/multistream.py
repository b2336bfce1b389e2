"""MediaWiki multistream dumps with their index: blocks of about 100 pages, each a bz2 stream, decompressed by the workers.

The index (`source.index`, one file for each of `source.paths`, in their order) lists at which byte a block begins and which
pages it contains. A damaged block loses only its own pages, which are counted as `page-in-damaged-block` with the byte where
it begins. A truncated dump and the index of another dump are InputErrors.
"""

import bz2
import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from data_pipeline.sources.document import CHUNK_BYTES, Chunk, Dropped, Source, chunk_name
from data_pipeline.sources.mediawiki import pages_xml
from harp_jax.base import files
from harp_jax.base.errors import InputError

# bz2 compresses wikitext to about a quarter.
_CHUNK_BYTES = CHUNK_BYTES // 4
_READ_BYTES = 1 << 20
_TAIL_BYTES = 4 << 20
_DAMAGED_IN_A_ROW = 3  # more damaged blocks at the beginning mean an index of another dump
_NUMBER = re.compile(r"[0-9]{1,18}")
_BLOCK_MAGIC = b"1AY&SY"  # of the first block of a bz2 stream, after "BZh" and a digit


class Block(NamedTuple):
    """The bytes of a bz2 stream in the file, and the titles of its pages in the index."""

    start: int
    end: int
    titles: tuple[str, ...]


class Blocks(NamedTuple):
    """The payload of a chunk: consecutive blocks of a file."""

    path: str
    siteinfo: pages_xml.SiteInfo
    blocks: tuple[Block, ...]


def chunks(source: Source) -> Iterator[Chunk]:
    """Payload: `Blocks`. Raises InputError if an index is missing, damaged, or of another dump."""
    paths, indices = files.expand(tuple(source["paths"])), files.expand(tuple(source["index"]))
    if len(paths) != len(indices):
        raise InputError(
            f"config.source.index names {len(indices)} files and config.source.paths {len(paths)}; name one index per dump"
        )
    for file_number, (path, index) in enumerate(zip(paths, indices)):
        number = damaged = 0
        fits = False
        taken: list[Block] = []
        size = _size(path)
        try:
            siteinfo, _ = pages_xml.read_siteinfo(path, pages_xml.read_blocks(path))
        except pages_xml.DAMAGE as error:
            raise InputError(f"{path} is damaged: {error}; download it again") from error
        for block in _blocks(path, index, size):
            if not fits:
                fits = _fits(path, index, block)
                damaged += not fits
                if damaged > _DAMAGED_IN_A_ROW:
                    raise InputError(
                        f"{index} does not belong to {path}, or its first blocks are damaged; download both again"
                    )
            taken.append(block)
            if block.end - taken[0].start >= _CHUNK_BYTES:
                yield Chunk(chunk_name(file_number, path, number), Blocks(path, siteinfo, tuple(taken)))
                number, taken = number + 1, []
        if taken:
            yield Chunk(chunk_name(file_number, path, number), Blocks(path, siteinfo, tuple(taken)))


def payloads(chunk: Blocks, max_page_bytes: int, dropped: list[Dropped]) -> Iterator[pages_xml.PageBytes]:
    """The pages of each intact block; the pages of damaged blocks are appended to `dropped`.

    Raises InputError if an intact block does not contain the pages that the index lists.
    """
    for block in chunk.blocks:
        where = f"{chunk.path} byte {block.start}"
        stream = _decompressed(chunk.path, block)
        cut = pages_xml.split_pages(chunk.path, chunk.siteinfo, stream, max_page_bytes)
        try:
            found = list(cut)
        except InputError:
            dropped.extend(Dropped(where, "page-in-damaged-block", title) for title in block.titles)
            continue
        pages = sum(payload.pages.count(b"<page>") + len(payload.too_large) for payload in found)
        if pages != len(block.titles):
            raise InputError(
                f"the index names {len(block.titles)} pages at {where}, there are {pages}; download both again"
            )
        yield from found


def _blocks(path: str, index: str, size: int) -> Iterator[Block]:
    start = -1
    titles: list[str] = []
    for number, line in files.lines(index):
        offset, _, rest = line.partition(":")
        page, colon, title = rest.partition(":")
        if not (_NUMBER.fullmatch(offset) and _NUMBER.fullmatch(page) and colon and start <= int(offset)):
            raise InputError(
                f"expected 'byte:page:title' with bytes in order; {index} line {number}; download it again"
            )
        if int(offset) >= size:
            raise InputError(f"{path} is truncated: {index} names byte {offset}, it has {size}; download it again")
        if int(offset) > start and titles:
            yield Block(start, int(offset), tuple(titles))
            titles = []
        start = int(offset)
        titles.append(title)
    if not titles:
        raise InputError(f"{index} is empty; download it again")
    yield Block(start, size, tuple(titles))


def _size(path: str) -> int:
    """The size of a dump; InputError unless its last stream is intact and ends the XML."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the path and its permissions") from error
    try:
        end = bz2.decompress(tail[max(0, tail.rfind(_BLOCK_MAGIC) - len("BZh9")) :])
    except (OSError, ValueError):
        end = b""
    if not pages_xml.END.fullmatch(end[-_TAIL_BYTES:].rpartition(b"</page>")[2]):
        raise InputError(f"{path} is truncated or damaged: no </mediawiki> at its end; download it again")
    return size


def _decompressed(path: str, block: Block) -> Iterator[bytes]:
    """The block's decompressed bytes, at most 1 MiB at a time; raises OSError or EOFError if it is damaged."""
    with open(path, "rb") as file:
        file.seek(block.start)
        left = block.end - block.start
        while left:
            stream, data = bz2.BZ2Decompressor(), b""
            while not stream.eof:
                if stream.needs_input:
                    data = file.read(min(left, _READ_BYTES))
                    left -= len(data)
                    if not data:
                        raise EOFError("the stream is truncated")
                yield stream.decompress(data, _READ_BYTES)
                data = b""
            file.seek(-len(stream.unused_data), 1)
            left += len(stream.unused_data)


def _fits(path: str, index: str, block: Block) -> bool:
    """Whether the block begins with the page that the index names; False if it is damaged.

    Raises InputError if it begins with another page: the index belongs to another dump.
    """
    try:
        head = next(_decompressed(path, block), b"")
    except (OSError, EOFError):
        return False
    title = pages_xml.first_title(head)
    if title != html.unescape(block.titles[0]):
        raise InputError(
            f"{index} does not belong to {path}: it lists {block.titles[0]!r} at byte {block.start}, "
            f"but {title!r} is there; download both again"
        )
    return True
