"""HTML: a page (bytes and URL) to a LinkedDocument, and folders of pages (a mirror, a documentation build) or single files.

The address of a page is that of its canonical link, else its URL; a page that names another address is also a redirect. Lists of
links (indices, tables of contents, site maps) keep their text and lose their links, which repeat titles without a sentence around
them: 42 % of the links of Python's documentation. Numbers and their labels are removed from the start of titles and anchors
("Abschnitt 4.5, „Drehen“" becomes "Drehen"); a link with nothing else ("Section 9.21") is dropped.

A file's URL is `source.base_url` plus its path below the given folder; without a base URL, `file:///` plus that path. The files
read are those named .html, .htm and .xhtml, others that begin like HTML, and all that `source.paths` names directly. Links as the
server writes them (`wget --mirror` without -k) also resolve: `guide` is another address of guide.html, `view?id=1` of
"view?id=1.html", a symbolic link of its target.
"""

import codecs
import contextlib
import html
import os
import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from data_pipeline.sources import urls
from data_pipeline.sources.document import Chunk, Dropped, Link, LinkedDocument, Outline, Source, redirect, tidy, unmark
from data_pipeline.sources.main_content import MainContent, text_of
from harp_jax.base import files
from harp_jax.base.errors import needs

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

Resolve = Callable[[str], tuple[str | None, str]]  # `urls.resolve` of the links of a page
SUFFIXES = (".html", ".htm", ".xhtml")
_COPIES = (".orig", ".bak", "~")  # by wget -K and by editors
_BEGIN = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?>.*?-->)\s*+)*+<(?:!doctype\s+html|html)[\s>]",
    re.IGNORECASE | re.DOTALL,
)


def entries(root: str, source: Source) -> Iterator[tuple[tuple[str, str, list[str]], int]]:
    """Of a folder of pages, or one file: (path, URL, aliases), aliases being other URLs of the page, and the bytes to read.
    Then those of symbolic links to pages and folders, with path "": another entry reads the page. InputError for an invalid
    base URL."""
    base, is_folder = urls.base_url(source), os.path.isdir(root)
    for path in filter(is_page, files.walk(root)) if is_folder else [root]:
        name = os.path.relpath(path, root) if is_folder else os.path.basename(root)
        yield (path, base + _quoted(name), _aliases(base, name)), min(os.path.getsize(path), source["max_page_bytes"])
    for link, target in files.links_within(root) if is_folder else ():
        for path in filter(is_page, files.walk(target) if os.path.isdir(target) else [target]):
            name = os.path.relpath(os.path.normpath(os.path.join(link, os.path.relpath(path, target))), root)
            page = base + _quoted(os.path.relpath(path, root))
            yield ("", page, [base + _quoted(name), *_aliases(base, name)]), 0


def _quoted(relative: str) -> str:
    """Escaped as in links: %, ? and # are escaped, the characters of Talk:A&B.html are not."""
    return urllib.parse.quote(os.fsencode(relative), urls.SAFE.replace("%", ""))


def _aliases(base: str, relative: str) -> list[str]:
    """Other URLs that a server may answer with this file: without its suffix, and with ? for a query."""
    stem, suffix = os.path.splitext(relative)
    stems = [stem] if suffix.lower() in SUFFIXES and os.path.basename(stem).lower() != "index" else []
    aliases = [base + _quoted(name) for name in stems]
    for path, mark, query in (name.partition("?") for name in (relative, *stems)):
        aliases += [f"{base}{_quoted(path)}?{urllib.parse.quote(os.fsencode(query), urls.SAFE + '?')}"] if mark else []
    return aliases


def parse(chunk: Chunk, source: Source, dropped: list[Dropped]) -> Iterator[LinkedDocument]:
    """The chunk's pages; raises InputError for a file that cannot be read."""
    for path, url, others in chunk.payload:
        if path:
            with open(path, "rb") as file:
                data = file.read(source["max_page_bytes"] + 1)
            if not (read := read_page(data, url, path, source, dropped)):
                continue
            yield from read
        # Redirects from the other URLs of the page; a page with the same address has priority.
        own, addresses = urls.address(url), dict.fromkeys(map(urls.address, others))
        yield from (redirect(address, own) for address in addresses if address and own and address != own)


