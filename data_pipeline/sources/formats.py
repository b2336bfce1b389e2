"""The source formats, reading a source in any of them, and detecting the format and the language of files or folders.

A format has `chunks(source)`, which runs in the parent and splits the files into chunks of about 4 MiB of raw input, and
`parse(chunk, source)`, a pure function that worker processes run. Every format becomes `LinkedDocument`s, chunk by chunk.
"""

import fnmatch
import itertools
import json
import lzma
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from data_pipeline.sources import html_pages, json_formats, mediawiki, urls, warc
from data_pipeline.sources.document import Chunk, Dropped, LinkedDocument, Source
from harp_jax.base import files
from harp_jax.base.errors import InputError, needs
from harp_jax.text.languages import ENGLISH


class Format(NamedTuple):
    """How to read a format.

    `addresser(source)` returns a function that maps a title or URL, as written in a list or a redirect file, to the address used by
    links to that page. `has_boilerplate`: the pages contain the menus of their sites.
    """

    chunks: Callable[[Source], Iterator[Chunk]]
    parse: Callable[[Chunk, Source], tuple[list[LinkedDocument], list[Dropped]]]
    addresser: Callable[[Source], Callable[[str], str]] = lambda source: str.strip
    has_boilerplate: bool = False


# In a folder with several formats the first one in this table counts: pages before data files next to them.
FORMATS = {
    "html": Format(html_pages.chunks, html_pages.parse, urls.addresser, has_boilerplate=True),
    "warc": Format(warc.chunks, warc.parse, urls.addresser, has_boilerplate=True),
    "mediawiki": Format(mediawiki.chunks, mediawiki.parse, mediawiki.addresser),
    "wikiextractor": Format(json_formats.chunks, json_formats.parse_extracted, json_formats.title_addresser),
    "harp_json": Format(json_formats.chunks, json_formats.parse_harp),
    "linked_jsonl": Format(json_formats.chunks, json_formats.parse_linked),
}


def chunks(source: Source) -> Iterator[Chunk]:
    """The input in order: a pure function of the files' content.

    Raises InputError for input that is missing, unreadable, of another format, or truncated.
    """
    return FORMATS[source["format"]].chunks(source)


def parse(chunk: Chunk, source: Source) -> tuple[list[LinkedDocument], list[Dropped]]:
    """The documents of one chunk in their order, and what was dropped; see the format's module for the InputErrors.

    Pages whose id matches a pattern of `source.exclude` are dropped, with their links.
    """
    documents, dropped = FORMATS[source["format"]].parse(chunk, source)
    if not (patterns := source.get("exclude")):
        return documents, dropped
    excluded = re.compile("|".join(map(fnmatch.translate, patterns))).match
    dropped += [Dropped(each.id, "page-excluded", each.title) for each in documents if excluded(each.id)]
    return [each for each in documents if not excluded(each.id)], dropped


def addresser(source: Source) -> Callable[[str], str]:
    """A function from a title or URL to the page's address; see `Format`."""
    return FORMATS[source["format"]].addresser(source)


def files_of(source: Source) -> Iterator[str]:
    """The files of a source, including those in its folders. Raises InputError for a path that matches nothing."""
    for path in files.expand((*source["paths"], *source["redirects"])):
        inside = files.walk(path) if os.path.isdir(path) else [path]
        yield from filter(html_pages.is_page, inside) if os.path.isdir(path) and source["format"] == "html" else inside


def redirects(source: Source) -> Iterator[tuple[str, str]]:
    """(alias, address) from the TSV files that `source.redirects` names; InputError for a malformed line."""
    for path in files.expand(tuple(source["redirects"])):
        for number, line in files.lines(path):
            alias, tab, address = line.partition("\t")
            if not (alias and tab and address) or "\t" in address:
                where = f"{path} line {number}"
                raise InputError(f"expected 'address<TAB>address', found {line[:80]!r}; {where}; fix the line")
            yield alias, address


# Detecting the format and the language.
# Files of a folder to check by content if no name says HTML: a mirror may begin with images.
_CHECKED = 1000
_HEAD = 1 << 16
_PAGES_ASKED = 200
_TELLING = 200  # minimum characters of a page to detect its language
_HTML_LANGUAGE = re.compile(
    rb"<(?:html|body)\b[^<>]{0,1000}?\slang\s*=\s*[\"']?\s*([a-z]{2,3}(?:[-_][a-z0-9]{1,8})*)(?=[\"'\s/>])",
    re.IGNORECASE,
)


