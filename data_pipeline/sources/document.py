"""Sources of hyperlinked text: every format becomes `LinkedDocument`s, chunk by chunk.

A format is a module with `chunks(source)`, which runs in the parent and cuts the files into about 4 MiB of raw input,
and `parse(chunk, source)`, a pure function that worker processes run. `source` is the configuration's `source`, a dict:
format, paths (files, globs, and folders for the formats that have many files), redirects (TSV files), max_page_bytes, and
what some formats read: index, base_url, boilerplate_share.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from harp_jax import files
from harp_jax.errors import InputError

CHUNK_BYTES = 4 << 20
FORMATS = ("mediawiki", "wikiextractor", "linked_jsonl", "harp_json", "html", "warc")
WEB_FORMATS = ("html", "warc")  # whose pages carry the boilerplate of their sites


class Link(NamedTuple):
    """A link of a text: `text[start:end]`, in code points, is the anchor; `target` is the destination's address."""

    start: int
    end: int
    target: str


@dataclass(frozen=True)
class LinkedDocument:
    """A page: plain text with paragraphs separated by line feeds, and its links sorted by start, never overlapping."""

    address: str  # what links point at: the normalised title (MediaWiki), the URL (HTML, WARC), the id (JSONL)
    id: str
    title: str
    text: str
    links: tuple[Link, ...]
    lead_end: int  # end of the first section in code points; len(text) where sections are unknown
    redirect: str | None = None  # the address that this page redirects to; text and links are empty then
    is_disambiguation: bool = False


class Loss(NamedTuple):
    """A page, link or line that was dropped: where, why (a short stable slug), what it looked like; so many `times`."""

    where: str
    reason: str
    example: str
    times: int = 1


class Chunk(NamedTuple):
    """A part of the input. Names are unique and sort in the order of the input; payloads can be pickled."""

    name: str
    payload: Any


def chunk_name(file_number: int, path: str, number: int) -> str:
    """`0000-dump.xml.bz2:00012`: the file's number keeps equal names of different folders apart."""
    return f"{file_number:04d}-{path.rsplit('/', 1)[-1]}:{number:05d}"


def chunks(source: Mapping[str, Any]) -> Iterator[Chunk]:
    """The input in order: a pure function of the files' content.

    Raises InputError for an unknown format and for input that is missing, unreadable, of another format, or cut off.
    """
    return _module(source).chunks(source)


def parse(chunk: Chunk, source: Mapping[str, Any]) -> tuple[list[LinkedDocument], list[Loss]]:
    """The documents of one chunk in their order, and what was dropped; raises InputError as the format says."""
    return _module(source).parse(chunk, source)


def redirects(source: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(alias, address) from the TSV files that `source.redirects` names; a line of other shape is an InputError."""
    for path in files.expand(tuple(source["redirects"])):
        for number, line in files.lines(path):
            alias, tab, address = line.partition("\t")
            if not (alias and tab and address) or "\t" in address:
                where = f"{path} line {number}"
                raise InputError(f"expected 'address<TAB>address', found {line[:80]!r}; {where}; mend the line")
            yield alias, address


def addresser(source: Mapping[str, Any]) -> Callable[[str], str]:
    """Turns a title as a person writes it, in a list or a redirect file, into the address that links to it have."""
    module = _module(source)
    return module.addresser(source) if hasattr(module, "addresser") else str.strip


def _module(source: Mapping[str, Any]) -> ModuleType:
    if source["format"] not in FORMATS:
        raise InputError(f"unknown source.format {source['format']!r}; choose one of {', '.join(FORMATS)}")
    return importlib.import_module(f"data_pipeline.sources.{source['format']}")