def is_page(path: str) -> bool:
    """Whether a file of a folder is read, by its name or by how it begins. Raises InputError if it cannot be read."""
    if path.lower().endswith(SUFFIXES):
        return True
    if path.lower().endswith(_COPIES):
        return False
    with open(path, "rb") as file:
        return _BEGIN.match(file.read(1024)) is not None


# One page.
_META_CHARSET = re.compile(rb"<meta[^<>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_BAD_CHARACTERS = 0.05  # of a page's characters: with more that cannot be decoded, the encoding is another one
_SHADOW = re.compile(r"<template(?=\s[^<>]*shadowrootmode)", re.IGNORECASE)  # browsers display it at once
_REFRESH = re.compile(r"\s*(\d{1,3})\s*[;,]\s*url\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_INDEX_PAGES = re.compile(
    r"(?:^|/)(?:search|genindex(?:-[^/]*)?|(?:[a-z]+-)?modindex|sitemap|index-all|all(?:classes|packages)(?:-[^/]*)?)(?:\.\w+)?$"
)
MIN_LINKS = 30
MIN_ONLY_LINKS = 10  # of a page with nothing else
_LINKED = 0.7  # of the characters
_ONLY_LINKED = 0.8
_ENTRIES = 0.8  # of the links: in lines without a sentence around them, as in an index
_SENTENCE = 40  # minimum characters outside links of a line that is more than an entry
_LABELS = """section chapter appendix part figure fig table example listing abschnitt kapitel anhang teil abbildung tabelle beispiel
    chapitre annexe partie tableau exemple sección capítulo apéndice parte figura tabla ejemplo sezione capitolo appendice tabella
    esempio seção capítulo apêndice tabela exemplo hoofdstuk paragraaf bijlage tabel rozdział sekcja раздел глава приложение kapitel
    avsnitt 付録 附录 附錄 章 節 节 図 图 圖 表 例"""
_SHORT_LABELS = "sec ch chap abschn kap abb tab"
_LABEL = (
    rf"(?i:(?:{'|'.join(_LABELS.split())})(?:e?n|e?s|e)?(?:\.?\s*(?=\d)|\.\s*|\s+)|"
    rf"(?:{'|'.join(_SHORT_LABELS.split())})s?(?:\.\s*|\s+))"
)
_WHOLE = r"(?![\w.]*\w)"  # the number does not continue, as in 3D and 3.x
_NUMBER = rf"(?:\d+|[IVX]+|[A-Z])(?:\.\d+)*{_WHOLE}"
_REFERENCE = rf"{_LABEL}{_NUMBER}(?:(?:\s*[,–-]|\s(?:and|or|to|und|oder|bis|et|ou|y|e)\b)\s*(?:{_LABEL})?{_NUMBER})*"
_STOP = r"(?:\s*[.:,](?!\S)|\s*[–—：]|\s-(?!\S)|\s*(?=[「『“„]))"
# "Section 9.21 Locks", but not "Figure 8 knot" or "Part C compiler".
_NUMBERED = (
    rf"(?:(?>{_REFERENCE})(?:(?={_STOP})|(?:(?<=[A-Z\d]\.\d)|(?<=[A-Z\d]\.\d\d))(?=\s))|"
    rf"第\s*\d+(?:\.\d+)*\s*[章節节部条編编]|(?:\d+\.)+(?!\S)|[A-Z](?:\.\d+)+\.(?!\S)|\d+(?:\.\d+)*(?=[「『“„]))(?:{_STOP})?\s*"
)
# Only in titles: "IV. Locks", and "9.21 Locks", but not "3.11 Release", "2.0 Foo", "1.5 times" or "7 Wonders".
_OF_TITLE = (
    r"[IVX]{2,}\.\s+|[1-9]\d?(?:\.[1-9]\d?)+\s+(?!(?i:release|version|alpha|beta|rc|update|change))(?=[^\W\d_a-z])"
)
_NUMBER_OF_TITLE = re.compile(rf"(?:{_NUMBERED}|{_OF_TITLE})(?=[^\s.:,]|\.\w)")
_NUMBER_OF_ANCHOR = re.compile(rf"(\x02\d+\x05){_NUMBERED}(?=[^\s.:,\x03]|\.\w)")
_NOTHING_ELSE = re.compile(rf"\x02(\d+)\x05(?:{_REFERENCE}|\d+(?:\.\d+)+|{_NUMBERED})[.:]?\x03")
_QUOTES = {
    '"': '"', "'": "'", "„": "“”", "“": "”", "‚": "‘’", "‘": "’", "«": "»", "»": "«", "「": "」", "『": "』", "《": "》",
}  # fmt: skip


def read_page(
    data: bytes, url: str, where: str, source: Source, dropped: list[Dropped], charset: str | None = None
) -> list[LinkedDocument]:
    """The page, and a redirect to it from `url` if its address differs; or nothing, with the reason appended to `dropped`.
    `charset`: from the HTTP headers. Raises InputError only if the extra [web] is not installed."""
    own, limit = urls.address(url), source["max_page_bytes"]
    if own is None or len(data) > limit:
        reason = ("page-url", url) if own is None else ("page-too-large", f"more than {limit} bytes")
        dropped.append(Dropped(where, *reason))
        return []
    with needs("reading HTML", "selectolax", "web"):
        from selectolax.lexbor import LexborHTMLParser
    text, encoding = _decoded(data, charset, where, dropped)
    if text is None:
        return []
    text, tangled = _untangled(_SHADOW.sub("<shadow-root", text))
    if tangled:
        dropped.append(Dropped(where, "page-too-tangled", tangled))
        return []
    tree = LexborHTMLParser(text)
    base = urls.joined(url, _href(tree, "base[href]")) or url
    resolve = partial(urls.resolve, base, encoding=encoding)
    # A canonical address on another host is kept apart: documentation builds may name a path on the author's disk, or a host that
    # these pages do not come from.
    href = _href(tree, "link[rel~=canonical i][href]")
    address, elsewhere = own, "" if href.strip().lower().startswith("file:") else resolve(href)[0] or ""
    if elsewhere and urls.site(elsewhere) == urls.site(own):
        address, elsewhere = elsewhere, ""
    moved = _refresh(tree, resolve)
    if moved and moved not in (address, own):
        return [redirect(own, moved)]
    aliases = [redirect(own, address)] if address != own else []
    document = _document(tree, resolve, address, where, source, dropped)
    if document is None:
        return aliases
    # A canonical link to the same path on another host also names this page.
    path = own.split("//", 1)[1].removeprefix(urls.site(own))
    if elsewhere and elsewhere.partition(urls.site(elsewhere))[2].endswith(path):
        aliases.append(redirect(elsewhere, address))
    return [*aliases, replace(document, canonical=elsewhere)]


def _href(tree: "LexborHTMLParser", selector: str) -> str:
    node = tree.css_first(selector)
    return (node.attributes.get("href") or "") if node is not None else ""


def _refresh(tree: "LexborHTMLParser", resolve: Resolve) -> str | None:
    """The target of `<meta http-equiv="refresh" content="0; url=...">`, which documentation sites use for moved pages."""
    for node in tree.css('meta[http-equiv="refresh" i][content]'):
        match = _REFRESH.match(html.unescape(node.attributes.get("content") or ""))
        around = node.parent
        while around is not None and around.tag != "noscript":  # there it is for browsers that cannot display the page
            around = around.parent
        if match and int(match[1]) <= 10 and around is None:
            return resolve(match[2])[0]
    return None


def _decoded(data: bytes, charset: str | None, where: str, dropped: list[Dropped]) -> tuple[str | None, str]:
    """The text and the encoding of its URLs: by byte order mark, HTTP charset, <meta> or else UTF-8; labels as browsers read
    them. Invalid bytes are replaced and counted; if there are many, the text is None."""
    with needs("reading HTML", "webencodings", "web"):
        import webencodings

    def known(label: str) -> "webencodings.Encoding | None":
        """The encoding of a label in the standard, or in the spelling of programs ("latin-1")."""
        with contextlib.suppress(LookupError, ValueError):
            return webencodings.lookup(label) or webencodings.lookup(codecs.lookup(label).name)
        return None

    encoding = known(charset or "")
    if encoding is None and (meta := _META_CHARSET.search(data, 0, 4096)):
        encoding = known(meta[1].decode("ascii"))
        if encoding and encoding.name.startswith("utf-16"):
            encoding = webencodings.UTF8  # an ASCII <meta> cannot be part of UTF-16
    if encoding is None or encoding.name == "gbk":
        encoding = webencodings.lookup("gb18030" if encoding else "utf-8")
    text, encoding = webencodings.decode(data, encoding)
    replaced = text.count("\ufffd")
    if encoding.name == "replacement" or replaced > max(3, _BAD_CHARACTERS * len(text)):
        dropped.append(Dropped(where, "page-encoding", encoding.name))
        return None, ""
    if replaced:
        dropped.append(Dropped(where, "characters-replaced", encoding.name))
    return text.replace("\0", "\ufffd"), "utf-8" if encoding.name.startswith("utf-16") else encoding.name


def _document(
    tree: "LexborHTMLParser", resolve: Resolve, address: str, where: str, source: Source, dropped: list[Dropped]
) -> LinkedDocument | None:
    content = MainContent(tree)
    if content.outside:
        dropped.append(Dropped(where, "link-outside-content", content.outside[0], len(content.outside)))
    if content.unread:
        dropped.append(Dropped(where, "text-outside-content", text_of(content.unread[0]), len(content.unread)))
    # The text, its links (start, end, number), the end of its lead, the spans of every section; links that are only a number.
    pieces: list[str] = []
    placed: list[tuple[int, int, int]] = []
    spans: list[list[tuple[int, int]]] = [[] for _ in content.sections]
    length, lead_end = 0, -1
    numbers: set[int] = set()
    for block in content.blocks:
        marked = tidy(block.text)
        numbers |= {int(number) for number in _NOTHING_ELSE.findall(marked)}
        plain, block_links, _ = unmark(_NUMBER_OF_ANCHOR.sub(r"\1", marked))
        if not plain:
            continue
        if block.heading and length and lead_end < 0:
            lead_end = length - 1
        placed += ((a + length, b + length, number) for a, b, number in block_links if number not in numbers)
        if not block.begins:
            spans[block.section].append((length, length + len(plain)))
        pieces.append(plain)
        length += len(plain) + 1
    if not (text := "\n".join(pieces)):
        dropped.append(Dropped(where, "page-empty", ""))
        return None
    title = content.sections[0].title
    # Several <h1>, the first with a number, are chapters of the page: "Summary" is not its title.
    chapter = _NUMBER_OF_TITLE.match(title) and len(tree.css("h1")) > 1
    if (chapter or not title) and (element := tree.css_first("title")) is not None:
        title = text_of(element) or title
    title = _title(title.rstrip(" \u00b6"))
    outline = None
    if source.get("split", "pages") != "pages":
        titles = [title, *(_title(section.title) for section in content.sections[1:])]
        sections = (
            each._replace(title=own, spans=tuple(parts)) for each, own, parts in zip(content.sections, titles, spans)
        )
        outline = Outline(tuple(sections), content.fragments)
    with_text = {number for _, _, number in placed}
    for number, href in enumerate(content.hrefs):
        if number not in with_text:
            reason = "link-number" if number in numbers else resolve(href)[1] or "link-empty"
            dropped.append(Dropped(where, reason, href))
    links: list[Link] = []
    for start, end, number in placed:
        if end - start > 2 and text[end - 1] in _QUOTES.get(text[start], ""):
            start, end = start + 1, end - 1
        # With the fragment, if pages may be split.
        href = content.hrefs[number]
        target, reason = resolve(href)
        if outline and reason in ("", "link-self") and (fragment := urls.fragment(href)):
            target = f"{target or address}#{fragment}"
        if target is None:
            dropped.append(Dropped(where, reason, href))
        else:
            links.append(Link(start, end, target))
    if _is_index_page(address, text, links):
        dropped.append(Dropped(where, "page-index", title))
        dropped.append(Dropped(where, "link-on-index-page", title, len(links)))
        links = []
    lead_end = len(text) if lead_end < 0 else lead_end
    return LinkedDocument(address, address, title, text, tuple(links), lead_end, outline=outline)


def _title(text: str) -> str:
    """The title of a page or section without its number."""
    number = _NUMBER_OF_TITLE.match(text)
    return text[number.end() if number else 0 :][:500]


def _is_index_page(address: str, text: str, links: Sequence[Link]) -> bool:
    """By the address, by 10 links that are nearly the whole text, or 30 that are most of it or in lines without a sentence."""
    if _INDEX_PAGES.search(address.partition("?")[0]):
        return True
    linked = sum(link.end - link.start for link in links) / max(1, len(text) - text.count("\n"))
    if len(links) < MIN_LINKS:
        return len(links) >= MIN_ONLY_LINKS and linked > _ONLY_LINKED
    if linked > _LINKED:
        return True
    entries = sentences = at = start = 0
    for line in text.split("\n"):
        first, outside = at, len(line)
        while at < len(links) and links[at].start < start + len(line):
            outside -= links[at].end - links[at].start
            at += 1
        sentences += outside if outside >= _SENTENCE else 0
        entries += at - first if outside < _SENTENCE else 0
        start += len(line) + 1
    return entries > _ENTRIES * len(links) and sentences < (1 - _LINKED) * len(text)


# What would take more than linear time to parse: the parser walks over all open elements, and over all attributes of a tag; each
# paragraph reopens unclosed formatting (bold, font …), which is removed if there is much of it.
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)[^<>]*")
_FORMATS = frozenset("b big code em font i nobr s small strike strong tt u".split())  # noqa: SIM905
_FORMATTING_TAG = re.compile(rf"</?(?:{'|'.join(_FORMATS)})(?=[\s/>])[^<>]*>", re.IGNORECASE)
# Void elements, and elements closed by the next of their kind.
_CLOSED = frozenset(
    """area base br col embed hr img input link meta param source track wbr a p li dd dt tr td th thead tbody tfoot option
    optgroup colgroup rt rp html head body script style""".split()  # noqa: SIM905
)
# Comparisons in scripts would count as open elements, and so would self-closing elements of drawings.
_NOT_TEXT = re.compile(r"<(script|svg|math)(?=[\s/>]).*?(?:</\1(?=[\s/>])[^>]*>?|\Z)", re.IGNORECASE | re.DOTALL)
MAX_OPEN = 1000
MAX_FORMATS = 50
MAX_ATTRIBUTES = 4096