def format_of_content(path: str) -> str:
    """One of "html", "warc", "mediawiki", "wikiextractor", "harp_json", "linked_jsonl"; InputError for anything else."""
    is_folder = os.path.isdir(path)
    if is_folder and any(name.lower().endswith(html_pages.SUFFIXES) for name in files.walk(path)):
        return "html"
    files.check_readable(path)
    kinds = {_kind(name) for name in (itertools.islice(files.walk(path), _CHECKED) if is_folder else [path])}
    if not (kind := next((kind for kind in FORMATS if kind in kinds), "")):
        raise InputError(
            f"{path} is not HTML, WARC, a MediaWiki dump or JSON lines; name the pages, or choose a format with --format"
        )
    if is_folder and kind in ("warc", "mediawiki"):
        raise InputError(f"{path} is a folder of {kind} files; name the files, as in '{path}/*.gz'")
    return kind


def _kind(path: str) -> str:
    head = _head(path)
    if head.startswith(b"WARC/"):
        return "warc"
    if b"<mediawiki" in head[:4096]:
        return "mediawiki"
    if html_pages.is_page(path):
        return "html"
    line = head.lstrip(b"\xef\xbb\xbf \r\n\t").partition(b"\n")[0].decode("utf-8", "replace")
    try:
        record = json.loads(line)
        keys, body = set(record), str(record.get("text", ""))
    except (ValueError, RecursionError, TypeError, AttributeError):  # a longer line than the head has its keys, too
        keys, body = set(re.findall(r'"(\w+)"\s*:', line)) if line.startswith("{") else set(), line
    if "tokenized_sentence" in keys:
        return "harp_json"
    if not {"id", "text"} <= keys:
        return ""
    escaped = "<a href=" in body or "&lt;a href=" in body
    return "wikiextractor" if escaped and "links" not in keys else "linked_jsonl"


def _head(path: str) -> bytes:
    """The first bytes, decompressed; empty for a damaged file, whose reader reports the place."""
    try:
        with files.open_bytes(path) as file:
            return file.read(_HEAD)
    except (OSError, EOFError, InputError, lzma.LZMAError, zlib.error):
        return b""


class Language(NamedTuple):
    """A language tag, and how it was found, in words."""

    tag: str
    origin: str


def language_of(source: Source) -> Language:
    """The language that most of the first pages declare (`<html lang>`; Texinfo writes `<body lang>`), or that of the first dump;
    if web pages declare none, the language of their words; English for JSON lines.

    A job has one language: pages in others are read by its rules.
    """
    if source["format"] == "mediawiki":
        return Language(mediawiki.language(files.expand(tuple(source["paths"]))[0]), "by the head of the dump")
    if source["format"] not in ("html", "warc"):
        return Language(ENGLISH, "assumed: JSON lines name none")
    source = {**source, "redirects": ()}
    pages = itertools.islice(files_of(source), _PAGES_ASKED)
    named = [match[1].decode().lower() for page in pages if (match := _HTML_LANGUAGE.search(_head(page)))]
    if named:
        ((tag, times),) = Counter(named).most_common(1)
        return Language(tag, f"by <html lang> or <body lang> of {times} of the {len(named)} first pages that have one")
    with needs("the language of web pages", "py3langid", "web"):
        import py3langid
    documents = (
        document
        for chunk in chunks(source)
        for page in chunk.payload  # one by one: a chunk has thousands
        for document in parse(chunk._replace(payload=[page]), source)[0]
    )
    texts = [each.text for each in itertools.islice(documents, _PAGES_ASKED) if len(each.text) >= _TELLING]
    if not texts:
        return Language(ENGLISH, "assumed: no <html lang>, no <body lang>, little text")
    ((tag, times),) = Counter(py3langid.classify(text)[0] for text in texts).most_common(1)
    origin = f"by the words of {times} of the {len(texts)} first pages with text; no <html lang>, no <body lang>"
    return Language(tag, origin)
