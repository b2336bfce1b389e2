import gzip
import zlib

import brotli
import pytest

from data_pipeline.sources import formats
from harp_jax.base.errors import InputError
from tests.support import source_reading
from tests.support.source_files import record


def read(path, **fields):
    return source_reading.read(source_reading.source("warc", path, **fields))


HTML = b"<p>Plain \xe4 text, a page of a site."
GZIP, PACKED = "Content-Encoding: gzip\r\n", gzip.compress(HTML, mtime=0)
RECORDS = [
    record("http://x.org/", type_="request", body="<p>asked"),
    record("http://x.org/", '<p>Home of the <a href="/a/">first</a> page.'),
    record("http://x.org/a", status="301 Moved Permanently", headers="Location: /b#part\r\n"),
    record("http://x.org/b", HTML, kind="text/html; charset=latin-1"),
    record("http://x.org/c.png", b"\x89PNG", kind="image/png"),
    record("http://x.org/d", "gone", status="404 Not Found"),
    record("http://x.org/e", "", type_="revisit"),
    record("http://x.org/f", "<p>a resource", type_="resource", kind="text/html"),
    record("dns:x.org", "<p>x"),
    record("http://x.org/h", status="302 Found"),
    record("http://x.org/" + "i" * 40_000),
    record("http://x.org/i", "<p>" + "x" * 400_000),
    record("http://x.org/j", PACKED[:-9], headers=GZIP),
    record("http://x.org/k", gzip.compress(b"x" * (50 << 20)), headers=GZIP),
]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
@pytest.mark.parametrize("chunk_bytes", [1, 700])
def test_pages_and_redirects_of_a_crawl(tmp_path, monkeypatch, name, chunk_bytes):
    monkeypatch.setattr(formats, "CHUNK_BYTES", chunk_bytes)
    (tmp_path / name).write_bytes(b"".join(map(gzip.compress, RECORDS) if name.endswith("gz") else RECORDS))
    documents, dropped = read(tmp_path / name, max_page_bytes=350_000)
    assert [(d.address, d.redirect, d.text[:20]) for d in documents] == [
        ("https://x.org", None, "Home of the first pa"),
        ("https://x.org/a", "https://x.org/b", ""),
        ("https://x.org/b", None, "Plain ä text, a page"),
        ("https://x.org/f", None, "a resource"),
    ]
    assert documents[0].links[0].target == "https://x.org/a"
    reasons = "type status revisit url redirect-invalid http too-large http too-large"
    assert " ".join(each.reason.removeprefix("page-") for each in dropped) == reasons
    assert f"{name} byte " in dropped[0].where


def deflated(window):
    stream = zlib.compressobj(wbits=window)
    return stream.compress(HTML) + stream.flush()


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Transfer-Encoding: chunked", b"add\n" + HTML),  # the crawler has decoded it
        ("Transfer-Encoding: Chunked", b"5;foo=bar\r\n%b\r\n%X \r\n%b\r\n0\r\n\r\n" % (HTML[:5], len(HTML) - 5, HTML[5:])),
        ("Transfer-Encoding: chunked\r\nContent-Encoding: X-GZIP", b"%x\r\n%b\r\n0\r\n\r\n" % (len(PACKED), PACKED)),
        ("Content-Encoding: deflate, br", brotli.compress(deflated(15))), ("Content-Encoding: deflate", deflated(-15)),
        *((f"Content-Encoding: {name}", HTML) for name in ("gzip", "deflate", "br", "identity")),
    ],
)  # fmt: skip
def test_bodies_are_read_as_they_are_whatever_the_headers_say(tmp_path, headers, body):
    page = record("http://x.org/", body, kind="Text/HTML; charset=latin-1", headers=f"{headers}\r\n")
    (tmp_path / "a.warc").write_bytes(page + b"\r\n" + record("http://x.org/next", "<p>Next.") + b"\r\n\r\n")
    documents, dropped = read(tmp_path / "a.warc")
    texts = [document.text.removeprefix("add ") for document in documents]
    assert texts == ["Plain ä text, a page of a site.", "Next."] and not dropped


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
