"""Files of one JSON object per line, used by three formats; plain, .gz, .bz2 or .xz, or folders of them.

A line longer than the page limit is never held in memory: only its size is kept.
"""

import json
import lzma
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from data_pipeline.sources.document import CHUNK_BYTES, Chunk, Dropped, Source, chunk_name
from harp_jax.base import files
from harp_jax.base.errors import InputError

_SURROGATE = re.compile("[\ud800-\udfff]")


class Line(NamedTuple):
    """A line of a file, counted from 1; `content` is its size in bytes if it is too large."""

    path: str
    number: int
    content: bytes | int


def chunks(source: Source) -> Iterator[Chunk]:
    """Payload: a list of `Line`. Raises InputError for a missing or damaged file."""
    for file_number, path in enumerate(_files(tuple(source["paths"]))):
        number, size, batch = 0, 0, []
        for line in _lines(path, int(source["max_page_bytes"])):
            batch.append(line)
            size += len(line.content) if isinstance(line.content, bytes) else 0
            if size >= CHUNK_BYTES:
                yield Chunk(chunk_name(file_number, path, number), batch)
                number, size, batch = number + 1, 0, []
        if batch:
            yield Chunk(chunk_name(file_number, path, number), batch)


def records(chunk: Chunk, dropped: list[Dropped]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file and line, JSON object) of the chunk's lines; raises InputError for a line that is not UTF-8 or not an object."""
    for path, number, content in chunk.payload:
        where = f"{path} line {number}"
        if isinstance(content, int):
            dropped.append(Dropped(where, "page-too-large", f"{content} bytes"))
            continue
        if not content.strip():
            continue
        try:
            record = json.loads(content.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (ValueError, RecursionError) as error:
            hint = "; WikiExtractor writes JSON with --json" if content.startswith(b"<doc ") else ""
            raise InputError(f"not JSON ({error}); {where}; write one JSON object per line{hint}") from None
        if not isinstance(record, dict):
            raise InputError(f"not a JSON object; {where}; write one JSON object per line")
        yield where, record


def string(record: Mapping[str, Any], key: str, where: str, empty: bool = True) -> str:
    """The string under `key`; raises InputError if it is missing, not a string, or empty without `empty`."""
    value = record.get(key)
    if not isinstance(value, str) or not (value or empty):
        raise InputError(f"the key {key!r} is missing or not a string; {where}; fix the line")
    # JSON can encode lone surrogates, which UTF-8 cannot; one replacement character each keeps the offsets right.
    return _SURROGATE.sub("\ufffd", value)


def _files(paths: tuple[str, ...]) -> Iterator[str]:
    for path in files.expand(paths):
        if os.path.isdir(path):
            yield from files.walk(path)
        else:
            yield path


def _lines(path: str, limit: int) -> Iterator[Line]:
    number = 0
    try:
        with files.open_bytes(path) as file:
            while content := file.readline(limit + 2):  # the limit excludes the line end
                number += 1
                size = len(content.rstrip(b"\r\n"))
                if size <= limit:
                    yield Line(path, number, content.rstrip(b"\r\n"))
                    continue
                while not content.endswith(b"\n") and (content := file.readline(1 << 20)):
                    size += len(content.rstrip(b"\r\n"))
                yield Line(path, number, size)
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        raise InputError(f"{path} is damaged after line {number}: {error}; download or write the file again") from error
