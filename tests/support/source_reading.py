"""Reads a source chunk by chunk, and shows a text with its links in place."""

from data_pipeline.sources import formats


def source(format_: str, *paths, **fields) -> dict:
    given = {"format": format_, "paths": tuple(map(str, paths)), "redirects": ()}
    return given | {"max_page_bytes": 2 << 20} | fields


def read(given: dict) -> tuple[list, list]:
    """(documents, dropped) of all chunks; checks that chunk names are distinct and in order."""
    documents, dropped, names = [], [], []
    for chunk in formats.chunks(given):
        names.append(chunk.name)
        some, some_dropped = formats.parse(chunk, given)
        documents += some
        dropped += some_dropped
    assert names == sorted(set(names))
    return documents, dropped


def shown(page) -> str:
    """The text of a document or `Plain`, with links as `[anchor->target]`."""
    text, position = "", 0
    for start, end, target in page.links:
        text += page.text[position:start] + f"[{page.text[start:end]}->{target}]"
        position = end
    return text + page.text[position:]