def _untangled(text: str) -> tuple[str, str]:
    """The text in a form that parses in linear time, and why there is none."""
    elements, formats = _most_open(text)
    if elements > MAX_OPEN:
        text = _NOT_TEXT.sub("", text)
        elements, formats = _most_open(text)
    if elements > MAX_OPEN:
        return text, f"more than {MAX_OPEN} elements open at once"
    for part in text.split(">"):
        if len(part) > 4 * MAX_ATTRIBUTES and (tag := _TAG.search(part)):
            attributes = re.sub("\"[^\"]*\"|'[^']*'", "", part[tag.start() :])
            if len(attributes.replace("/", " ").replace("=", " ").split()) > MAX_ATTRIBUTES:
                return text, f"more than {MAX_ATTRIBUTES} attributes in one tag"
    return _FORMATTING_TAG.sub("", text) if formats > MAX_FORMATS else text, ""


def _most_open(text: str) -> tuple[int, int]:
    """The maximum of elements open at once: others, and those that format."""
    opened: Counter[str] = Counter()
    total, most = [0, 0], [0, 0]
    for slash, name in _TAG.findall(text):
        name = name.lower()
        if name not in _CLOSED and (opened[name] or not slash):
            kind, step = name in _FORMATS, -1 if slash else 1
            opened[name] += step
            total[kind] += step
            most[kind] = max(most[kind], total[kind])
    return most[0], most[1]
