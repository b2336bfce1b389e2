"""Linked JSONL: one document a line, `{"id", "title", "text", "links": [{"start", "end", "target"}], "lead_end"?}`.

`text[start:end]` is the anchor text in code points and `target` the destination's id. Lines without "links" are pure
destinations. Files may be plain, .gz, .bz2 or .xz. The format is for data that a program wrote, so what contradicts
it (a missing key, offsets outside the text) is an InputError, not a loss.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from data_pipeline.sources import CHUNK_BYTES, Chunk, Link, LinkedDocument, Loss, chunk_name
from harp_jax import files
from harp_jax.errors import InputError

_SURROGATE = re.compile("[\ud800-\udfff]")


def chunks(source: Mapping[str, Any]) -> Iterator[Chunk]:
    """Payload: a list of (path, line number from 1, line). Raises InputError for a missing or damaged file."""
    for file_number, path in enumerate(files.expand(tuple(source["paths"]))):
        number, size, batch = 0, 0, []
        for line_number, line in files.lines(path):
            batch.append((path, line_number, line))
            size += len(line)
            if size >= CHUNK_BYTES:
                yield Chunk(chunk_name(file_number, path, number), batch)
                number, size, batch = number + 1, 0, []
        if batch:
            yield Chunk(chunk_name(file_number, path, number), batch)


def parse(chunk: Chunk, source: Mapping[str, Any]) -> tuple[list[LinkedDocument], list[Loss]]:
    """Documents of the chunk's lines; raises InputError (file, line, id) for a line that breaks the format."""
    documents: list[LinkedDocument] = []
    losses: list[Loss] = []
    for path, number, line in chunk.payload:
        if not line.strip():
            continue
        if len(line) > source["max_page_bytes"]:
            losses.append(Loss(f"{path} line {number}", "page-too-large", f"{len(line)} characters"))
            continue
        documents.append(_document(line, f"{path} line {number}", losses))
    return documents, losses


def _document(line: str, where: str, losses: list[Loss]) -> LinkedDocument:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error}); {where}; write one JSON object a line") from None
    if not isinstance(record, dict):
        raise InputError(f"not a JSON object; {where}; write one JSON object a line")
    where += f", id {str(record.get('id'))[:80]!r}"
    id_, title, text = (_string(record, key, where) for key in ("id", "title", "text"))
    lead_end = record.get("lead_end", len(text))
    if not _is_offset(lead_end, len(text)):
        raise InputError(f"lead_end {lead_end!r} lies outside the text of {len(text)} code points; {where}; mend it")
    return LinkedDocument(id_, id_, title, text, _links(record, text, where, losses), lead_end)


def _string(record: dict[str, Any], key: str, where: str) -> str:
    value = record.get(key)
    if not isinstance(value, str) or (key == "id" and not value):
        raise InputError(f"the key {key!r} is missing or not a string; {where}; mend the line")
    # JSON can spell lone surrogates, which no UTF-8 file can hold; one replacement each keeps the offsets right.
    return _SURROGATE.sub("\ufffd", value)


def _is_offset(value: Any, size: int) -> bool:
    return type(value) is int and 0 <= value <= size


def _links(record: dict[str, Any], text: str, where: str, losses: list[Loss]) -> tuple[Link, ...]:
    given = record.get("links", [])
    if not isinstance(given, list) or not all(isinstance(link, dict) for link in given):
        raise InputError(f"'links' is not a list of objects; {where}; mend the line")
    links: list[Link] = []
    for link in given:
        start, end = link.get("start"), link.get("end")
        if not (_is_offset(start, len(text)) and _is_offset(end, len(text)) and start <= end):
            raise InputError(
                f"link offsets {start!r}..{end!r} lie outside the text of {len(text)} code points; {where}; "
                "offsets count code points from 0"
            )
        links.append(Link(start, end, _string(link, "target", where)))
    links.sort()
    kept: list[Link] = []
    for item in links:
        if not text[item.start : item.end].strip() or not item.target:
            losses.append(Loss(where, "link-empty", item.target))
        elif kept and item.start < kept[-1].end:
            losses.append(Loss(where, "link-overlap", text[item.start : item.end]))
        else:
            kept.append(item)
    return tuple(kept)
