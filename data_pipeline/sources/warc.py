"""WARC files of web crawls (.warc, .warc.gz): pages that a server delivered as HTML, and its redirects.

The parent scans the records and checks that each is complete; workers read theirs with fastwarc. Crawlers store bodies with or
without the encodings that the headers declare, so these are decoded if the bytes have them. In .warc.gz every record must be a
separate gzip member, as the standard requires. Records other than responses (requests, metadata) are skipped; responses that are
not pages (images, errors, revisits) are counted as dropped.
"""

import contextlib
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING

from data_pipeline.sources import urls
from data_pipeline.sources.document import Chunk, Dropped, LinkedDocument, Source, redirect
from data_pipeline.sources.html_pages import read_page
from harp_jax.base.errors import InputError, needs

if TYPE_CHECKING:
    from fastwarc.warc import WarcRecord

_BLOCK = 1 << 20
_HEAD_BYTES = 1 << 16
_HEAD = re.compile(
    rb"WARC/1\.\d\r?\n(?:[^\r\n]+\r?\n)*?Content-Length:[ \t]*(\d+)[ \t]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n", re.I
)
_PAGE_TYPE = re.compile(rb"^WARC-Type:[ \t]*(?:response|resource|revisit)[ \t]*\r?$", re.I | re.M)
_HTML = ("text/html", "application/xhtml+xml")
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")  # its length, and extensions
# A record: its bytes [start, end) in the file, its uncompressed size, whether it may contain a page.
Place = tuple[int, int, int, bool]


def entries(path: str, source: Source) -> Iterator[tuple[tuple[str, int, int, int], int]]:
    """(path, start, end, size) of the records that may contain a page. Raises InputError (file, byte) for damage of any kind."""
    with open(path, "rb") as file:
        walk = _compressed if file.read(2) == b"\x1f\x8b" else _plain
        file.seek(0)
        end = 0
        try:
            for start, end, size, is_page in walk(file):
                if is_page:
                    yield (path, start, end, size), min(size, source["max_page_bytes"])
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise InputError(f"{path} is damaged after byte {end}: {error}; download it again") from error


def parse(chunk: Chunk, source: Source, dropped: list[Dropped]) -> Iterator[LinkedDocument]:
    """The pages of the records. Raises InputError if the extra [web] is not installed."""
    with needs("reading WARC files", "fastwarc", "web"):
        from fastwarc.warc import ArchiveIterator
    for path, start, end, size in chunk.payload:
        where = f"{path} byte {start}"
        if size > source["max_page_bytes"] + _HEAD_BYTES:
            dropped.append(Dropped(where, "page-too-large", f"{size} bytes"))
            continue
        with open(path, "rb") as file:
            file.seek(start)
            data = io.BytesIO(file.read(end - start))
        # One iterator per record: a broken encoding must not affect the records after it.
        try:
            record = next(ArchiveIterator(data, parse_http=False), None)
        except OSError as error:  # a head that is longer than FastWARC reads
            dropped.append(Dropped(where, "page-http", str(error)))
            continue
        if record is not None:
            url = (record.headers.get("WARC-Target-URI") or "").strip("<>")
            yield from _pages(record, url, f"{where}: {url}"[:300], source, dropped)


def _pages(record: "WarcRecord", url: str, where: str, source: Source, dropped: list[Dropped]) -> list[LinkedDocument]:
    """The page or the redirect of a record; else the reason is appended to `dropped`."""
    reason, example = "", ""
    headers: dict[str, str] = {}
    status: int | None = 200
    kind, charset = (record.headers.get("Content-Type") or "").partition(";")[0].strip(), None
    revisit = (record.headers.get("WARC-Type") or "").lower() == "revisit"
    try:
        if record.is_http and not revisit:
            record.parse_http(auto_decode="none")
            headers = {name.lower(): value for name, value in record.http_headers.items()}
            kind, charset = record.http_content_type or "", record.http_charset
            status = record.http_headers.status_code
        if revisit:
            reason, example = "page-revisit", url
        elif status in _REDIRECTS:
            own, location = urls.address(url), headers.get("location", "")
            target, why = urls.resolve(url, location)
            if own and target:
                return [redirect(own, target)] if target != own else []
            reason, example = why.replace("link-", "redirect-") or "page-url", location
        elif status != 200:
            reason, example = "page-status", str(status)
        elif kind.lower() not in _HTML:
            reason, example = "page-type", kind.lower()
        else:
            data = _decoded(record.reader.read(), headers, source["max_page_bytes"] + 1)
    except (OSError, ValueError, AttributeError, zlib.error) as error:  # AttributeError: no HTTP headers
        reason, example = "page-http", str(error)
    if reason:
        dropped.append(Dropped(where, reason, example))
        return []
    return read_page(data, url, where, source, dropped, charset)


