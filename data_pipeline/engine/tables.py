"""The tables between the stages: Parquet files under `work/TABLE/bucket=N/`, with their columns.

The rows that Python code works with have a type, which declares the columns; other tables list theirs.
`doc` numbers the documents in the order of the input (chunk number · 2²⁴ + position), whichever worker reads them. A bucket
holds the documents of a few chunks; tables about the sentences of a page are in that page's bucket, so that a map can merge
them without moving the text.
"""

# ruff: noqa: UP013 (a table is a line or two: as classes, the rows would fill four screens)
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Annotated, Any, Generic, TypedDict, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

Row = dict[str, Any]  # a row of a table without a type: its columns by name
Rows = Sequence[Mapping[str, Any]] | dict[str, Any]  # rows, or columns by name
R = TypeVar("R")  # the type of a table's rows
Int = Annotated[int, pa.int32()]
Long = Annotated[int, pa.int64()]
DOCS_PER_CHUNK = 1 << 24
_i, _l, _s, _b = pa.int32(), pa.int64(), pa.string(), pa.binary()


@dataclass(frozen=True)
class Table(Generic[R]):
    """A table between the stages, by its name in SQL and on disk. Its uses are the stages that make it and read it. in_artefact: it
    belongs to the term weights, which outlive the work directory."""

    name: str
    schema: pa.Schema = field(compare=False)
    in_artefact: bool = False

    def of(self, rows: Rows) -> pa.Table:
        """Rows or columns in the types of this table."""
        make = pa.Table.from_pydict if isinstance(rows, dict) else pa.Table.from_pylist
        return make(rows, schema=self.schema)


def _table(name: str, in_artefact: bool = False, **columns: pa.DataType) -> Table[Row]:
    return Table(name, pa.schema(columns), in_artefact)


def _of(name: str, row: type[R]) -> Table[R]:
    return Table(name, pa.schema(_columns(row)))


def _columns(row: type) -> dict[str, pa.DataType]:
    return {name: _arrow_type(kind) for name, kind in get_type_hints(row, include_extras=True).items()}


def _arrow_type(kind: Any) -> pa.DataType:
    """The column type of str, bytes, Int, Long, a row, a list, or one of these | None: every column may be null."""
    inner = get_args(kind)
    if NoneType in inner:
        return _arrow_type(inner[0])
    if get_origin(kind) is list:
        return pa.list_(_arrow_type(inner[0]))
    if is_typeddict(kind):
        return pa.struct(list(_columns(kind).items()))
    return inner[1] if inner else {str: _s, bytes: _b}[kind]


# From sources to documents (links/web_sites.py, links/link_graph.py). `crawled` to `boilerplate`: web pages only.
LinkSpan = TypedDict("LinkSpan", {"start": Int, "end": Int, "target": str})
CrawledRow = TypedDict("CrawledRow", {
    "doc": Long, "address": str, "title": str, "text": str, "lead_end": Int, "links": list[LinkSpan], "outline": str,
    "canonical": str,
})  # fmt: skip
CRAWLED = _of("crawled", CrawledRow)
SITE_PAGES = _table("site_pages", site=_s, n=_l, links=_l, to_sections=_l)
SITE_LINKS = _table("site_links", site=_s, target=_s, page=_s, fragment=_s, anchor=_s, n=_l)
FRAGMENTS = _table("fragments", page=_s, fragment=_s, section=_s)
CANONICAL_SITES = _table("canonical_sites", site=_s)
CRAWLED_SITES = _table("crawled_sites", site=_s)
SITES = _table("sites", site=_s, links=_l, to_sections=_l)
SECTION_TARGETS = _table("section_targets", target=_s, section=_s)
BOILERPLATE = _table("boilerplate", site=_s, target=_s, anchor=_s)
DocumentRow = TypedDict(
    "DocumentRow", {"doc": Long, "id": str, "title": str, "text": str, "lead_end": Int, "links": list[LinkSpan]}
)
DOCUMENTS = _of("documents", DocumentRow)
ADDRESSES = _table("addresses", doc=_l, home=_i, address=_s, id=_s, disambiguation=_i, problem=_s, identity=_l)
REDIRECTS = _table("redirects", address=_s, target=_s, priority=_l)
EXCLUDED = _table("excluded", address=_s, line=_s)
LOSSES = _table("losses", reason=_s, n=_l, location=_s, example=_s)

