"""HTML folders: a mirror of a site, a documentation build, an exported wiki; also single files.

A page's URL is `source.base_url` plus its path below the given folder; without a base URL, `file:///` plus that path, so that
relative links resolve. Read are files named .html, .htm and .xhtml, other files that begin like HTML, and all files that
`source.paths` names directly.

Links in the form of the server (`wget --mirror` without -k) resolve, too: `guide` is also an address of guide.html, `view?id=1`
of "view?id=1" and "view?id=1.html". A symbolic link is also an address of its target.
"""

import os
import re
import urllib.parse
from collections.abc import Iterator

from data_pipeline.sources.document import CHUNK_BYTES, Chunk, Dropped, LinkedDocument, Source, chunk_name
from data_pipeline.sources.web import urls
from data_pipeline.sources.web.html_page import read_page
from harp_jax.base import files
from harp_jax.base.errors import InputError

_SUFFIXES = (".html", ".htm", ".xhtml")
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
    base = _base(source)
    for number, given in enumerate(files.expand(tuple(source["paths"]))):
        size, part, batch = 0, 0, []
        for path, relative in _pages(given):
            batch.append((path, base + _quoted(relative), _aliases(base, relative)))
            size += min(_size(path), int(source["max_page_bytes"]))
            if size >= CHUNK_BYTES or len(batch) >= _PAGES_PER_CHUNK:
                yield Chunk(chunk_name(number, given.rstrip("/"), part), batch)
                size, part, batch = 0, part + 1, []
        for link, relative in _links(given):
            batch.append(("", base + _quoted(relative), [base + _quoted(link), *_aliases(base, link)]))
            if len(batch) >= _PAGES_PER_CHUNK:
                yield Chunk(chunk_name(number, given.rstrip("/"), part), batch)
                part, batch = part + 1, []
        if batch:
            yield Chunk(chunk_name(number, given.rstrip("/"), part), batch)


def _base(source: Source) -> str:
    base = source.get("base_url") or "file:///"
    # "https://" alone: the folders are named after hosts.
    if base not in ("http://", "https://") and ("//" not in base or urls.address(base) is None):
        raise InputError(f"config.source.base_url {base!r} is not a URL; write https://host/path/")
    if re.search(r"[?#\s]", base):
        raise InputError(
            f"config.source.base_url {base!r} has a query, a fragment or white space; write https://host/path/"
        )
    return base if base.endswith("/") else base + "/"


def _quoted(relative: str) -> str:
    """Escaped as in links: %, ? and # are escaped, the characters of Talk:A&B.html are not."""
    return urllib.parse.quote(os.fsencode(relative), urls.SAFE.replace("%", ""))


def _aliases(base: str, relative: str) -> list[str]:
    """Other URLs that a server may answer with this file."""
    stem, suffix = os.path.splitext(relative)
    names = [relative]
    if suffix.lower() in _SUFFIXES and os.path.basename(stem).lower() != "index":
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
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                data = file.read(limit + 1)
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; check its permissions") from error
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
    return [
        LinkedDocument(address, address, "", "", (), 0, redirect=own)
        for address in addresses
        if address and own and address != own
    ]


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the path and its permissions") from error


def _pages(given: str) -> Iterator[tuple[str, str]]:
    """(path, path relative to the folder) of the pages of a folder, or of a single file."""
    if not os.path.isdir(given):
        yield given, os.path.basename(given)
        return
    for path in files.walk(given):
        if is_page(path):
            yield path, os.path.relpath(path, given)


def _links(given: str) -> Iterator[tuple[str, str]]:
    """(link, target) of symbolic links to pages, and to folders of pages, as paths below the given folder."""
    if os.path.isdir(given):
        for link, target in files.links_within(given):
            for path in files.walk(target) if os.path.isdir(target) else [target]:
                if is_page(path):
                    name = os.path.normpath(os.path.join(link, os.path.relpath(path, target)))
                    yield os.path.relpath(name, given), os.path.relpath(path, given)


def is_page(path: str) -> bool:
    """Whether a file of a folder is read, by its name or by how it begins. Raises InputError if it cannot be read."""
    if path.lower().endswith(_SUFFIXES):
        return True
    if path.lower().endswith(_COPIES):
        return False
    try:
        with open(path, "rb") as file:
            return _BEGIN.match(file.read(_BEGIN_BYTES)) is not None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check its permissions") from error
