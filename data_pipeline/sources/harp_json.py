"""The format in which HARP's authors publish their data: one sentence per line, destinations by their text.

`{"tokenized_sentence": [...], "anchors": [[{"text", "pos": [first, last], "passage"}]]}`; `pos` are inclusive indices
into the tokens. Every sentence and every passage becomes a document; a passage of several anchors is one page (repeats
in later chunks are counted as `page-duplicate`). An anchor whose `pos` does not match its text is counted and skipped: 3 of
100 in the authors' demo. The text is the tokens joined by single spaces, which is what `pos` refers to (`sentence` differs
from it in places).
"""

import hashlib
import itertools
import json
import re
from typing import Any

from data_pipeline.sources import json_lines
from data_pipeline.sources.document import Chunk, Dropped, Link, LinkedDocument, Source
from harp_jax.base.errors import InputError

_WORD = re.compile(r"\w")


def parse(chunk: Chunk, source: Source) -> tuple[list[LinkedDocument], list[Dropped]]:
    """Sentences and passages in the order of the lines; raises InputError for a line without tokens or anchors."""
    documents: list[LinkedDocument] = []
    dropped: list[Dropped] = []
    known: set[str] = set()
    for where, record in json_lines.records(chunk, dropped):
        tokens, anchors = record.get("tokenized_sentence"), record.get("anchors")
        if not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
            raise InputError(f"'tokenized_sentence' is missing or not a list of strings; {where}; fix the line")
        if not isinstance(anchors, list):
            raise InputError(f"'anchors' is missing or not a list; {where}; fix the line")
        tokens = [json_lines.string({"token": token}, "token", where) for token in tokens]
        text = " ".join(tokens)
        starts = [0, *itertools.accumulate(len(token) + 1 for token in tokens)]
        links: list[Link] = []
        passages: list[LinkedDocument] = []
        for anchor in [anchor for group in anchors for anchor in (group if isinstance(group, list) else [group])]:
            span = _span(text, starts, anchor)
            if span is None:
                dropped.append(Dropped(where, "anchor-malformed", json.dumps(anchor, ensure_ascii=False)))
                continue
            passage = json_lines.string(anchor, "passage", where)
            address = "passage-" + hashlib.blake2b(passage.encode(), digest_size=12).hexdigest()
            links.append(Link(*span, address))
            if address not in known:
                known.add(address)
                passages.append(LinkedDocument(address, address, "", passage, (), len(passage)))
        number = where.rpartition(" ")[2]
        id_ = f"{chunk.name.rpartition(':')[0]}-{number}"
        documents.append(LinkedDocument(id_, id_, "", text, _disjoint(links, text, where, dropped), len(text)))
        documents += passages
    return documents, dropped


def _span(sentence: str, starts: list[int], anchor: Any) -> tuple[int, int] | None:
    """The span of the anchor's text in the tokens of `pos`; None if they contain other words, too."""
    if not isinstance(anchor, dict):
        return None
    text, pos, passage = anchor.get("text"), anchor.get("pos"), anchor.get("passage")
    if not (isinstance(text, str) and text.strip() and isinstance(passage, str) and passage.strip()):
        return None
    if not (isinstance(pos, list) and len(pos) == 2 and all(type(index) is int for index in pos)):
        return None
    first, last = pos
    if not 0 <= first <= last < len(starts) - 1:
        return None
    start, end = starts[first], starts[last + 1] - 1
    at = sentence.find(text.strip(), start, end)
    after = at + len(text.strip())
    if at < 0 or _WORD.search(sentence[start:at] + sentence[after:end]):
        return None
    return at, after


def _disjoint(links: list[Link], text: str, where: str, dropped: list[Dropped]) -> tuple[Link, ...]:
    kept: list[Link] = []
    for link in sorted(links):
        if kept and link.start < kept[-1].end:
            dropped.append(Dropped(where, "link-overlap", text[link.start : link.end]))
        else:
            kept.append(link)
    return tuple(kept)
