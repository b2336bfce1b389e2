import gzip
import zlib

import brotli
import pytest

from data_pipeline.sources import warc
from harp_jax.base.errors import InputError
from tests.support import source_reading
from tests.support.source_files import record


def chunked(body):
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:])) + b"0\r\n\r\n"


def read(path, **fields):
    return source_reading.read(source_reading.source("warc", path, **fields))


LONG = b"<p>" + b"much text " * 30_000
RECORDS = [
    record("http://x.org/", type_="warcinfo", body="software: none"),
    record("http://x.org/", type_="request", body="<p>asked"),
    record("http://x.org/", '<p>Home of the <a href="/a/">first</a> page.'),
    record("http://x.org/a", status="301 Moved Permanently", headers="Location: /b#part\r\n"),
    record("http://x.org/b", chunked(b"<p>The page \xe4 b"), kind="text/html; charset=latin-1",
           headers="Transfer-Encoding: chunked\r\n"),
    record("http://x.org/z", gzip.compress(LONG, mtime=0), headers="Content-Encoding: gzip\r\n"),
    record("http://x.org/c.png", b"\x89PNG", kind="image/png"),
    record("http://x.org/d", "gone", status="404 Not Found"),
    record("http://x.org/e", "", type_="revisit"),
    record("http://x.org/f", "<p>a resource", type_="resource", kind="text/html"),
    record("http://x.org/g", b"no gzip", headers="Content-Encoding: gzip\r\n"),
    record("dns:x.org", "<p>x"),
    record("http://x.org/h", status="302 Found"),
    record("http://x.org/" + "i" * 40_000),
    record("http://x.org/i", "<p>" + "x" * 400_000),
]  # fmt: skip


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
@pytest.mark.parametrize("chunk_bytes", [1, 700, 4 << 20])
def test_pages_and_redirects_of_a_crawl(tmp_path, monkeypatch, name, chunk_bytes):
    monkeypatch.setattr(warc, "CHUNK_BYTES", chunk_bytes)
    (tmp_path / name).write_bytes(b"".join(map(gzip.compress, RECORDS) if name.endswith("gz") else RECORDS))
    documents, dropped = read(tmp_path / name, max_page_bytes=350_000)
    assert [(d.address, d.redirect, d.text[:20]) for d in documents] == [
        ("https://x.org", None, "Home of the first pa"),
        ("https://x.org/a", "https://x.org/b", ""),
        ("https://x.org/b", None, "The page ä b"),
        ("https://x.org/z", None, "much text much text "),
        ("https://x.org/f", None, "a resource"),
        ("https://x.org/g", None, "no gzip"),
    ]
    assert documents[0].links[0].target == "https://x.org/a" and len(documents[3].text) == 299_999
    assert [each.reason for each in dropped] == [
        "page-type", "page-status", "page-revisit", "page-url", "redirect-invalid", "page-http", "page-too-large",
    ]  # fmt: skip
    assert all(f"{name} byte " in each.where for each in dropped)


HTML = b"<p>Plain \xe4 text, a page of a site."


def deflated(window):
    stream = zlib.compressobj(wbits=window)
    return stream.compress(HTML) + stream.flush()


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Transfer-Encoding: chunked", b"add\n" + HTML),  # the crawler has decoded it
        ("Transfer-Encoding: Chunked", b"5;foo=bar\r\n%b\r\n%X \r\n%b\r\n0\r\n\r\n" % (HTML[:5], len(HTML) - 5, HTML[5:])),
        ("Transfer-Encoding: chunked\r\nContent-Encoding: gzip", chunked(gzip.compress(HTML, mtime=0))),
        ("content-encoding: X-GZIP", gzip.compress(HTML, mtime=0)), ("Content-Encoding: br", brotli.compress(HTML)),
        ("Content-Encoding: deflate", deflated(15)), ("Content-Encoding: deflate", deflated(-15)),
        ("Content-Encoding: deflate, gzip", gzip.compress(deflated(15), mtime=0)),
        *((f"Content-Encoding: {name}", HTML) for name in ("gzip", "deflate", "br", "identity")),
    ],
)  # fmt: skip
def test_bodies_are_read_as_they_are_whatever_the_headers_say(tmp_path, headers, body):
    page = record("http://x.org/", body, kind="Text/HTML; charset=latin-1", headers=f"{headers}\r\n")
    (tmp_path / "a.warc").write_bytes(page + b"\r\n" + record("http://x.org/next", "<p>Next.") + b"\r\n\r\n")
    documents, dropped = read(tmp_path / "a.warc")
    texts = [document.text.removeprefix("add ") for document in documents]
    assert texts == ["Plain ä text, a page of a site.", "Next."] and not dropped


def test_gzip_bodies_that_are_damaged_or_inflate_beyond_the_limit_are_counted(tmp_path):
    packed = gzip.compress(LONG, mtime=0)
    pages = packed[:-20], packed[:9] + b"\xff" * 40, gzip.compress(b"x" * (50 << 20))
    records = [record("http://x.org/", page, headers="Content-Encoding: gzip\r\n") for page in pages]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    documents, dropped = read(tmp_path / "a.warc")
    assert not documents and [each.reason for each in dropped] == ["page-http", "page-http", "page-too-large"]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_damage_is_an_input_error_with_its_place(tmp_path, name):
    parts = [gzip.compress(part, mtime=0) for part in RECORDS] if name.endswith("gz") else RECORDS
    first, rest = b"".join(parts[:3]), b"".join(parts[3:])
    for harmed in (rest[:-30], b"\xff\xff\xff" + rest[3:], b"junk" + rest, rest[1:]):
        (tmp_path / name).write_bytes(first + harmed)
        with pytest.raises(InputError, match=rf"{name} is damaged after byte \d+"):
            read(tmp_path / name)
    (tmp_path / "one.warc.gz").write_bytes(gzip.compress(b"".join(RECORDS)))
    with pytest.raises(InputError, match="record by record"):
        read(tmp_path / "one.warc.gz")
