"""MediaWiki XML dumps (.xml, .xml.bz2, .gz, .xz): the articles and redirects of the main namespace.

The parent splits a dump between pages without parsing; workers parse whole pages. Characters that XML forbids are replaced and
counted; broken elements and a missing </mediawiki> mean a damaged file: an InputError. Of a page's revisions the last is used.

In a multistream dump every 100 pages are a bz2 stream. The parent only finds where the streams begin and the workers decompress
them: a damaged one loses its own pages, counted together as one `page-in-damaged-block`.
"""

import bz2
import contextlib
import html
import lzma
import mmap
import re
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple
from xml.etree import ElementTree

from data_pipeline.sources.document import CHUNK_BYTES, Chunk, Dropped, LinkedDocument, Source
from data_pipeline.sources.wikitext import Site, plain_text
from harp_jax.base import files
from harp_jax.base.errors import InputError

BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 4 << 20
_COMPRESSION = 4  # of wikitext by bz2, about
_WHOLE_CHUNK = 1 << 62  # the weight of an entry that is a chunk by itself
_PAGE_END = b"</page>"
_ROOT = re.compile(rb"<mediawiki(?=[\s>])(?:[^<>]*?\bxml:lang=[\"']([\w-]+)[\"'])?[^<>]*>")
_DATABASE = re.compile(rb"<dbname>([a-z]{2,3})(?:_[a-z_]+)?wik")
_TITLE = re.compile(rb"<title>([^<]*)</title>")
_END = re.compile(rb"\s*</mediawiki>\s*")
_TRUNCATED = "{} is truncated or damaged: no </mediawiki> at its end; download it again"
_STREAM = re.compile(rb"BZh[1-9]1AY&SY")  # a bz2 stream and its first block begin
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|&#(?:[xX][0-9a-fA-F]+|[0-9]+);")
_WIKIMEDIA = re.compile(
    r"(?:^|\.)(?:wiki(?:pedia|media|source|books|quote|news|versity|voyage|data|functions)|wiktionary|mediawiki)\.org$"
)


class Part(NamedTuple):
    """Whole <page> elements of a dump, or where they are in its file, in a bz2 stream: [start, end).
    head: <mediawiki> and <siteinfo>; too_large: (title, bytes) of skipped pages."""

    path: str
    head: bytes
    pages: bytes = b""
    too_large: tuple[tuple[str, int], ...] = ()
    stream: tuple[int, int] | None = None


def entries(path: str, source: Source) -> Iterator[tuple[Part, int]]:
    """Raises InputError for a file that is damaged or not a dump."""
    blocks = _read_blocks(path)
    head, rest = _read_head(path, blocks)
    _site_of(head, path)
    if streams := _streams_of_pages(path):
        yield from ((Part(path, head, stream=(start, end)), _COMPRESSION * (end - start)) for start, end in streams)
    else:
        for part in _split_pages(path, head, chain([rest], blocks), source["max_page_bytes"], whole=True):
            yield part, _WHOLE_CHUNK


def site(source: Source) -> Site:
    """The naming rules of the first dump, and its language: its xml:lang, else that of its database's name (dewiki)."""
    path = files.expand(tuple(source["paths"]))[0]
    return _site_of(_read_head(path, _read_blocks(path))[0], path)


def parse(chunk: Chunk, source: Source, dropped: list[Dropped]) -> Iterator[LinkedDocument]:
    """Documents of the chunk's pages. Raises InputError for broken XML (not for forbidden characters)."""
    limit = int(source["max_page_bytes"])
    for part in chunk.payload:
        parts, path = [part], part.path
        if part.stream:
            start, end = part.stream
            try:
                with open(path, "rb") as file:
                    file.seek(start)
                    blocks = _decompressed(file.read(end - start))
                parts = list(_split_pages(path, part.head, blocks, limit, whole=False))
            except (OSError, EOFError) as error:
                dropped.append(Dropped(f"{path} byte {start}", "page-in-damaged-block", str(error)))
                continue
        for each in parts:
            dropped += (
                Dropped(f"{path}: {title}", "page-too-large", f"{size} bytes") for title, size in each.too_large
            )
            for page in _elements(each, dropped):
                if document := _read_article(page, path, _site_of(part.head, path), limit, dropped):
                    yield document


