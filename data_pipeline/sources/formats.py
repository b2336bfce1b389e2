"""The source formats, reading a source in any of them, and detecting the format and the language of files or folders.

A format has `entries(path, source)`, which runs in the parent and yields the records of a file, or where they are, and
`parse(chunk, source, dropped)`, which worker processes run: it yields `LinkedDocument`s and appends to `dropped`.
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
from typing import Any, NamedTuple

from data_pipeline.sources import html_pages, json_formats, mediawiki, urls, warc
from data_pipeline.sources.document import CHUNK_BYTES, Chunk, Dropped, LinkedDocument, Source
from harp_jax.base import files
from harp_jax.base.errors import InputError, needs
from harp_jax.text.languages import ENGLISH


class Format(NamedTuple):
    """How to read a format. `entries(path, source)` yields the entries of chunks, and the weight of each in bytes; a chunk has at
    most `max_entries`. `addresser(source)` returns a function that maps a title or URL, as written in a list or a redirect
    file, to the address used by links to that page. `has_boilerplate`: the pages contain the menus of their sites."""

    entries: Callable[[str, Source], Iterator[tuple[Any, int]]]
    parse: Callable[[Chunk, Source, list[Dropped]], Iterator[LinkedDocument]]
    addresser: Callable[[Source], Callable[[str], str]] = lambda source: str.strip
    has_boilerplate: bool = False
    max_entries: int = 1 << 62


# In a folder with several formats the first one in this table counts: pages before data files next to them.
FORMATS = {
    "html": Format(html_pages.entries, html_pages.parse, urls.addresser, has_boilerplate=True, max_entries=4096),
    "warc": Format(warc.entries, warc.parse, urls.addresser, has_boilerplate=True),
    "mediawiki": Format(mediawiki.entries, mediawiki.parse, lambda source: mediawiki.site(source).normalised),
    "wikiextractor": Format(
        json_formats.entries, json_formats.parse_extracted, lambda source: json_formats.SITE.normalised
    ),
    "harp_json": Format(json_formats.entries, json_formats.parse_harp),
    "linked_jsonl": Format(json_formats.entries, json_formats.parse_linked),
}


def chunks(source: Source) -> Iterator[Chunk]:
    """The input in order: a pure function of the files' content. Raises InputError for input that is missing, unreadable, of
    another format, or truncated."""
    format_ = FORMATS[source["format"]]
    paths = files.expand(tuple(source["paths"]))
    # A folder of web pages is read as one file, other folders file by file.
    inside = (files.walk(path) if os.path.isdir(path) and source["format"] != "html" else [path] for path in paths)
    for file, path in enumerate(itertools.chain.from_iterable(inside)):
        # The number of the file distinguishes equal names of different folders.
        name = f"{file:04d}-{path.rstrip('/').rpartition('/')[2]}"
        number, size, payload = 0, 0, []
        for entry, weight in format_.entries(path, source):
            payload.append(entry)
            size += weight
            if size >= CHUNK_BYTES or len(payload) >= format_.max_entries:
                yield Chunk(f"{name}:{number:05d}", payload)
                number, size, payload = number + 1, 0, []
        if payload:
            yield Chunk(f"{name}:{number:05d}", payload)


def parse(chunk: Chunk, source: Source) -> tuple[list[LinkedDocument], list[Dropped]]:
    """The documents of one chunk in their order, and what was dropped; see the format's module for the InputErrors. Pages whose
    id matches a pattern of `source.exclude` are dropped, with their links."""
    dropped: list[Dropped] = []
    documents = list(FORMATS[source["format"]].parse(chunk, source, dropped))
    if patterns := source.get("exclude"):
        excluded = re.compile("|".join(map(fnmatch.translate, patterns))).match
        dropped += [Dropped(each.id, "page-excluded", each.title) for each in documents if excluded(each.id)]
        documents = [each for each in documents if not excluded(each.id)]
    return documents, dropped


def addresser(source: Source) -> Callable[[str], str]:
    """A function from a title or URL to the page's address; see `Format`."""
    return FORMATS[source["format"]].addresser(source)


def files_of(source: Source) -> Iterator[str]:
    """The files of a source, including those in its folders. Raises InputError for a path that matches nothing."""
    is_read = html_pages.is_page if source["format"] == "html" else bool
    for path in files.expand((*source["paths"], *source["redirects"])):
        yield from filter(is_read, files.walk(path)) if os.path.isdir(path) else [path]


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
_CHECKED = 1000  # files of a folder to check by content if no name says HTML: a mirror may begin with images
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
    """The language that most of the first pages declare (`<html lang>`; Texinfo writes `<body lang>`), or that of the first
    dump; if web pages declare none, the language of their words; English for JSON lines. A job has one language: pages in
    others are read by its rules."""
    if source["format"] == "mediawiki":
        return Language(mediawiki.site(source).language, "by the head of the dump")
    if source["format"] not in ("html", "warc"):
        return Language(ENGLISH, "assumed: JSON lines name none")
    first = itertools.islice(files_of({**source, "redirects": ()}), _PAGES_ASKED)
    named = [match[1].decode().lower() for page in first if (match := _HTML_LANGUAGE.search(_head(page)))]
    if named:
        ((tag, times),) = Counter(named).most_common(1)
        return Language(tag, f"by <html lang> or <body lang> of {times} of the {len(named)} first pages that have one")
    with needs("the language of web pages", "py3langid", "web"):
        import py3langid
    # One by one: a chunk has thousands.
    pages = (chunk._replace(payload=[page]) for chunk in chunks(source) for page in chunk.payload)
    documents = itertools.chain.from_iterable(parse(page, source)[0] for page in pages)
    texts = [each.text for each in itertools.islice(documents, _PAGES_ASKED) if len(each.text) >= _TELLING]
    if not texts:
        return Language(ENGLISH, "assumed: no <html lang>, no <body lang>, little text")
    ((tag, times),) = Counter(py3langid.classify(text)[0] for text in texts).most_common(1)
    origin = f"by the words of {times} of the {len(texts)} first pages with text; no <html lang>, no <body lang>"
    return Language(tag, origin)
