"""The tables between the stages: Parquet files under `work/TABLE/bucket=N/`, with their columns.

`doc` numbers the documents in the order of the input (chunk number · 2²⁴ + position), whichever worker reads them. A bucket
holds the documents of a few chunks; tables about the sentences of a page are in that page's bucket, so that a map can merge
them without moving the text.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

Row = dict[str, Any]  # a row of a table: its columns by name
DOCS_PER_CHUNK = 1 << 24
_i, _l, _s, _b = pa.int32(), pa.int64(), pa.string(), pa.binary()
_link = pa.struct([("start", _i), ("end", _i), ("target", _s)])
# `number`: code point of the page's text where the anchor starts; `first` to `occurrences`: see tasks/task.py, Anchor.
_anchor = pa.struct(
    [
        *(("number", _i), ("anchor", _s), ("start", _i), ("end", _i), ("destination", _l), ("place", _l)),
        *(("first", _l), ("own", _l), ("total", _l), ("occurrence", _l), ("occurrences", _l)),
    ]
)

SCHEMAS: dict[str, pa.Schema] = {
    name: pa.schema(list(columns.items()))
    for name, columns in {
        "documents": dict(doc=_l, id=_s, title=_s, text=_s, lead_end=_i, links=pa.list_(_link)),
        "crawled": dict(
            doc=_l, address=_s, title=_s, text=_s, lead_end=_i, links=pa.list_(_link), outline=_s, canonical=_s
        ),
        "site_pages": dict(site=_s, n=_l, links=_l, to_sections=_l),
        "site_links": dict(site=_s, target=_s, page=_s, fragment=_s, anchor=_s, n=_l),
        "fragments": dict(page=_s, fragment=_s, section=_s),
        "canonical_sites": dict(site=_s),
        "crawled_sites": dict(site=_s),
        "sites": dict(site=_s, links=_l, to_sections=_l),
        "section_targets": dict(target=_s, section=_s),
        "boilerplate": dict(site=_s, target=_s, anchor=_s),
        "addresses": dict(doc=_l, home=_i, address=_s, id=_s, disambiguation=_i, problem=_s, identity=_l),
        "redirects": dict(address=_s, target=_s, priority=_l),
        "excluded": dict(address=_s, line=_s),
        "losses": dict(reason=_s, n=_l, location=_s, example=_s),
        "links": dict(
            doc=_l, link_start=_i, link_end=_i, sentence_start=_i, sentence_end=_i, anchor=_s, target=_s
        ),
        "places": dict(doc=_l, home=_i, address=_s, id=_s, disambiguation=_i, identity=_l, problem=_s),
        "pages": dict(doc=_l, home=_i, address=_s, id=_s, disambiguation=_i, problem=_s, same=_l),
        **{name: dict(address=_s, target=_s) for name in ("aliases_0", "aliases_1", "aliases_2", "aliases_3", "aliases")},
        **{name: dict(
            doc=_l, link_start=_i, link_end=_i, sentence_start=_i, sentence_end=_i, anchor=_s, target=_s, destination=_l, problem=_s
        ) for name in ("targets", "resolved")},
        "link_pages": dict(anchor=_s, destination=_l, home=_i, n=_l, pages=_l),
        "link_counts": dict(anchor=_s, destination=_l, n=_l, problem=_s),
        "anchors": dict(anchor=_s, n=_l, destinations=_l, entropy=pa.float64()),
        "anchor_summaries": dict(
            bucket=_i, anchors=_l, links=_l, ambiguous=_l, bits=pa.float64(), most_ambiguous=_s
        ),
        "anchor_texts": dict(id=_s, anchor=_s, n=_l),
        "source_pages": dict(doc=_l, held=_i),
        "anchor_use": dict(anchor=_s, trained=_l),
        "held_out": dict(
            anchor=_s, doc=_l, link_start=_i, link_end=_i, sentence_start=_i, sentence_end=_i, id=_s, title=_s, trained=_l,
            source=_s,
        ),
        "anchor_destination": dict(anchor=_s, destination=_l, rank=_l),
        "candidates": dict(doc=_l, in_links=_l, place=_l),
        "ranked": dict(
            doc=_l, link_start=_i, link_end=_i, sentence_start=_i, sentence_end=_i, anchor=_s, destination=_l, place=_l,
            first=_l, own=_l, total=_l, occurrence=_l, occurrences=_l, id=_s,
        ),
        "colinked": dict(one=_l, other=_l),
        "linked": dict(one=_l, other=_l),
        "sentences": dict(doc=_l, page=_s, start=_i, words=_s, tokens=_b, lengths=_b, anchors=pa.list_(_anchor)),
        "passages": dict(doc=_l, in_links=_l, words=_s, tokens=_b, lengths=_b, sentences=_b),
        "word_counts": dict(word=_l, n=_l),
        "word_totals": dict(word=_l, n=_l),
        "term_counts": dict(word=_l, text=_s, n=_l, part=_i),
        "term_totals": dict(word=_l, text=_s, n=_l),
        "sentence_weights": dict(doc=_l, start=_i, cls=_b, anchors=_b, to_cls=_b),
        "passage_weights": dict(doc=_l, weights=_b),
        "requests": dict(
            task=_s, key=_s, page=_s, query=_b, anchor=_s, context=_s, length=_i, words_of=_l, positive=_l, negative=_l,
        ),
        "draws": dict(task=_s, key=_s, draw=_i, anchor=_s, rank=_l, one=_l, doc=_l, place=_l),
        "mined": dict(task=_s, key=_s, destination=_l, more=_b, more_lengths=_b, shared=_l),
        "sharpness": dict(source=_s, units=_l, n=_l),
        "negatives": dict(task=_s, key=_s, destination=_l),
        "assembled": dict(
            task=_s, key=_s, page=_s, query=_b, anchor=_s, context=_s, length=_i,
            positive=_b, positive_in_links=_l, negative=_b, negative_in_links=_l, more=_b, more_lengths=_b,
            words=_s, tokens=_b, sentences=_b, weights=_b,
        ),
        "records": dict(
            task=_s, split=_s, shuffle=_l, key=_s, example=_b, size=_l, query_tokens=_l, doc_tokens=_l, sequences=_l
        ),
        "validation": dict(
            task=_s, key=_s, pos_query=_b, pos_doc=_b, neg_query=_b, neg_doc=_b, pos_in_links=_l, neg_in_links=_l
        ),
        "token_counts": dict(task=_s, side=_s, token=_l, n=_l),
        "splits": dict(task=_s, split=_s, shards=_l, first=_l),
        "sharded": dict(task=_s, split=_s, shuffle=_l, key=_s, example=_b),
        "shard_files": dict(file=_s, records=_l, bytes=_l, sha256=_s),
        "predictions": dict(task=_s, predictor=_s, points=_l, n=_l),
    }.items()
}  # fmt: skip


def table(name: str, rows: list[Row] | dict[str, Any]) -> pa.Table:
    """Rows (dicts) or columns as the named table."""
    if isinstance(rows, dict):
        return pa.Table.from_pydict(rows, schema=SCHEMAS[name])
    return pa.Table.from_pylist(rows, schema=SCHEMAS[name])


def pack(ids: ArrayLike) -> bytes:
    """Integers that fit int32, such as token ids, as bytes."""
    return np.asarray(ids, np.int32).tobytes()


def unpack(data: bytes) -> np.ndarray:
    """The int32 array of `pack`, read-only."""
    return np.frombuffer(data, np.int32)


EXAMPLES = 3  # examples kept per reason


class DropCounts:
    """What one part of a map dropped, by reason: a short stable slug. The table is called `losses`, as in the manifest.

    A reason begins with what was dropped: `page-`, `redirect-`, `link-` (by destination or position), `text-` (blocks of prose),
    `anchor-` (by text), `exclusion-` (a line of config.exclude_destinations), `characters-`, or the name of a task (a pair that
    could not be made).
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[tuple[str, str]]] = {}

    def add(self, reason: str, location: str, example: str = "", count: int = 1) -> None:
        self._counts[reason] = self._counts.get(reason, 0) + count
        examples = self._examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            # File names that are not UTF-8 contain lone surrogates, which Parquet cannot store.
            examples.append((_printable(location), _printable(example[:200])))

    def table(self) -> pa.Table:
        """The count of a reason is in its first row; its other rows have n = 0 and an example."""
        rows = [
            dict(reason=reason, n=self._counts[reason] if i == 0 else 0, location=location, example=example)
            for reason, examples in self._examples.items()
            for i, (location, example) in enumerate(examples)
        ]
        return table("losses", rows)


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def summary_of_dropped(rows: Iterable[tuple[str, int, str, str]]) -> dict[str, Any]:
    """{reason: {"count", "examples"}} from (reason, n, location, example), independent of the rows' order."""
    counts: dict[str, int] = {}
    examples: dict[str, list[list[str]]] = {}
    for reason, n, location, example in rows:
        counts[reason] = counts.get(reason, 0) + n
        kept = examples.setdefault(reason, [])
        kept.append([location, example])
        kept.sort()
        del kept[EXAMPLES:]
    return {reason: {"count": counts[reason], "examples": examples[reason]} for reason in sorted(counts)}