def _read_blocks(path: str) -> Iterator[bytes]:
    """The bytes of a dump, decompressed, 1 MiB at a time. Raises InputError for damage, after the bytes before it."""
    total, block = 0, bytearray()
    damage: Exception | None = None
    with files.open_bytes(path) as file:
        try:
            while data := file.read1(BLOCK_BYTES - len(block)):  # type: ignore[attr-defined]
                block += data
                total += len(data)
                if len(block) == BLOCK_BYTES:
                    yield bytes(block)
                    block.clear()
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            damage = error
    if block:
        yield bytes(block)
    if damage:
        raise InputError(f"{path} is damaged after {total:,} bytes: {damage}; download it again") from damage


def _read_head(path: str, blocks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """<mediawiki> and <siteinfo> of a dump, and the bytes read after them."""
    head = b""
    for block in blocks:
        head += block
        if b"</siteinfo>" in head or b"<page>" in head or len(head) > _HEAD_BYTES:
            break
    if not (root := _ROOT.search(head)):
        raise InputError(
            f"{path} is not a MediaWiki XML dump: it has no <mediawiki> element; check config.source.paths"
        )
    start, end = head.find(b"<siteinfo", root.end()), head.find(b"</siteinfo>", root.end())
    if end < 0:
        return root[0], head[root.end() :]
    end += len(b"</siteinfo>")
    return root[0] + head[start:end], head[end:]


@lru_cache(maxsize=8)
def _site_of(head: bytes, path: str) -> Site:
    """The naming rules that the head of a dump defines; MediaWiki's defaults without a <siteinfo>."""
    root = _ROOT.match(head)
    assert root is not None
    named = root[1] or ((wiki := _DATABASE.search(head)) and wiki[1])
    try:
        info = ElementTree.fromstring(head[root.end() :] or b"<siteinfo/>")
        spaces = {item.text or "": int(item.get("key", "0")) for item in info.iter("namespace")}
    except (ElementTree.ParseError, ValueError) as error:  # or a namespace whose key is not a number
        raise InputError(f"{path} has a broken <siteinfo>: {error}; download it again") from None
    match = re.match(r"(?:https?:)?//(?:[^/@]*@)?([^/:]+)", info.findtext("base") or "")
    host = match[1].lower() if match else ""
    return Site(
        spaces,
        first_letter=info.findtext("case", "first-letter") == "first-letter",
        language=named.decode("ascii", "replace") if named else "en",
        wikimedia=not host or _WIKIMEDIA.search(host) is not None,
        # Wikipedias and Wiktionaries have articles such as "/dev/null".
        subpages=not host.endswith(("wikipedia.org", "wiktionary.org")),
    )


def _streams_of_pages(path: str) -> list[tuple[int, int]]:
    """The [start, end) of each bz2 stream after the first of a multistream dump; empty for other files. A multistream dump is
    told by its first stream, which ends with the head. Raises InputError unless the last one ends the XML."""
    if not path.endswith(".bz2"):
        return []
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        starts = [match.start() for match in _STREAM.finditer(data)]
        ends = [*starts[1:], len(data)]
        head = end = b""
        with contextlib.suppress(OSError):
            head = bz2.BZ2Decompressor().decompress(data[:_HEAD_BYTES], _HEAD_BYTES)
        if len(starts) < 2 or not head.rstrip().endswith(b"</siteinfo>"):
            return []
        try:
            for block in _decompressed(data[starts[-1] :]):
                end = (end + block)[-BLOCK_BYTES:]
        except (OSError, EOFError):
            end = b""
    if not _END.fullmatch(end.rpartition(_PAGE_END)[2]):
        raise InputError(_TRUNCATED.format(path))
    return list(zip(starts, ends))[1:]


def _decompressed(data: bytes) -> Iterator[bytes]:
    """The content of bz2 streams, at most 1 MiB at a time; OSError or EOFError if they are damaged."""
    while data:
        stream = bz2.BZ2Decompressor()
        while not stream.eof:
            if stream.needs_input and not data:
                raise EOFError("the stream is truncated")
            yield stream.decompress(data, BLOCK_BYTES)
            data = b""
        data = stream.unused_data


def _split_pages(path: str, head: bytes, blocks: Iterable[bytes], max_page_bytes: int, whole: bool) -> Iterator[Part]:
    """Splits XML between pages. InputError if more than </mediawiki> follows the last page or, if `whole`, that is missing."""
    # A page's XML is longer than its text: up to 6 bytes for an escaped character, and the elements around it.
    limit = 6 * max_page_bytes + BLOCK_BYTES
    buffer, skipped = b"", 0
    too_large: list[tuple[str, int]] = []
    for block in blocks:
        buffer += block
        if skipped:  # the bytes of a page that is too large
            end = buffer.find(_PAGE_END)
            tail = len(_PAGE_END) if end < 0 else len(buffer) - end  # a possible beginning of </page>
            skipped += len(buffer) - tail
            buffer = buffer[-tail:]
            if end < 0:
                continue
            too_large[-1] = (too_large[-1][0], skipped)
            buffer, skipped = buffer[len(_PAGE_END) :], 0
        end = len(buffer) - len(buffer.rpartition(_PAGE_END)[2])
        large = len(buffer) - end > limit
        if end >= CHUNK_BYTES or (large and end):
            yield Part(path, head, buffer[:end], tuple(too_large))
            buffer, too_large = buffer[end:], []
        if large:
            too_large.append((_last_title(buffer[:BLOCK_BYTES]), 0))
            buffer, skipped = buffer[-len(_PAGE_END) :], len(buffer) - len(_PAGE_END)
    end = len(buffer) - len(buffer.rpartition(_PAGE_END)[2])
    if end or too_large:
        yield Part(path, head, buffer[:end], tuple(too_large))
    if not _END.fullmatch(buffer[end:]) and (whole or buffer[end:].strip()):
        raise InputError(_TRUNCATED.format(path))


def _last_title(pages: bytes) -> str:
    match = _TITLE.search(pages, max(0, pages.rfind(b"<title>")))
    return html.unescape(match[1].decode("utf-8", "replace")) if match else ""


def _elements(part: Part, dropped: list[Dropped]) -> Iterator[ElementTree.Element]:
    """The part's <page> elements; if the part does not parse, each page is parsed and repaired by itself."""
    with contextlib.suppress(ElementTree.ParseError):
        yield from ElementTree.fromstring(b"<mediawiki>%b</mediawiki>" % part.pages).iter("page")
        return
    for raw in part.pages.split(_PAGE_END)[:-1]:
        raw += _PAGE_END
        try:
            yield ElementTree.fromstring(raw)
        except ElementTree.ParseError:
            # One replacement character for each invalid byte and each character that XML 1.0 forbids.
            repaired = _FORBIDDEN.sub(_replacement, raw.decode("utf-8", "replace"))
            where = f"{part.path}: {_last_title(raw)}"
            try:
                page = ElementTree.fromstring(repaired)
            except ElementTree.ParseError as error:
                raise InputError(f"{where}: broken XML ({error}); download the dump again") from None
            dropped.append(Dropped(where, "characters-replaced", ""))
            yield page


def _replacement(match: re.Match[str]) -> str:
    """Of a forbidden character, also as a reference, for which `unescape` returns nothing. No code has more than ten digits."""
    legal = match[0].startswith("&") and len(match[0]) < 14 and html.unescape(match[0]) not in ("", "\ufffd")
    return match[0] if legal else "\ufffd"


# One <page> element to a document.
_REDIRECT = re.compile(
    r"\s*#(?i:redirect|redirection|weiterleitung|redirección|rinvia|doorverwijzing|перенаправление|patrz|przekieruj|"
    r"tam|転送|重定向|omdirigering|redirecionamento)\s*:?\s*\[\[([^\[\]|\n]+)"
)
# Templates that only disambiguation pages have; not {{disambiguation needed}}, which marks a link of an article.
_DISAMBIGUATION = re.compile(
    r"\{\{\s*(?i:disambig\w*|dab|disamb|hndis|geodis|numberdis|schooldis|roaddis|mathdab|hospitaldis|"
    r"(?:[\w-]+ ){0,3}disambig(?:uation)?(?: page)?|begriffsklärung|homonymie|desambiguación|desambiguação|disambigua|"
    r"неоднозначность|ujednoznacznienie|doorverwijspagina)[ _-]*(?i:cleanup\s*)?[|}]|__DISAMBIG__|"
    # Their categories, which other templates may set.
    r"\[\[[^\[\]|:]{1,20}:[^\[\]|]{0,40}(?i:disambiguation pages|begriffsklärung|homonymie|desambigua|disambigua\b|"
    r"doorverwijspagina|страницы значений|ujednoznacz|förgreningssid|曖昧さ回避|消歧义)"
)
_DISAMBIGUATION_TITLE = re.compile(
    r"\((?:disambiguation|begriffsklärung|homonymie|desambiguación|desambiguação|disambigua|doorverwijspagina|"
    r"значения|ujednoznacznienie|曖昧さ回避|消歧义)\)\Z"
)
_NUMBER = re.compile(r"-?[0-9]{1,6}")


def _read_article(
    page: ElementTree.Element, path: str, site: Site, max_page_bytes: int, dropped: list[Dropped]
) -> LinkedDocument | None:
    """The page's last revision in the main namespace; None, with the reason appended to `dropped`, for other pages."""
    title = page.findtext("title") or ""
    where = f"{path}: {title}"
    number = (page.findtext("ns") or "").strip()
    if int(number) if _NUMBER.fullmatch(number) else site.namespace(title):
        dropped.append(Dropped(where, "page-namespace", title))
        return None
    revision = (page.findall("revision") or [page])[-1]
    model, text = revision.findtext("model"), revision.findtext("text") or ""
    identity = (site.address(title), page.findtext("id") or title, title)
    element, match = page.find("redirect"), _REDIRECT.match(text)
    target = (element.get("title") if element is not None else None) or (match[1] if match else None)
    if target is not None:
        address, reason, _ = site.resolve(target)
        if address is None:
            dropped.append(Dropped(where, reason.replace("link-", "redirect-"), target))
            return None
        return LinkedDocument(*identity, text="", links=(), lead_end=0, redirect=address)
    too_large = 4 * len(text) > max_page_bytes and len(text.encode("utf-8", "replace")) > max_page_bytes
    if not text or too_large or model not in (None, "wikitext"):
        reason = "page-model" if model not in (None, "wikitext") else "page-too-large" if too_large else "page-empty"
        dropped.append(Dropped(where, reason, model or ""))
        return None
    plain = plain_text(text, site, title)
    dropped += (Dropped(where, *each) for each in plain.dropped)
    # Links in templates, tables, references, comments and captions; links to files and categories.
    dropped_links = sum(reason.startswith("link-") for reason, _ in plain.dropped)
    if (outside := text.count("[[") - len(plain.links) - dropped_links) > 0:
        dropped.append(Dropped(where, "link-outside-prose", f"{outside} of {outside + len(plain.links)}", outside))
    content = (plain.text, plain.links, plain.lead_end)
    return LinkedDocument(*identity, *content, is_disambiguation=is_disambiguation(title, text))


def is_disambiguation(title: str, wikitext: str) -> bool:
    """Whether the title, a template or a category marks the page as a disambiguation page."""
    return bool(_DISAMBIGUATION_TITLE.search(title.lower()) or _DISAMBIGUATION.search(wikitext))
