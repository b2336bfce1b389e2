"""Reads anchor texts of documents, such as those that `harp anchors` writes from the link graph.

Formats, detected by the first line: "docid<TAB>anchor text<TAB>count"; "anchor text<TAB>url", one link per line; and JSONL with
{"id": docid, "anchors": [text, …]} (Webis' anchors of MS MARCO). BM25F indexes anchor texts as a field; other models append them
to the document (document expansion). Memory: about 100 bytes per line.
"""

import re
from collections import Counter
from collections.abc import Iterator

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines
from harp_jax.corpus.records import checked_id, checked_text, parse_object

COUNT = re.compile("0*[1-9][0-9]{0,17}")
MOST_REPEATS = 1000  # bounds memory: each repetition is written out


def read_anchors(path: str, repeats: int = 1) -> dict[str, str]:
    """docid → its anchor texts, joined by newlines, each repeated once per link, but at most `repeats` times.

    Raises InputError as `anchor_rows` does.
    """
    if not 1 <= repeats <= MOST_REPEATS:
        raise InputError(f"--anchor_repeats={repeats}: use 1 to {MOST_REPEATS}")
    found: dict[str, Counter[str]] = {}
    for docid, text, count in anchor_rows(path):
        found.setdefault(docid, Counter())[text] += count
    return {
        docid: "\n".join(text for text, count in counts.items() for _ in range(min(count, repeats)))
        for docid, counts in found.items()
    }


def anchor_rows(path: str) -> Iterator[tuple[str, str, int]]:
    """(docid or URL, anchor text, count) per line or link. Raises InputError for malformed lines and for an empty file."""
    read = None
    for number, line in lines(path):
        if not line.strip():
            continue
        if read is None:
            columns = line.count("\t") + 1
            read = _of_json if line.lstrip().startswith("{") else _of_link if columns == 2 else _of_counts
        yield from read(f"{path}, line {number}", line)
    if read is None:
        raise InputError(f"{path} is empty; it should have 'docid<TAB>anchor text<TAB>count' a line")


def _of_counts(where: str, line: str) -> Iterator[tuple[str, str, int]]:
    parts = line.split("\t")
    if len(parts) != 3:
        raise InputError(f"{where}: {len(parts)} columns; write 'docid<TAB>anchor text<TAB>count'")
    docid, text, count = checked_id(where, parts[0].strip(), "document"), parts[1].strip(), parts[2].strip()
    if not text:
        raise InputError(f"{where}: document {docid} has an empty anchor text; remove the line")
    if not COUNT.fullmatch(count):
        raise InputError(f"{where}: count {parts[2][:30]!r} is not a whole number of 1 to 10^18; correct the line")
    yield docid, text, int(count)


def _of_link(where: str, line: str) -> Iterator[tuple[str, str, int]]:
    """Yields a link, unless it has no text (an image)."""
    parts = line.split("\t")
    if len(parts) != 2:
        raise InputError(f"{where}: {len(parts)} columns; write 'anchor text<TAB>url', as on the first line")
    text, url = parts[0].strip(), checked_id(where, parts[1].strip(), "document")
    if text:
        yield url, text, 1


def _of_json(where: str, line: str) -> Iterator[tuple[str, str, int]]:
    record = parse_object(where, line)
    docid, texts = checked_id(where, record.get("id"), "document"), record.get("anchors")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError(f'{where}: document {docid} has no list of texts "anchors"; correct the line')
    for text, count in Counter(" ".join(checked_text(where, text, "anchors").split()) for text in texts).items():
        if text:
            yield docid, text, count
