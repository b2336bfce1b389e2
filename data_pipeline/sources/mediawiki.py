"""MediaWiki XML dumps (.xml, .xml.bz2, .gz, .xz): the main namespace's articles and redirects, as one stream or block by block.

The parent splits the stream between pages without parsing; workers parse whole pages. Characters that XML forbids are replaced
and counted; broken elements and a missing </mediawiki> mean a damaged file: an InputError. Of a page's revisions the last is used.

A multistream dump with its index (found by its name, or `source.index`, one for each of `source.paths`) is decompressed by the
workers: it has blocks of about 100 pages, each a bz2 stream; the index lists at which byte a block begins and which pages it
contains. A damaged block loses only its own pages, counted as `page-in-damaged-block`.
"""

import bz2
import hashlib
import html
import itertools
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple
from xml.etree import ElementTree

from data_pipeline.sources.document import (
    CHUNK_BYTES,
    Chunk,
    Dropped,
    Link,
    LinkedDocument,
    Source,
    chunk_name,
    in_chunks,
)
from data_pipeline.sources.wikitext import Site, plain_text
from harp_jax.base import files
from harp_jax.base.errors import InputError
from harp_jax.base.progress import say

_BLOCK = 1 << 20
_DAMAGE = (OSError, EOFError, lzma.LZMAError, zlib.error)
_HEAD_BYTES = _TAIL_BYTES = 4 << 20
_COMPRESSED_BYTES = CHUNK_BYTES // 4  # bz2 compresses wikitext to about a quarter
_PAGE_END = b"</page>"
_ROOT = re.compile(rb"<mediawiki(?=[\s>])(?:[^<>]*?\bxml:lang=[\"']([\w-]+)[\"'])?[^<>]*>")
_DATABASE = re.compile(rb"<dbname>([a-z]{2,3})(?:_[a-z_]+)?wik")
_TITLE = re.compile(rb"<title>([^<]*)</title>")
_MULTISTREAM = re.compile(r"(.+-multistream)([0-9]*)\.xml(-p[0-9]+p[0-9]+)?\.bz2")
_DATED = re.compile(r"([a-z_]+)-([0-9]{8}|latest)-")
_END = re.compile(rb"\s*</mediawiki>\s*")
_INDEX_LINE = re.compile(r"([0-9]{1,18}):[0-9]{1,18}:(.*)")
_BLOCK_MAGIC = b"1AY&SY"  # of the first block of a bz2 stream, after "BZh" and a digit
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|&#(?:[xX][0-9a-fA-F]+|[0-9]+);")
_WIKIMEDIA = re.compile(
    r"(?:^|\.)(?:wiki(?:pedia|media|source|books|quote|news|versity|voyage|data|functions)|wiktionary|mediawiki)\.org$"
)


class SiteInfo(NamedTuple):
    """What <siteinfo> and <mediawiki> define about titles; hashable, so that a worker builds each `Site` once."""

    namespaces: tuple[tuple[str, int], ...]
    first_letter: bool
    language: str
    host: str  # of the main page; "" if unknown


class PageBytes(NamedTuple):
    """Whole <page> elements, the skipped pages that are too large (title, bytes), and the title of the page before them."""

    path: str
    siteinfo: SiteInfo
    pages: bytes
    too_large: tuple[tuple[str, int], ...]
    previous: str


class Block(NamedTuple):
    """The bytes of a bz2 stream in the file, and the titles of its pages in the index."""

    path: str
    siteinfo: SiteInfo
    start: int
    end: int
    titles: tuple[str, ...]


def chunks(source: Source) -> Iterator[Chunk]:
    """Payload: `PageBytes`, or a list of `Block`. Raises InputError for a file that is missing, damaged, not a dump, or an index of
    another dump.
    """
    paths, indices = files.expand(tuple(source["paths"])), files.expand(tuple(source.get("index") or ()))
    for path in paths:
        check_download(path)
    if indices and len(paths) != len(indices):
        raise InputError(
            f"config.source.index names {len(indices)} files and config.source.paths {len(paths)}; name one index per dump"
        )
    for number, (path, index) in enumerate(itertools.zip_longest(paths, indices)):
        blocks = _read_blocks(path)
        siteinfo, rest = _read_siteinfo(path, blocks)
        if index:
            sized = ((block, block.end - block.start) for block in _listed_blocks(path, siteinfo, index))
            yield from in_chunks(number, path, sized, _COMPRESSED_BYTES)
        else:
            pages = _split_pages(
                path, siteinfo, itertools.chain([rest], blocks), int(source["max_page_bytes"]), whole=True
            )
            for part, payload in enumerate(pages):
                yield Chunk(chunk_name(number, path, part), payload)


