"""HTML: a page (bytes and URL) to a LinkedDocument, and folders of pages (a mirror, a documentation build) or single files.

Offsets refer to the extracted text. The address is that of the canonical link if the page has one, else of its URL; a page that
names another address is also a redirect. Lists of links (back-of-book indices, tables of contents, site maps, search forms) keep
their text and lose their links, which only repeat titles and names without a sentence around them: 42 % of the links of Python's
documentation. From 30 links on, 70 % of the text in links is enough, from 10 on 80 %. Chapter numbers and their labels are removed
from the start of titles and anchors ("Abschnitt 4.5, „Drehen“" becomes "Drehen"); a link with nothing else ("Section 9.21") is
dropped.

A file's URL is `source.base_url` plus its path below the given folder; without a base URL, `file:///` plus that path, so that
relative links resolve. The files read are those named .html, .htm and .xhtml, others that begin like HTML, and all that
`source.paths` names directly. Links as the server writes them (`wget --mirror` without -k) also resolve: `guide` is another
address of guide.html, `view?id=1` of "view?id=1" and "view?id=1.html". A symbolic link is another address of its target.
"""

import codecs
import contextlib
import html
import itertools
import os
import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from data_pipeline.sources import urls
from data_pipeline.sources.document import (
    CHUNK_BYTES,
    CONTROLS,
    INVISIBLE,
    ODD_SPACE,
    SPACES,
    Chunk,
    Dropped,
    Link,
    LinkedDocument,
    Outline,
    Section,
    Source,
    in_chunks,
    offsets,
    redirect,
    tidy,
)
from data_pipeline.sources.main_content import Content, main_content, text_of
from harp_jax.base import files
from harp_jax.base.errors import needs

if TYPE_CHECKING:
    import webencodings
    from selectolax.lexbor import LexborHTMLParser

Resolve = Callable[[str], tuple[str | None, str]]  # `urls.resolve` of the links of a page
SUFFIXES = (".html", ".htm", ".xhtml")
# Backup copies by wget -K and by editors.
_COPIES = (".orig", ".bak", "~")
_BEGIN = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?>.*?-->)\s*+)*+<(?:!doctype\s+html|html)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_BEGIN_BYTES = 1024
_PAGES_PER_CHUNK = 4096


def chunks(source: Source) -> Iterator[Chunk]:
    """Payload: a list of (path, URL, aliases), aliases being other URLs of the page; path "" if another entry reads the page.

    Raises InputError for a path that does not exist and an invalid base URL.
    """
    base = urls.base_url(source)
    limit = int(source["max_page_bytes"])
    for number, given in enumerate(files.expand(tuple(source["paths"]))):
        pages = (
            ((path, base + _quoted(relative), _aliases(base, relative)), min(os.path.getsize(path), limit))
            for path, relative in _pages_of(given)
        )
        links = (
            (("", base + _quoted(relative), [base + _quoted(link), *_aliases(base, link)]), 0)
            for link, relative in _links_of(given)
        )
        yield from in_chunks(number, given.rstrip("/"), itertools.chain(pages, links), CHUNK_BYTES, _PAGES_PER_CHUNK)


def _quoted(relative: str) -> str:
    """Escaped as in links: %, ? and # are escaped, the characters of Talk:A&B.html are not."""
    return urllib.parse.quote(os.fsencode(relative), urls.SAFE.replace("%", ""))


def _aliases(base: str, relative: str) -> list[str]:
    """Other URLs that a server may answer with this file."""
    stem, suffix = os.path.splitext(relative)
    names = [relative]
    if suffix.lower() in SUFFIXES and os.path.basename(stem).lower() != "index":
        names.append(stem)
    found = [base + _quoted(name) for name in names[1:]]
    for path, mark, query in (name.partition("?") for name in names):
        if mark:
            found.append(f"{base}{_quoted(path)}?{urllib.parse.quote(os.fsencode(query), urls.SAFE + '?')}")
    return found


def parse(chunk: Chunk, source: Source) -> tuple[list[LinkedDocument], list[Dropped]]:
    """The chunk's pages; raises InputError for a file that cannot be read."""
    documents: list[LinkedDocument] = []
    dropped: list[Dropped] = []
    limit = int(source["max_page_bytes"])
    for path, url, others in chunk.payload:
        if not path:
            documents += _redirects(others, url)
            continue
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(limit + 1)
        if size > limit:
            dropped.append(Dropped(path, "page-too-large", f"{size} bytes"))
            continue
        read = read_page(data, url, path, source, dropped)
        documents += read + (_redirects(others, url) if read else [])
    return documents, dropped


