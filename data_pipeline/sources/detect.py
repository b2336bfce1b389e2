"""The format of a file or folder, told by its content."""

import bz2
import gzip
import itertools
import json
import lzma
import os
import re
import zlib
from typing import IO

from harp_jax.base import files
from harp_jax.base.errors import InputError

# Files of a folder that are looked at: a mirror may begin with images.
_LOOKED_AT = 1000
_HEAD = 1 << 16
_HTML = (".html", ".htm", ".xhtml")
_OPENERS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_BEGINS_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--|<!doctype\s+html|<html[\s>])", re.IGNORECASE
)
# What a folder with several kinds of files is: pages before data beside them.
_ORDER = ("html", "warc", "mediawiki", "wikiextractor", "harp_json", "linked_jsonl")


def format_of_content(path: str) -> str:
    """One of "html", "warc", "mediawiki", "wikiextractor", "harp_json", "linked_jsonl"; InputError for anything else."""
    if os.path.isdir(path):
        names = list(itertools.islice(files.walk(path), _LOOKED_AT))
        found = {"html" if name.lower().endswith(_HTML) else _kind(name) for name in names}
        known = [kind for kind in _ORDER if kind in found]
    else:
        files.check_readable(path)
        known = [kind for kind in [_kind(path)] if kind]
    if not known:
        raise InputError(
            f"{path}: neither HTML, WARC, a MediaWiki dump nor JSON lines; name the pages, or choose a format with --format"
        )
    return known[0]


def _kind(path: str) -> str:
    head = _head(path)
    if head.startswith(b"WARC/"):
        return "warc"
    if b"<mediawiki" in head[:4096]:
        return "mediawiki"
    if _BEGINS_HTML.match(head):
        return "html"
    line = head.lstrip(b"\xef\xbb\xbf \r\n\t")
    return _json_kind(line) if line.startswith(b"{") else ""


def _json_kind(head: bytes) -> str:
    """Of JSON lines; the first may be longer than the head, then its keys are searched for."""
    text = head.partition(b"\n")[0].decode("utf-8", "replace")
    try:
        record = json.loads(text)
        keys, body = set(record), str(record.get("text", ""))
    except (ValueError, RecursionError):
        keys, body = set(re.findall(r'"(\w+)"\s*:', text)), text
    if "tokenized_sentence" in keys:
        return "harp_json"
    if not {"id", "text"} <= keys:
        return ""
    escaped = "<a href=" in body or "&lt;a href=" in body
    return "wikiextractor" if escaped and "links" not in keys else "linked_jsonl"


def _head(path: str) -> bytes:
    """The first bytes, decompressed; nothing of a file that is damaged: its reader says where."""
    try:
        with open(path, "rb") as file:
            begin = file.read(6)
        opener = next((opener for magic, opener in _OPENERS.items() if begin.startswith(magic)), open)
        opened: IO[bytes]
        with opener(path, "rb") as opened:  # type: ignore[operator, assignment]
            return opened.read(_HEAD)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return b""