# The link graph (links/link_graph.py). `first` to `occurrences`: see tasks/task.py, Anchor.
_link = dict(doc=_l, link_start=_i, link_end=_i, sentence_start=_i, sentence_end=_i, anchor=_s)
LINKS = _table("links", **_link, target=_s)
PLACES = _table("places", doc=_l, home=_i, address=_s, id=_s, disambiguation=_i, identity=_l, problem=_s)
# Each follows chains twice as long as the one before; `aliases` those of up to 2⁴ redirects (MediaWiki follows one).
ALIASES_STEPS = tuple(_table(f"aliases_{step}", address=_s, target=_s) for step in range(4))
ALIASES = _table("aliases", address=_s, target=_s)
PAGES = _table("pages", doc=_l, home=_i, address=_s, id=_s, disambiguation=_i, problem=_s, same=_l)
TARGETS = _table("targets", **_link, target=_s, destination=_l, problem=_s)
LINK_COUNTS = _table("link_counts", anchor=_s, destination=_l, problem=_s)
RESOLVED = _table("resolved", **_link, target=_s, destination=_l, problem=_s)
ANCHOR_DESTINATION = _table("anchor_destination", anchor=_s, destination=_l, rank=_l)
CANDIDATES = _table("candidates", doc=_l, in_links=_l, place=_l)
RankedRow = TypedDict("RankedRow", {
    "doc": Long, "link_start": Int, "link_end": Int, "sentence_start": Int, "sentence_end": Int, "anchor": str,
    "destination": Long, "place": Long, "first": Long, "own": Long, "total": Long, "occurrence": Long, "occurrences": Long,
    "id": str,
})  # fmt: skip
RANKED = _of("ranked", RankedRow)

# Anchor texts for lexical rankers and held-out queries (output/).
ANCHOR_TEXTS = _table("anchor_texts", id=_s, anchor=_s, n=_l)
SOURCE_PAGES = _table("source_pages", doc=_l, held=_i)
ANCHOR_USE = _table("anchor_use", anchor=_s, trained=_l)
HELD_OUT = _table("held_out", **_link, id=_s, title=_s, trained=_l, source=_s)

# Sentences and passages as words and tokens, and their weights (weights/). `number`: code point of the page where an anchor starts.
AnchorRow = TypedDict("AnchorRow", {
    "number": Int, "text": str, "start": Int, "end": Int, "destination": Long, "place": Long, "first": Long, "own": Long,
    "total": Long, "occurrence": Long, "occurrences": Long,
})  # fmt: skip
SentenceRow = TypedDict("SentenceRow", {
    "doc": Long, "page": str, "start": Int, "words": str, "tokens": bytes, "lengths": bytes, "anchors": list[AnchorRow],
})  # fmt: skip
SENTENCES = _of("sentences", SentenceRow)
PassageRow = TypedDict("PassageRow", {
    "doc": Long, "in_links": Long, "words": str, "tokens": bytes, "lengths": bytes, "sentences": bytes, "signature": bytes,
})  # fmt: skip
PASSAGES = _of("passages", PassageRow)
WORD_COUNTS = _table("word_counts", word=_l, n=_l)
WORD_TOTALS = _table("word_totals", word=_l, n=_l)
SENTENCE_WEIGHTS = _table("sentence_weights", in_artefact=True, doc=_l, start=_i, cls=_b, anchors=_b, to_cls=_b)
PASSAGE_WEIGHTS = _table("passage_weights", in_artefact=True, doc=_l, weights=_b)