def index_beside(path: str) -> str:
    """The index that lies beside a multistream dump, both with Wikimedia's names; empty if there is none."""
    folder, name = os.path.split(path)
    match = _MULTISTREAM.fullmatch(name)
    index = os.path.join(folder, f"{match[1]}-index{match[2]}.txt{match[3] or ''}.bz2") if match else ""
    return index if os.path.isfile(index) else ""


def check_download(path: str) -> None:
    """Compares a dump `enwiki-DATE-…` with enwiki-DATE-sha1sums.txt or -md5sums.txt in its folder; prints where these lists are if
    there is none. InputError if the dump is not the listed file.
    """
    folder, name = os.path.split(path)
    if not (match := _DATED.match(name)):
        return
    for algorithm in ("sha1", "md5"):
        sums = os.path.join(folder, f"{match[0]}{algorithm}sums.txt")
        rows = (line.split() for _, line in files.lines(sums)) if os.path.isfile(sums) else ()
        # The lists of the "latest" dump name its files by their date.
        listed = {_DATED.sub("", row[1]): row[0].lower() for row in rows if len(row) == 2}
        if wanted := listed.get(_DATED.sub("", name)):
            with open(path, "rb") as file:
                actual = hashlib.file_digest(file, algorithm).hexdigest()
            if actual != wanted:
                raise InputError(f"{path} has {algorithm} {actual}, but {sums} lists {wanted}; download it again")
            say(f"{path}: {algorithm} as listed in {sums}")
            return
    url = f"https://dumps.wikimedia.org/{match[1]}/{match[2]}/{match[0]}sha1sums.txt"
    say(f"{path}: not compared with its published checksum; put {url} beside it")


def language(path: str) -> str:
    """The language of a dump, from its xml:lang, else from the name of its database (dewiki)."""
    return _read_siteinfo(path, _read_blocks(path))[0].language


def addresser(source: Source) -> Callable[[str], str]:
    """Normalises titles by the rules of the first file; leaves titles that cannot be linked unchanged."""
    path = files.expand(tuple(source["paths"]))[0]
    site = _site_of(_read_siteinfo(path, _read_blocks(path))[0])
    return lambda title: site.resolve(title).address or title.strip()


def parse(chunk: Chunk, source: Source) -> tuple[list[LinkedDocument], list[Dropped]]:
    """Documents of the chunk's pages. Raises InputError for broken XML (not for forbidden characters)."""
    documents: list[LinkedDocument] = []
    dropped: list[Dropped] = []
    limit = int(source["max_page_bytes"])
    payloads = [chunk.payload] if isinstance(chunk.payload, PageBytes) else _intact(chunk.payload, limit, dropped)
    for payload in payloads:
        for title, size in payload.too_large:
            dropped.append(Dropped(f"{payload.path}: {title}", "page-too-large", f"{size} bytes"))
        for page in _elements(payload, dropped):
            if document := _read_article(page, payload.path, _site_of(payload.siteinfo), limit, dropped):
                documents.append(document)
    return documents, dropped


def _read_blocks(path: str) -> Iterator[bytes]:
    """The bytes of a dump, decompressed, 1 MiB at a time. Raises InputError for damage, after the bytes before it."""
    total, block = 0, bytearray()
    damage: Exception | None = None
    with files.open_bytes(path) as file:
        try:
            while data := file.read1(_BLOCK - len(block)):  # type: ignore[attr-defined]
                block += data
                total += len(data)
                if len(block) == _BLOCK:
                    yield bytes(block)
                    block.clear()
        except _DAMAGE as error:
            damage = error
    if block:
        yield bytes(block)
    if damage:
        raise InputError(f"{path} is damaged after {total:,} bytes: {damage}; download it again") from damage


def _read_siteinfo(path: str, blocks: Iterator[bytes]) -> tuple[SiteInfo, bytes]:
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
    named = root[1] or ((wiki := _DATABASE.search(head)) and wiki[1])
    language = named.decode("ascii", "replace") if named else "en"
    start, end = head.find(b"<siteinfo", root.end()), head.find(b"</siteinfo>", root.end()) + len(b"</siteinfo>")
    if end < len(b"</siteinfo>"):
        return SiteInfo((), True, language, ""), head[root.end() :]
    try:
        info = ElementTree.fromstring(head[start:end])
        spaces = tuple((item.text or "", int(item.get("key", "0"))) for item in info.iter("namespace"))
    except (ElementTree.ParseError, ValueError) as error:  # or a namespace whose key is not a number
        raise InputError(f"{path} has a broken <siteinfo>: {error}; download it again") from None
    first_letter = info.findtext("case", "first-letter") == "first-letter"
    host = re.match(r"(?:https?:)?//(?:[^/@]*@)?([^/:]+)", info.findtext("base") or "")
    return SiteInfo(spaces, first_letter, language, host[1].lower() if host else ""), head[end:]


