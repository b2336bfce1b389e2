"""The bytes of a MediaWiki XML export: its head, and whole `<page>` elements, as one stream or block by block.

A stream is split between pages without parsing; workers parse whole pages. Characters that XML forbids are replaced and
counted; broken elements mean a damaged file and are an InputError.
"""

import html
import lzma
import re
import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from data_pipeline.sources.document import CHUNK_BYTES, Dropped
from harp_jax.base import files
from harp_jax.base.errors import InputError

_BLOCK = 1 << 20
DAMAGE = (OSError, EOFError, lzma.LZMAError, zlib.error)
_HEAD_BYTES = 4 << 20
_PAGE_END = b"</page>"
_ROOT = re.compile(rb"<mediawiki(?=[\s>])(?:[^<>]*?\bxml:lang=[\"']([\w-]+)[\"'])?[^<>]*>")
_TITLE = re.compile(rb"<title>([^<]*)</title>")
END = re.compile(rb"\s*</mediawiki>\s*")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|&#(?:[xX][0-9a-fA-F]+|[0-9]+);")
_WIKIMEDIA = re.compile(
    r"(?:^|\.)(?:wiki(?:pedia|media|source|books|quote|news|versity|voyage|data|functions)|wiktionary|mediawiki)\.org$"
)


class SiteInfo(NamedTuple):
    """What <siteinfo> and <mediawiki> define about titles; hashable, so that a worker builds each `Site` once."""

    namespaces: tuple[tuple[str, int], ...]
    first_letter: bool
    language: str
    wikimedia: bool  # a Wikimedia project, where the prefixes of sister projects and language editions apply


class PageBytes(NamedTuple):
    """One chunk: whole <page> elements, and the skipped pages that are too large (title, bytes)."""

    path: str
    siteinfo: SiteInfo
    pages: bytes
    too_large: tuple[tuple[str, int], ...]
    previous: str  # title of the last page before this chunk, for error messages


def split_pages(
    path: str, siteinfo: SiteInfo, blocks: Iterable[bytes], max_page_bytes: int
) -> Generator[PageBytes, None, tuple[bytes, str]]:
    """Splits a stream between pages; returns what follows the last page, and that page's title.

    Raises InputError (file, last good page) if reading the stream fails.
    """
    # A page's XML is longer than its text: up to 6 bytes for an escaped character, and the elements around it.
    limit = 6 * max_page_bytes + _BLOCK
    buffer, complete, previous, skipping = b"", 0, "", 0
    too_large: list[tuple[str, int]] = []
    try:
        for block in blocks:
            searched = max(complete, len(buffer) - len(_PAGE_END))
            buffer += block
            if skipping:
                end = buffer.find(_PAGE_END)
                skipping += len(buffer) if end < 0 else end
                if end < 0:  # keep a possible beginning of </page>
                    buffer = buffer[-len(_PAGE_END) :]
                    skipping -= len(buffer)
                    continue
                too_large[-1] = (too_large[-1][0], skipping)
                buffer, complete, searched, skipping = buffer[end + len(_PAGE_END) :], 0, 0, 0
            found = buffer.rfind(_PAGE_END, searched)
            complete = found + len(_PAGE_END) if found >= 0 else complete
            large = len(buffer) - complete > limit
            if complete >= CHUNK_BYTES or (large and complete):
                yield PageBytes(path, siteinfo, buffer[:complete], tuple(too_large), previous)
                previous = _last_title(buffer[:complete]) or previous
                buffer, complete, too_large = buffer[complete:], 0, []
            if large:
                too_large.append((_last_title(buffer[:_BLOCK]), 0))
                buffer, skipping = buffer[-len(_PAGE_END) :], len(buffer) - len(_PAGE_END)
    except DAMAGE as error:
        last = _last_title(buffer[:complete]) or previous
        raise InputError(f"{path} is damaged: {error}; last good page {last!r}; download it again") from error
    if complete or too_large:
        yield PageBytes(path, siteinfo, buffer[:complete], tuple(too_large), previous)
    return buffer[complete:], _last_title(buffer[:complete]) or previous


