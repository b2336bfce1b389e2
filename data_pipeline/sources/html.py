"""HTML folders: a mirror of a site, a documentation build, an exported wiki; single files too.

A page's URL is `source.base_url` and its path below the given folder; without a base URL, `file:///` and that path, so that
relative links meet. Files named .html, .htm and .xhtml are read, and whatever `source.paths` names itself.
"""

import os
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from data_pipeline.sources import CHUNK_BYTES, Chunk, LinkedDocument, Loss, chunk_name, urls
from data_pipeline.sources.html_page import read_page
from harp_jax import files
from harp_jax.errors import InputError

_SUFFIXES = (".html", ".htm", ".xhtml")
_PAGES_PER_CHUNK = 4096


def chunks(source: Mapping[str, Any]) -> Iterator[Chunk]:
    """Payload: a list of (path, URL). Raises InputError for a path that does not exist and a base URL that is none."""
    base = source.get("base_url") or "file:///"
    if "//" not in base or urls.address(base) is None:
        raise InputError(f"config.source.base_url {base!r} is no URL; write https://host/path/")
    base = base if base.endswith("/") else base + "/"
    for number, given in enumerate(files.expand(tuple(source["paths"]))):
        size, part, batch = 0, 0, []
        for path, relative in _pages(given):
            batch.append((path, base + urllib.parse.quote(os.fsencode(relative))))
            size += min(_size(path), int(source["max_page_bytes"]))
            if size >= CHUNK_BYTES or len(batch) >= _PAGES_PER_CHUNK:
                yield Chunk(chunk_name(number, given.rstrip("/"), part), batch)
                size, part, batch = 0, part + 1, []
        if batch:
            yield Chunk(chunk_name(number, given.rstrip("/"), part), batch)


def parse(chunk: Chunk, source: Mapping[str, Any]) -> tuple[list[LinkedDocument], list[Loss]]:
    """The chunk's pages; raises InputError for a file that cannot be read."""
    documents: list[LinkedDocument] = []
    losses: list[Loss] = []
    limit = int(source["max_page_bytes"])
    for path, url in chunk.payload:
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                data = file.read(limit + 1)
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; check its permissions") from error
        if size > limit:
            losses.append(Loss(path, "page-too-large", f"{size} bytes"))
            continue
        documents += read_page(data, url, path, source, losses)
    return documents, losses


def addresser(source: Mapping[str, Any]) -> Callable[[str], str]:
    """Normalises URLs as links are; what is none stays as it is."""
    return lambda url: urls.resolve(source.get("base_url") or "file:///", url)[0] or url.strip()


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the path and its permissions") from error


def _pages(given: str) -> Iterator[tuple[str, str]]:
    if not os.path.isdir(given):
        yield given, os.path.basename(given)
        return
    for path in files.walk(given):
        if path.lower().endswith(_SUFFIXES):
            yield path, os.path.relpath(path, given)