def _split_pages(
    path: str, siteinfo: SiteInfo, blocks: Iterable[bytes], max_page_bytes: int, whole: bool
) -> Iterator[PageBytes]:
    """Splits a stream between pages. `whole`: raises InputError unless </mediawiki> follows the last page."""
    # A page's XML is longer than its text: up to 6 bytes for an escaped character, and the elements around it.
    limit = 6 * max_page_bytes + _BLOCK
    buffer, previous, skipped = b"", "", 0
    too_large: list[tuple[str, int]] = []
    for block in blocks:
        buffer += block
        if skipped:  # the bytes of a page that is too large
            end = buffer.find(_PAGE_END)
            kept = len(_PAGE_END) if end < 0 else len(buffer) - end  # a possible beginning of </page>
            skipped += len(buffer) - kept
            buffer = buffer[-kept:]
            if end < 0:
                continue
            too_large[-1] = (too_large[-1][0], skipped)
            buffer, skipped = buffer[len(_PAGE_END) :], 0
        end = _after_last_page(buffer)
        large = len(buffer) - end > limit
        if end >= CHUNK_BYTES or (large and end):
            yield PageBytes(path, siteinfo, buffer[:end], tuple(too_large), previous)
            previous = _last_title(buffer[:end]) or previous
            buffer, too_large = buffer[end:], []
        if large:
            too_large.append((_last_title(buffer[:_BLOCK]), 0))
            buffer, skipped = buffer[-len(_PAGE_END) :], len(buffer) - len(_PAGE_END)
    end = _after_last_page(buffer)
    if end or too_large:
        yield PageBytes(path, siteinfo, buffer[:end], tuple(too_large), previous)
        previous = _last_title(buffer[:end]) or previous
    if whole:
        _check_end(path, buffer[end:], f"; last good page {previous!r}")


def _after_last_page(data: bytes) -> int:
    return data.rfind(_PAGE_END) + len(_PAGE_END) if _PAGE_END in data else 0


def _check_end(path: str, end: bytes, after: str = "") -> None:
    if not _END.fullmatch(end):
        raise InputError(f"{path} is truncated or damaged: no </mediawiki> at its end{after}; download it again")


def _last_title(pages: bytes) -> str:
    match = _TITLE.search(pages, max(0, pages.rfind(b"<title>")))
    return html.unescape(match[1].decode("utf-8", "replace")) if match else ""


def _elements(payload: PageBytes, dropped: list[Dropped]) -> Iterator[ElementTree.Element]:
    """The chunk's <page> elements; if the chunk does not parse, each page is parsed and repaired by itself."""
    try:
        yield from ElementTree.fromstring(b"<mediawiki>%b</mediawiki>" % payload.pages).iter("page")
        return
    except ElementTree.ParseError:
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


# Multistream dumps.
def _listed_blocks(path: str, siteinfo: SiteInfo, index: str) -> Iterator[Block]:
    """The blocks of a dump in its index; InputError unless the dump is whole and the index is its own."""
    # The last stream must be intact and end the XML.
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
    try:
        end = bz2.decompress(tail[max(0, tail.rfind(_BLOCK_MAGIC) - len("BZh9")) :])
    except (OSError, ValueError):
        end = b""
    _check_end(path, end[-_TAIL_BYTES:].rpartition(_PAGE_END)[2])
    start = -1
    titles: list[str] = []
    for number, line in files.lines(index):
        match = _INDEX_LINE.fullmatch(line)
        if not (match and start <= int(match[1]) < size):
            raise InputError(
                f"{index} line {number}: expected 'byte:page:title' with bytes in order, below the {size} of {path}; "
                "download both again"
            )
        if int(match[1]) > start and titles:
            yield Block(path, siteinfo, start, int(match[1]), tuple(titles))
            titles = []
        elif not titles and not _begins_with(path, int(match[1]), match[2]):
            break
        start = int(match[1])
        titles.append(match[2])
    if not titles:
        raise InputError(
            f"{index} does not belong to {path}, or one of them is damaged: the first page that it lists is not where "
            "it says; download both again"
        )
    yield Block(path, siteinfo, start, size, tuple(titles))