def read_blocks(path: str) -> Iterator[bytes]:
    with files.open_bytes(path) as file:
        while block := file.read(_BLOCK):
            yield block


def _last_title(pages: bytes) -> str:
    start = pages.rfind(b"<title>")
    match = _TITLE.match(pages, start) if start >= 0 else None
    return html.unescape(match[1].decode("utf-8", "replace")) if match else ""


def first_title(pages: bytes) -> str:
    """The title of the first page that begins there."""
    match = _TITLE.search(pages)
    return html.unescape(match[1].decode("utf-8", "replace")) if match else ""


def read_siteinfo(path: str, blocks: Iterator[bytes]) -> tuple[SiteInfo, bytes]:
    """The siteinfo in the dump's head (MediaWiki's defaults if it has none), and the bytes read after it."""
    head = b""
    for block in blocks:
        head += block
        if b"</siteinfo>" in head or b"<page>" in head or len(head) > _HEAD_BYTES:
            break
    root = _ROOT.search(head)
    if not root:
        raise InputError(
            f"{path} is not a MediaWiki XML dump: it has no <mediawiki> element; check config.source.paths"
        )
    end = head.find(b"</siteinfo>", root.end()) + len(b"</siteinfo>")
    language = root[1].decode("ascii", "replace") if root[1] else "en"
    if end < len(b"</siteinfo>"):
        return SiteInfo((), True, language, True), head[root.end() :]
    try:
        info = ElementTree.fromstring(head[head.index(b"<siteinfo", root.end()) : end])
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"{path} has a broken <siteinfo>: {error}; download it again") from None
    try:
        spaces = tuple((item.text or "", int(item.get("key", "0"))) for item in info.iter("namespace"))
    except ValueError:
        raise InputError(
            f"{path} has a broken <siteinfo>: a namespace key is not a number; download it again"
        ) from None
    first_letter = info.findtext("case", "first-letter") == "first-letter"
    return SiteInfo(spaces, first_letter, language, _is_wikimedia(info.findtext("base") or "")), head[end:]


def _is_wikimedia(base: str) -> bool:
    """By the address of the main page in <base>; True if there is none."""
    host = re.match(r"(?:https?:)?//(?:[^/@]*@)?([^/:]+)", base)
    return not host or _WIKIMEDIA.search(host[1].lower()) is not None


def elements(payload: PageBytes, dropped: list[Dropped]) -> Iterator[ElementTree.Element]:
    """The chunk's <page> elements; if the chunk does not parse, each page is parsed and repaired by itself."""
    try:
        yield from ElementTree.fromstring(b"<mediawiki>%b</mediawiki>" % payload.pages).iter("page")
        return
    except ElementTree.ParseError:
        pass
    last = payload.previous
    for raw in payload.pages.split(_PAGE_END)[:-1]:
        raw += _PAGE_END
        try:
            page = ElementTree.fromstring(raw)
        except ElementTree.ParseError:
            # One replacement character for each invalid byte and each character that XML 1.0 forbids.
            repaired = _FORBIDDEN.sub(_replacement, raw.decode("utf-8", "replace"))
            try:
                page = ElementTree.fromstring(repaired)
            except ElementTree.ParseError as error:
                raise InputError(
                    f"broken XML in {payload.path} ({error}); last good page {last!r}; download it again"
                ) from None
            dropped.append(Dropped(f"{payload.path}: {page.findtext('title')}", "characters-replaced", ""))
        last = page.findtext("title") or last
        yield page


def _replacement(match: re.Match[str]) -> str:
    if not match[0].startswith("&"):
        return "\ufffd"
    digits = match[0][2:-1]
    code = int(digits[1:], 16) if digits[0] in "xX" else int(digits)
    legal = code in (9, 10, 13) or 32 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
    return match[0] if legal else "\ufffd"
