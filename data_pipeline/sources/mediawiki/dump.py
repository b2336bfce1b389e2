"""MediaWiki XML dumps (.xml, .xml.bz2, .gz, .xz): the main namespace's articles and redirects.

The parent streams the bytes and splits them between pages; workers parse whole pages. A dump must end with
</mediawiki>: Python's bz2 can stop silently at a damaged stream boundary. Of several revisions the last one counts.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator

from data_pipeline.sources.document import Chunk, Dropped, LinkedDocument, Source, chunk_name
from data_pipeline.sources.mediawiki import multistream
from data_pipeline.sources.mediawiki.article import read_article, site_of
from data_pipeline.sources.mediawiki.pages_xml import (
    DAMAGE,
    END,
    PageBytes,
    elements,
    read_blocks,
    read_siteinfo,
    split_pages,
)
from harp_jax.base import files
from harp_jax.base.errors import InputError


def chunks(source: Source) -> Iterator[Chunk]:
    """Payload: `PageBytes`. Raises InputError (file, last good page) for a file that is missing, damaged or not a dump."""
    if source.get("index"):
        yield from multistream.chunks(source)
        return
    for file_number, path in enumerate(files.expand(tuple(source["paths"]))):
        for number, payload in enumerate(_payloads(path, int(source["max_page_bytes"]))):
            yield Chunk(chunk_name(file_number, path, number), payload)


def addresser(source: Source) -> Callable[[str], str]:
    """Normalises titles by the rules of the first file; leaves titles that no link can have unchanged."""
    path = files.expand(tuple(source["paths"]))[0]
    site = site_of(read_siteinfo(path, read_blocks(path))[0])
    return lambda title: site.resolve(title).address or title.strip()


def parse(chunk: Chunk, source: Source) -> tuple[list[LinkedDocument], list[Dropped]]:
    """Documents of the chunk's pages. Raises InputError for broken XML (not for forbidden characters)."""
    documents: list[LinkedDocument] = []
    dropped: list[Dropped] = []
    if isinstance(chunk.payload, PageBytes):
        payloads: Iterable[PageBytes] = [chunk.payload]
    else:
        payloads = multistream.payloads(chunk.payload, int(source["max_page_bytes"]), dropped)
    for payload in payloads:
        site = site_of(payload.siteinfo)
        for title, size in payload.too_large:
            dropped.append(Dropped(f"{payload.path}: {title}", "page-too-large", f"{size} bytes"))
        for page in elements(payload, dropped):
            document = read_article(page, payload.path, site, int(source["max_page_bytes"]), dropped)
            if document:
                documents.append(document)
    return documents, dropped


def _payloads(path: str, max_page_bytes: int) -> Iterator[PageBytes]:
    blocks = read_blocks(path)
    try:
        siteinfo, rest = read_siteinfo(path, blocks)
    except DAMAGE as error:
        raise InputError(f"{path} is damaged: {error}; download it again") from error
    tail, last = yield from split_pages(path, siteinfo, itertools.chain([rest], blocks), max_page_bytes)
    if not END.fullmatch(tail):
        raise InputError(
            f"{path} is truncated or damaged: no </mediawiki> at its end; last good page {last!r}; download it again"
        )