def _redirects(others: list[str], url: str) -> list[LinkedDocument]:
    """Redirects from the other URLs of a page; a page with the same address has priority."""
    own = urls.address(url)
    addresses = dict.fromkeys(urls.address(other) for other in others)
    return [redirect(address, own) for address in addresses if address and own and address != own]


def _pages_of(given: str) -> Iterator[tuple[str, str]]:
    """(path, path relative to the folder) of the pages of a folder, or of a single file."""
    if os.path.isdir(given):
        yield from ((path, os.path.relpath(path, given)) for path in files.walk(given) if is_page(path))
    else:
        yield given, os.path.basename(given)


def _links_of(given: str) -> Iterator[tuple[str, str]]:
    """(link, target) of symbolic links to pages, and to folders of pages, as paths below the given folder."""
    if os.path.isdir(given):
        for link, target in files.links_within(given):
            for path in files.walk(target) if os.path.isdir(target) else [target]:
                if is_page(path):
                    name = os.path.normpath(os.path.join(link, os.path.relpath(path, target)))
                    yield os.path.relpath(name, given), os.path.relpath(path, given)


def is_page(path: str) -> bool:
    """Whether a file of a folder is read, by its name or by how it begins. Raises InputError if it cannot be read."""
    if path.lower().endswith(SUFFIXES):
        return True
    if path.lower().endswith(_COPIES):
        return False
    with open(path, "rb") as file:
        return _BEGIN.match(file.read(_BEGIN_BYTES)) is not None


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

    `charset`: from the HTTP headers. Raises InputError only if the extra [web] is not installed.
    """
    own = urls.address(url)
    if own is None:
        dropped.append(Dropped(where, "page-url", url))
        return []
    if len(data) > source["max_page_bytes"]:
        dropped.append(Dropped(where, "page-too-large", f"{len(data)} bytes"))
        return []
    with needs("reading HTML", "selectolax", "web"):
        from selectolax.lexbor import LexborHTMLParser
    text, encoding = _decoded(data, charset, where, dropped)
    if text is None:
        return []
    try:
        tree = LexborHTMLParser(_untangled(_SHADOW.sub("<shadow-root", text)))
    except _Tangled as error:
        dropped.append(Dropped(where, "page-too-tangled", str(error)))
        return []
    base = urls.joined(url, _attribute(tree, "base[href]", "href") or "") or url
    resolve = partial(urls.resolve, base, encoding=encoding)
    address, elsewhere = _canonical(tree, resolve, own)
    aliases = [redirect(own, address)] if address != own else []
    moved = _refresh(tree, resolve)
    if moved and moved not in (address, own):
        return [redirect(own, moved)]
    document = _document(tree, resolve, address, where, source, dropped)
    if document is None:
        return aliases
    if elsewhere and _path_of(elsewhere).endswith(_path_of(own)):
        aliases.append(redirect(elsewhere, address))
    return [*aliases, replace(document, canonical=elsewhere)]


def _canonical(tree: "LexborHTMLParser", resolve: Resolve, own: str) -> tuple[str, str]:
    """The page's address, and its canonical address if that is on another host, else "".

    Documentation builds may name a path on the author's disk, or a host that these pages do not come from.
    """
    href = _attribute(tree, "link[rel~=canonical i][href]", "href")
    address = resolve(href)[0] if href is not None else None
    if href is None or address is None or href.strip().lower().startswith("file:"):
        return own, ""
    return (address, "") if urls.site(address) == urls.site(own) else (own, address)


def _path_of(address: str) -> str:
    return address.split("//", 1)[1].removeprefix(urls.site(address))


def _document(
    tree: "LexborHTMLParser", resolve: Resolve, address: str, where: str, source: Source, dropped: list[Dropped]
) -> LinkedDocument | None:
    content = main_content(tree)
    if content.outside:
        dropped.append(Dropped(where, "link-outside-content", content.outside[0], len(content.outside)))
    if content.unread:
        dropped.append(Dropped(where, "text-outside-content", text_of(content.unread[0]), len(content.unread)))
    text, placed, lead_end, spans, numbers = _assembled(content)
    if not text:
        dropped.append(Dropped(where, "page-empty", ""))
        return None
    title = content.heading
    # Several <h1>, the first with a number, are chapters of the page: "Summary" is not its title.
    chapter = _NUMBER_OF_TITLE.match(title) and len(tree.css("h1")) > 1
    if (chapter or not title) and (element := tree.css_first("title")) is not None:
        title = text_of(element) or title
    title = _title(title.rstrip(" \u00b6"))
    outline = _outline(content, spans, title) if source.get("split", "pages") != "pages" else None
    kept = {number for _, _, number in placed}
    for number, href in enumerate(content.hrefs):
        if number not in kept:
            reason = "link-number" if number in numbers else resolve(href)[1] or "link-empty"
            dropped.append(Dropped(where, reason, href))
    links: list[Link] = []
    for start, end, number in (_unquoted(text, *place) for place in placed):
        target, reason = _target(resolve, content.hrefs[number], address, outline is not None)
        if target is None:
            dropped.append(Dropped(where, reason, content.hrefs[number]))
        else:
            links.append(Link(start, end, target))
    if _is_index_page(address, text, links):
        dropped.append(Dropped(where, "page-index", title))
        dropped.append(Dropped(where, "link-on-index-page", title, len(links)))
        links = []
    return LinkedDocument(address, address, title, text, tuple(links), lead_end, outline=outline)


def _assembled(content: Content) -> tuple[str, list[tuple[int, int, int]], int, list[list[tuple[int, int]]], set[int]]:
    """Text, links (start, end, number), the end of the lead, the spans of every section, and the links that are only a number."""
    pieces: list[str] = []
    links: list[tuple[int, int, int]] = []
    spans: list[list[tuple[int, int]]] = [[] for _ in content.sections]
    length, lead_end = 0, -1
    numbers: set[int] = set()
    for block in content.blocks:
        text = ODD_SPACE.sub(" ", INVISIBLE.sub("", block.text))
        text = tidy(SPACES.sub(" ", text))
        numbers |= {int(number) for number in _NOTHING_ELSE.findall(text)}
        plain, found, _ = offsets(_NUMBER_OF_ANCHOR.sub(r"\1", text))
        if not plain:
            continue
        if block.heading and length and lead_end < 0:
            lead_end = length - 1
        links += [(start + length, end + length, number) for start, end, number in found if number not in numbers]
        if not block.begins:
            spans[block.section].append((length, length + len(plain)))
        pieces.append(plain)
        length += len(plain) + 1
    text = "\n".join(pieces)
    return text, links, len(text) if lead_end < 0 else lead_end, spans, numbers


def _outline(content: Content, spans: list[list[tuple[int, int]]], title: str) -> Outline:
    sections = [Section("", title, 0, tuple(spans[0]))]
    for section, places in zip(content.sections[1:], spans[1:]):
        name = _title(section.title)
        fragment = section.anchors[0] if section.anchors else ""
        sections.append(Section(fragment, name, section.parent, tuple(places)))
    return Outline(tuple(sections), content.fragments)


def _target(resolve: Resolve, href: str, own: str, sections: bool) -> tuple[str | None, str]:
    """The address that a link leads to, with the fragment if pages may be split; or None and the reason."""
    target, reason = resolve(href)
    if not sections or reason not in ("", "link-self"):
        return target, reason
    fragment = urls.fragment(href)
    if target is None:
        return (f"{own}#{fragment}", "") if fragment else (None, reason)
    return (f"{target}#{fragment}" if fragment else target), ""


def _title(text: str) -> str:
    """The title of a page or section without its number."""
    text = CONTROLS.sub("", text)
    number = _NUMBER_OF_TITLE.match(text)
    return text[number.end() if number else 0 :][:500]


def _unquoted(text: str, start: int, end: int, number: int) -> tuple[int, int, int]:
    """A link without the quotation marks around its text."""
    quoted = end - start > 2 and text[end - 1] in _QUOTES.get(text[start], "")
    return (start + 1, end - 1, number) if quoted else (start, end, number)


def _is_index_page(address: str, text: str, links: Sequence[Link]) -> bool:
    """By the address, by 10 links that are nearly the whole text, or 30 that are most of it or in lines without a sentence."""
    if _INDEX_PAGES.search(address.partition("?")[0]):
        return True
    linked = sum(link.end - link.start for link in links) / max(1, len(text) - text.count("\n"))
    if len(links) < MIN_LINKS:
        return len(links) >= MIN_ONLY_LINKS and linked > _ONLY_LINKED
    if linked > _LINKED:
        return True
    entries, sentences, at = 0, 0, 0
    start = 0
    for line in text.split("\n"):
        first, outside = at, len(line)
        while at < len(links) and links[at].start < start + len(line):
            outside -= links[at].end - links[at].start
            at += 1
        sentences += outside if outside >= _SENTENCE else 0
        entries += at - first if outside < _SENTENCE else 0
        start += len(line) + 1
    return entries > _ENTRIES * len(links) and sentences < (1 - _LINKED) * len(text)


def _attribute(tree: "LexborHTMLParser", selector: str, name: str) -> str | None:
    node = tree.css_first(selector)
    return node.attributes.get(name) if node is not None else None


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
    """The text and the encoding of its URLs: by byte order mark, HTTP charset, <meta> or else UTF-8; labels as browsers read them.

    Invalid bytes are replaced and counted; if there are many, the text is None.
    """
    with needs("reading HTML", "webencodings", "web"):
        import webencodings

    encoding = _encoding(charset or "")
    if encoding is None and (meta := _META_CHARSET.search(data, 0, 4096)):
        encoding = _encoding(meta[1].decode("ascii"))
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


def _encoding(label: str) -> "webencodings.Encoding | None":
    """The encoding of a label in the standard, or in the spelling of programs ("latin-1")."""
    import webencodings

    found = webencodings.lookup(label)
    with contextlib.suppress(LookupError, ValueError):
        found = found or webencodings.lookup(codecs.lookup(label).name)
    return found


# What would take more than linear time to parse.
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)([^<>]*)")
_FORMATTING = "b big code em font i nobr s small strike strong tt u"
_FORMATTING_TAG = re.compile(rf"</?(?:{_FORMATTING.replace(' ', '|')})(?=[\s/>])[^<>]*>", re.IGNORECASE)
# Void elements, and elements closed by the next of their kind.
_CLOSED = frozenset(
    """area base br col embed hr img input link meta param source track wbr a p li dd dt tr td th thead tbody tfoot option
    optgroup colgroup rt rp html head body script style""".split()  # noqa: SIM905
)
# Only inside <svg> and <math> is <path/> self-closing; the elements below end them.
_FOREIGN = ("svg", "math")
_ENDS_FOREIGN = frozenset("div span p table ul ol li center pre blockquote font code h1 h2 h3 h4 h5 h6".split())  # noqa: SIM905
_FORMATS = frozenset(_FORMATTING.split())
MAX_OPEN = 1000
MAX_FORMATS = 50
MAX_ATTRIBUTES = 4096
_LONG_TAG = 4 * MAX_ATTRIBUTES
_SCRIPT = re.compile(r"<script(?=[\s/>]).*?(?:</script(?=[\s/>])[^>]*>?|\Z)", re.IGNORECASE | re.DOTALL)
_COMPARISON = re.compile(r"<[a-zA-Z][\w.$]*[;,()\[\]{}&|?+*]")


class _Tangled(Exception):
    """Parsing the page would take more than linear time."""


def _untangled(text: str) -> str:
    """The text in a form that parses in linear time; raises `_Tangled` if removing formatting tags is not enough.

    The parser walks over all open elements, and over all attributes of a tag; each paragraph reopens unclosed formatting (bold,
    font …), which is removed if there is much of it.
    """
    if len(_COMPARISON.findall(text)) > MAX_OPEN // 2:  # each would count as an open element
        text = _SCRIPT.sub("", text)
    opened: Counter[str] = Counter()
    total = formats = most_formats = 0
    for slash, name, rest in _TAG.findall(text):
        name = name.lower()
        if name in _CLOSED:
            continue
        if slash:
            if opened[name]:
                opened[name] -= 1
                total -= name not in _FORMATS
                formats -= name in _FORMATS
        elif name in _FORMATS:
            opened[name] += 1
            formats += 1
            most_formats = max(most_formats, formats)
        else:
            foreign = sum(opened[drawing] for drawing in _FOREIGN)
            if foreign and name in _ENDS_FOREIGN:
                opened["svg"] = opened["math"] = 0
                total -= foreign
            elif foreign and rest.endswith("/"):
                continue
            opened[name] += 1
            total += 1
            if total > MAX_OPEN:
                raise _Tangled(f"more than {MAX_OPEN} elements open at once")
    for part in text.split(">"):
        if len(part) > _LONG_TAG and (tag := _TAG.search(part)):
            attributes = re.sub("\"[^\"]*\"|'[^']*'", "", part[tag.start() :])
            if len(attributes.replace("/", " ").replace("=", " ").split()) > MAX_ATTRIBUTES:
                raise _Tangled(f"more than {MAX_ATTRIBUTES} attributes in one tag")
    return _FORMATTING_TAG.sub("", text) if most_formats > MAX_FORMATS else text