def _begins_with(path: str, start: int, title: str) -> bool:
    """Whether a bz2 stream begins at `start` whose first page has this title, as in an index."""
    with open(path, "rb") as file:
        file.seek(start)
        try:
            data = bz2.BZ2Decompressor().decompress(file.read(_BLOCK), _BLOCK)
        except OSError:
            return False
    match = _TITLE.search(data)
    return match is not None and html.unescape(match[1].decode("utf-8", "replace")) == html.unescape(title)


def _intact(blocks: list[Block], max_page_bytes: int, dropped: list[Dropped]) -> Iterator[PageBytes]:
    """The pages of each intact block; the pages of damaged blocks are appended to `dropped`.

    Raises InputError if an intact block does not contain the pages that the index lists.
    """
    for block in blocks:
        where = f"{block.path} byte {block.start}"
        try:
            payloads = list(_split_pages(block.path, block.siteinfo, _decompressed(block), max_page_bytes, whole=False))
        except (OSError, EOFError):
            dropped.extend(Dropped(where, "page-in-damaged-block", title) for title in block.titles)
            continue
        pages = sum(payload.pages.count(b"<page>") + len(payload.too_large) for payload in payloads)
        if pages != len(block.titles):
            raise InputError(
                f"the index names {len(block.titles)} pages at {where}, but there are {pages}; download both again"
            )
        yield from payloads


def _decompressed(block: Block) -> Iterator[bytes]:
    """The block's decompressed bytes, at most 1 MiB at a time; raises OSError or EOFError if it is damaged."""
    with open(block.path, "rb") as file:
        file.seek(block.start)
        left = block.end - block.start
        while left:
            stream, data = bz2.BZ2Decompressor(), b""
            while not stream.eof:
                if stream.needs_input:
                    data = file.read(min(left, _BLOCK))
                    left -= len(data)
                    if not data:
                        raise EOFError("the stream is truncated")
                yield stream.decompress(data, _BLOCK)
                data = b""
            file.seek(-len(stream.unused_data), 1)
            left += len(stream.unused_data)


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
# The words in parentheses of their titles.
_DISAMBIGUATION_TITLES = tuple(
    f"({word})"
    for word in """disambiguation begriffsklärung homonymie desambiguación desambiguação disambigua doorverwijspagina
    значения ujednoznacznienie 曖昧さ回避 消歧义""".split()  # noqa: SIM905
)
_NUMBER = re.compile(r"-?[0-9]{1,6}")


@lru_cache(maxsize=8)
def _site_of(siteinfo: SiteInfo) -> Site:
    """The naming rules of a dump, cached."""
    spaces, first_letter, language, host = siteinfo
    wikimedia = not host or _WIKIMEDIA.search(host) is not None
    # Wikipedias and Wiktionaries have articles such as "/dev/null".
    subpages = not host.endswith(("wikipedia.org", "wiktionary.org"))
    return Site(dict(spaces), first_letter, language, wikimedia, subpages)


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
    model, text = revision.findtext("model"), revision.findtext("text")
    identity = (site.address(title), page.findtext("id") or title, title)
    element, match = page.find("redirect"), _REDIRECT.match(text or "")
    target = (element.get("title") if element is not None else None) or (match[1] if match else None)
    if target is not None:
        address, reason, _ = site.resolve(target)
        if address is None:
            dropped.append(Dropped(where, reason.replace("link-", "redirect-"), target))
            return None
        return LinkedDocument(*identity, text="", links=(), lead_end=0, redirect=address)
    too_large = 4 * len(text or "") > max_page_bytes and len((text or "").encode("utf-8", "replace")) > max_page_bytes
    if not text or too_large or model not in (None, "wikitext"):
        reason = "page-model" if model not in (None, "wikitext") else "page-too-large" if too_large else "page-empty"
        dropped.append(Dropped(where, reason, model or ""))
        return None
    plain = plain_text(text, site, title)
    dropped.extend(Dropped(where, *each) for each in plain.dropped)
    # Links in templates, tables, references, comments and captions; links to files and categories.
    dropped_links = sum(reason.startswith("link-") for reason, _ in plain.dropped)
    if (outside := text.count("[[") - len(plain.links) - dropped_links) > 0:
        dropped.append(Dropped(where, "link-outside-prose", f"{outside} of {outside + len(plain.links)}", outside))
    return LinkedDocument(
        *identity, plain.text, tuple(Link(*link) for link in plain.links), plain.lead_end,
        is_disambiguation=is_disambiguation(title, text),
    )  # fmt: skip


def is_disambiguation(title: str, wikitext: str) -> bool:
    """Whether the title, a template or a category marks the page as a disambiguation page."""
    return title.lower().endswith(_DISAMBIGUATION_TITLES) or _DISAMBIGUATION.search(wikitext) is not None
