"""The source formats, and reading a source in any of them: every format becomes `LinkedDocument`s, chunk by chunk.

A format has `chunks(source)`, which runs in the parent and splits the files into chunks of about 4 MiB of raw input, and
`parse(chunk, source)`, a pure function that worker processes run.
"""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from data_pipeline.sources import harp_json, json_lines, linked_jsonl, wikiextractor
from data_pipeline.sources.document import Chunk, Dropped, LinkedDocument, Source
from data_pipeline.sources.mediawiki import dump
from data_pipeline.sources.web import html_files, urls, warc
from harp_jax.base import files
from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress


def _stripped(source: Source) -> Callable[[str], str]:
    return str.strip


class Format(NamedTuple):
    """How to read a format.

    `addresser(source)` returns a function from a title or URL, as written in a list or a redirect file, to the address that links
    to that page have. `has_boilerplate`: the pages contain the menus of their sites.
    """

    chunks: Callable[[Source], Iterator[Chunk]]
    parse: Callable[[Chunk, Source], tuple[list[LinkedDocument], list[Dropped]]]
    addresser: Callable[[Source], Callable[[str], str]] = _stripped
    has_boilerplate: bool = False


FORMATS = {
    "mediawiki": Format(dump.chunks, dump.parse, dump.addresser),
    "wikiextractor": Format(json_lines.chunks, wikiextractor.parse, wikiextractor.addresser),
    "linked_jsonl": Format(json_lines.chunks, linked_jsonl.parse),
    "harp_json": Format(json_lines.chunks, harp_json.parse),
    "html": Format(html_files.chunks, html_files.parse, urls.addresser, has_boilerplate=True),
    "warc": Format(warc.chunks, warc.parse, urls.addresser, has_boilerplate=True),
}


def format_of(source: Source) -> Format:
    """The format that `source["format"]` names; InputError for an unknown name."""
    if source["format"] not in FORMATS:
        raise InputError(f"unknown source.format {source['format']!r}; choose one of {', '.join(FORMATS)}")
    return FORMATS[source["format"]]


def chunks(source: Source) -> Iterator[Chunk]:
    """The input in order: a pure function of the files' content.

    Raises InputError for an unknown format and for input that is missing, unreadable, of another format, or truncated.
    """
    return format_of(source).chunks(source)


def parse(chunk: Chunk, source: Source) -> tuple[list[LinkedDocument], list[Dropped]]:
    """The documents of one chunk in their order, and what was dropped; see the format's module for the InputErrors."""
    return format_of(source).parse(chunk, source)


def addresser(source: Source) -> Callable[[str], str]:
    """A function from a title or URL to the page's address; see `Format`."""
    return format_of(source).addresser(source)


def files_of(source: Source) -> Iterator[str]:
    """The files that a source is read from, those of its folders too. Raises InputError for a path that matches nothing."""
    for path in files.expand((*source["paths"], *source["redirects"], *source["index"])):
        inside = files.walk(path) if os.path.isdir(path) else [path]
        yield from filter(html_files.is_page, inside) if os.path.isdir(path) and source["format"] == "html" else inside


def redirects(source: Source) -> Iterator[tuple[str, str]]:
    """(alias, address) from the TSV files that `source.redirects` names; InputError for a line of another form."""
    for path in files.expand(tuple(source["redirects"])):
        for number, line in files.lines(path):
            alias, tab, address = line.partition("\t")
            if not (alias and tab and address) or "\t" in address:
                where = f"{path} line {number}"
                raise InputError(f"expected 'address<TAB>address', found {line[:80]!r}; {where}; fix the line")
            yield alias, address


def paragraphs(source: Source) -> Iterator[str]:
    """The paragraphs of all documents, with a progress bar."""
    with progress(unit="documents", desc="read") as bar:
        for chunk in chunks(source):
            for document in parse(chunk, source)[0]:
                bar.update()
                yield from filter(None, document.text.split("\n"))
