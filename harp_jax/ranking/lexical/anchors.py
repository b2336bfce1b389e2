"""Anchor texts of documents: what other pages call them. `harp anchors` writes them from the link graph.

A file has lines "docid<TAB>anchor text<TAB>count". BM25F reads them as a field; other models as more words of the document
(document expansion). All of them are held in memory: about 100 bytes a line.
"""

import re
from collections.abc import Iterator

from harp_jax.corpus.jsonl import checked_id
from harp_jax.errors import InputError
from harp_jax.files import lines

COUNT = re.compile("0*[1-9][0-9]{0,17}")


def read_anchors(path: str, repeats: int = 1) -> dict[str, str]:
    """docid → its anchor texts, joined by line ends; each counts as often as links have it, but at most `repeats` times.

    Raises InputError as `anchor_rows` does.
    """
    if repeats < 1:
        raise InputError(f"--anchor_repeats={repeats}: use 1 or more")
    found: dict[str, list[str]] = {}
    for docid, text, count in anchor_rows(path):
        found.setdefault(docid, []).extend([text] * min(count, repeats))
    return {docid: "\n".join(texts) for docid, texts in found.items()}


def anchor_rows(path: str) -> Iterator[tuple[str, str, int]]:
    """(docid, anchor text, count) of every line. Raises InputError, with the line, for anything else, and for an empty file."""
    empty = True
    for number, line in lines(path):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        parts = line.split("\t")
        if len(parts) != 3:
            raise InputError(f"{where}: {len(parts)} columns; write 'docid<TAB>anchor text<TAB>count'")
        docid, text, count = checked_id(where, parts[0].strip(), "document"), parts[1].strip(), parts[2].strip()
        if not text:
            raise InputError(f"{where}: document {docid} has an empty anchor text; remove the line")
        if not COUNT.fullmatch(count):
            raise InputError(f"{where}: count {parts[2][:30]!r} is not a whole number of 1 to 10^18; correct the line")
        empty = False
        yield docid, text, int(count)
    if empty:
        raise InputError(f"{path} is empty; it should have 'docid<TAB>anchor text<TAB>count' a line")