# Pairs (tasks/).
TERM_COUNTS = _table("term_counts", word=_l, text=_s, n=_l)
TERM_TOTALS = _table("term_totals", word=_l, text=_s, n=_l)
RequestRow = TypedDict("RequestRow", {
    "task": str, "key": str, "page": str, "query": bytes, "anchor": str, "context": str, "length": Int,
    "words_of": Long | None, "positive": Long, "negative": Long | None,
})  # fmt: skip
REQUESTS = _of("requests", RequestRow)
DRAWS = _table("draws", task=_s, key=_s, draw=_i, anchor=_s, rank=_l, one=_l, doc=_l, place=_l)
COLINKED = _table("colinked", one=_l, other=_l)
LINKED = _table("linked", one=_l, other=_l)
POSITIVES = _table("positives", task=_s, key=_s, signature=_b)  # of the positives of requests
MINED = _table("mined", task=_s, key=_s, destination=_l, more=_b, more_lengths=_b)
NEGATIVES = _table("negatives", task=_s, key=_s, destination=_l)
# `copy`, `copied`: signatures of the negative and the positive; `words` to `weights`: of the request's page `words_of`.
AssembledRow = TypedDict("AssembledRow", {
    "task": str, "key": str, "page": str, "query": bytes, "anchor": str, "context": str, "length": Int,
    "positive": bytes | None, "positive_in_links": Long, "negative": bytes | None, "negative_in_links": Long | None,
    "copy": bytes | None, "copied": bytes | None, "more": bytes | None, "more_lengths": bytes | None,
    "words": str | None, "tokens": bytes | None, "sentences": bytes | None, "weights": bytes | None,
})  # fmt: skip
ASSEMBLED = _of("assembled", AssembledRow)

# Records, shards and the trivial predictors (tasks/, output/manifest.py).
RECORDS = _table(
    "records", task=_s, split=_s, shuffle=_l, key=_s, example=_b, size=_l, query_tokens=_l, doc_tokens=_l, sequences=_l
)
VALIDATION = _table(
    "validation", task=_s, key=_s, pos_query=_b, pos_doc=_b, neg_query=_b, neg_doc=_b, pos_in_links=_l, neg_in_links=_l
)
TOKEN_COUNTS = _table("token_counts", task=_s, side=_s, token=_l, n=_l)
SPLITS = _table("splits", task=_s, split=_s, shards=_l, first=_l)
SHARDED = _table("sharded", task=_s, split=_s, shuffle=_l, key=_s, example=_b)
SHARD_FILES = _table("shard_files", file=_s, records=_l, bytes=_l, sha256=_s)
PREDICTIONS = _table("predictions", task=_s, predictor=_s, points=_l, n=_l)

BY_NAME = {table.name: table for table in (*globals().values(), *ALIASES_STEPS) if isinstance(table, Table)}


def read_by(sql: str) -> list[Table]:
    """The tables that a query names after FROM and JOIN."""
    names = re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", sql)
    return [BY_NAME[name] for name in dict.fromkeys(names) if name in BY_NAME]


def pack(ids: ArrayLike) -> bytes:
    """Integers that fit int32, such as token ids, as bytes."""
    return np.asarray(ids, np.int32).tobytes()


def unpack(data: bytes | None) -> np.ndarray:
    """The int32 array of `pack`, read-only; empty for None."""
    return np.frombuffer(data or b"", np.int32)


EXAMPLES = 3  # examples kept per reason


class DropCounts:
    """What one part of a map dropped, by reason: a short stable slug. Rows of the table `losses`. A reason begins with what was
    dropped: `page-`, `redirect-`, `link-` (by destination or position), `text-` (blocks of prose), `anchor-` (by text),
    `exclusion-` (a line of config.exclude_destinations), `characters-`, or the name of a task (a pair that could not be made)."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}

    def add(self, reason: str, location: str, example: str = "", count: int = 1) -> None:
        rows = self._rows.setdefault(reason, [])
        if len(rows) < EXAMPLES:
            # File names that are not UTF-8 contain lone surrogates, which Parquet cannot store.
            where, what = (text.encode("utf-8", "backslashreplace").decode() for text in (location, example[:200]))
            rows.append(dict(reason=reason, n=0, location=where, example=what))
        rows[0]["n"] += count

    def rows(self) -> list[Row]:
        """The count of a reason is in its first row; its other rows have n = 0 and an example."""
        return [row for rows in self._rows.values() for row in rows]
