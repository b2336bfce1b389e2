"""Linked JSONL: one document per line, `{"id", "title", "text", "links": [{"start", "end", "target"}], "lead_end"?}`.

`text[start:end]` is the anchor text in code points and `target` the destination's id. Lines without "links" are only
destinations. Files may be plain, .gz, .bz2 or .xz. The format is written by programs, so a violation (a missing key, offsets
outside the text) is an InputError and not counted as dropped.
"""

from typing import Any

from data_pipeline.sources import json_lines
from data_pipeline.sources.document import Chunk, Dropped, Link, LinkedDocument, Source
from harp_jax.base.errors import InputError


def parse(chunk: Chunk, source: Source) -> tuple[list[LinkedDocument], list[Dropped]]:
    """Documents of the chunk's lines; raises InputError (file, line, id) for a line that breaks the format."""
    dropped: list[Dropped] = []
    return [_document(record, where, dropped) for where, record in json_lines.records(chunk, dropped)], dropped


def _document(record: dict[str, Any], where: str, dropped: list[Dropped]) -> LinkedDocument:
    where += f", id {str(record.get('id'))[:80]!r}"
    id_ = json_lines.string(record, "id", where, empty=False)
    title, text = (json_lines.string(record, key, where) for key in ("title", "text"))
    lead_end = record.get("lead_end", len(text))
    if not _is_offset(lead_end, len(text)):
        raise InputError(f"lead_end {lead_end!r} lies outside the text of {len(text)} code points; {where}; fix it")
    return LinkedDocument(id_, id_, title, text, _links(record, text, where, dropped), lead_end)


def _is_offset(value: Any, size: int) -> bool:
    return type(value) is int and 0 <= value <= size


def _links(record: dict[str, Any], text: str, where: str, dropped: list[Dropped]) -> tuple[Link, ...]:
    given = record.get("links", [])
    if not isinstance(given, list) or not all(isinstance(link, dict) for link in given):
        raise InputError(f"'links' is not a list of objects; {where}; fix the line")
    links: list[Link] = []
    for link in given:
        start, end = link.get("start"), link.get("end")
        if not (_is_offset(start, len(text)) and _is_offset(end, len(text)) and start <= end):
            raise InputError(
                f"link offsets {start!r}..{end!r} lie outside the text of {len(text)} code points; {where}; "
                "offsets count code points from 0"
            )
        # Strip the anchor: a space before a sentence's first word would put the link across two sentences.
        shown = text[start:end]
        if shown.strip():
            start, end = end - len(shown.lstrip()), start + len(shown.rstrip())
        links.append(Link(start, end, json_lines.string(link, "target", where)))
    links.sort()
    kept: list[Link] = []
    for item in links:
        if not text[item.start : item.end].strip() or not item.target:
            dropped.append(Dropped(where, "link-empty", item.target))
        elif kept and item.start < kept[-1].end:
            dropped.append(Dropped(where, "link-overlap", text[item.start : item.end]))
        else:
            kept.append(item)
    return tuple(kept)