def _decoded(body: bytes, headers: Mapping[str, str], limit: int) -> bytes:
    """At most `limit` bytes of a body without the transfer and content encodings that its headers declare. An encoding that the
    bytes do not have is skipped. Raises ValueError or zlib.error for compressed data that are damaged."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _dechunked(body)
    for name in reversed(headers.get("content-encoding", "").lower().replace(" ", "").split(",")):
        if name == "br":
            import brotli  # of fastwarc

            with contextlib.suppress(brotli.error):
                body = brotli.Decompressor().process(body, output_buffer_limit=limit)
        elif name == "deflate" or (name in ("gzip", "x-gzip") and body[:2] == b"\x1f\x8b"):
            # Some servers leave out zlib's header.
            header = len(body) > 1 and body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0
            stream = zlib.decompressobj(31 if name != "deflate" else 15 if header else -15)
            try:
                text = stream.decompress(body, limit)
            except zlib.error:
                if name == "deflate":
                    continue
                raise
            if not stream.eof and len(text) < limit:
                raise ValueError("the compressed page is truncated")
            body = text
    return body[:limit]


def _dechunked(body: bytes) -> bytes:
    """The content of a chunked body, also of one that ends early; the body itself if it is not chunked."""
    parts: list[bytes] = []
    start = 0
    while match := _CHUNK.match(body, start):
        end = match.end() + int(match[1], 16)
        if end == match.end():
            return b"".join(parts)
        if end < len(body) and body[end] not in b"\r\n":
            break  # a word such as "add" at the beginning of a line
        parts.append(body[match.end() : end])
        start = body.find(b"\n", end) + 1 or len(body)
    return b"".join(parts) or body


def _plain(file: IO[bytes]) -> Iterator[Place]:
    start = 0
    size = file.seek(0, 2)
    while start < size:
        file.seek(start)
        head, length = _head(file.read(_HEAD_BYTES))
        end = start + len(head) + length
        file.seek(end)
        if (rest := file.read(4)) not in (b"\r\n\r\n", b"\n\n") and not rest.startswith(b"\n\nWA"):
            raise ValueError("the record does not end where its Content-Length says")
        end += 4 if rest == b"\r\n\r\n" else 2
        file.seek(end)
        while file.read(2) == b"\r\n":  # some crawlers write more blank lines than two
            end += 2
        yield start, end, len(head) + length, bool(_PAGE_TYPE.search(head))
        start = end


def _compressed(file: IO[bytes]) -> Iterator[Place]:
    start, pending = 0, b""
    while pending or (pending := file.read(_BLOCK)):
        member = zlib.decompressobj(31)
        consumed, size, begin = 0, 0, b""
        while not member.eof:
            if not (pending or (pending := file.read(_BLOCK))):
                raise EOFError("the last record is truncated")
            consumed += len(pending)
            # Bounded output: a few bytes can decompress to very many.
            data = member.decompress(pending, 8 * _BLOCK)
            pending = member.unused_data if member.eof else member.unconsumed_tail
            consumed -= len(pending)
            size += len(data)
            begin += data[: _HEAD_BYTES - len(begin)]
        head, length = _head(begin)
        if not 0 <= size - len(head) - length <= 4:
            raise ValueError("a gzip member does not contain exactly one record; recompress the file record by record")
        yield start, start + consumed, size, bool(_PAGE_TYPE.search(head))
        start += consumed


def _head(data: bytes) -> tuple[bytes, int]:
    """The header block and the length of the content that follows it."""
    if not (match := _HEAD.match(data)):
        raise ValueError("no WARC record begins there")
    return match[0], int(match[1])
