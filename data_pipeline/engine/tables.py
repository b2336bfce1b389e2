"""The tables between the stages: Parquet files under `work/TABLE/bucket=N/`, with their columns.

`doc` numbers the documents in the order of the input (chunk number · 2²⁴ + position), whichever worker reads them. A bucket
holds the documents of a few chunks; tables about the sentences of a page are in that page's bucket, so that a map can merge
them without moving the text.
"""

import re
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Table:
    """A table between the stages, by its name in SQL and on disk. Its uses are the stages that make it and read it. in_artefact: it
    belongs to the term weights, which outlive the work directory."""

    name: str
    schema: pa.Schema = field(compare=False)
    in_artefact: bool = False

    def of(self, rows: "Rows") -> pa.Table:
        """Rows or columns in the types of this table."""
        make = pa.Table.from_pydict if isinstance(rows, dict) else pa.Table.from_pylist
        return make(rows, schema=self.schema)


Rows = list[Row] | dict[str, Any]  # rows, or columns by name


def _table(name: str, in_artefact: bool = False, **columns: pa.DataType) -> Table:
    return Table(name, pa.schema(list(columns.items())), in_artefact)


# From sources to documents (links/web_sites.py, links/link_graph.py). `crawled` to `boilerplate`: web pages only.
CRAWLED = _table(
    "crawled", doc=_l, address=_s, title=_s, text=_s, lead_end=_i, links=pa.list_(_link), outline=_s, canonical=_s
)
SITE_PAGES = _table("site_pages", site=_s, n=_l, links=_l, to_sections=_l)
SITE_LINKS = _table("site_links", site=_s, target=_s, page=_s, fragment=_s, anchor=_s, n=_l)
FRAGMENTS = _table("fragments", page=_s, fragment=_s, section=_s)
CANONICAL_SITES = _table("canonical_sites", site=_s)
CRAWLED_SITES = _table("crawled_sites", site=_s)
SITES = _table("sites", site=_s, links=_l, to_sections=_l)
SECTION_TARGETS = _table("section_targets", target=_s, section=_s)
BOILERPLATE = _table("boilerplate", site=_s, target=_s, anchor=_s)
DOCUMENTS = _table("documents", doc=_l, id=_s, title=_s, text=_s, lead_end=_i, links=pa.list_(_link))
ADDRESSES = _table("addresses", doc=_l, home=_i, address=_s, id=_s, disambiguation=_i, problem=_s, identity=_l)
REDIRECTS = _table("redirects", address=_s, target=_s, priority=_l)
EXCLUDED = _table("excluded", address=_s, line=_s)
LOSSES = _table("losses", reason=_s, n=_l, location=_s, example=_s)

# The link graph (links/link_graph.py).
_place = dict(doc=_l, link_start=_i, link_end=_i, sentence_start=_i, sentence_end=_i, anchor=_s)  # of a link
LINKS = _table("links", **_place, target=_s)
PLACES = _table("places", doc=_l, home=_i, address=_s, id=_s, disambiguation=_i, identity=_l, problem=_s)
# Each follows chains twice as long as the one before; `aliases` those of up to 2⁴ redirects (MediaWiki follows one).
ALIASES_STEPS = tuple(_table(f"aliases_{step}", address=_s, target=_s) for step in range(4))
ALIASES = _table("aliases", address=_s, target=_s)
PAGES = _table("pages", doc=_l, home=_i, address=_s, id=_s, disambiguation=_i, problem=_s, same=_l)
TARGETS = _table("targets", **_place, target=_s, destination=_l, problem=_s)
LINK_COUNTS = _table("link_counts", anchor=_s, destination=_l, problem=_s)
RESOLVED = _table("resolved", **_place, target=_s, destination=_l, problem=_s)
ANCHOR_DESTINATION = _table("anchor_destination", anchor=_s, destination=_l, rank=_l)
CANDIDATES = _table("candidates", doc=_l, in_links=_l, place=_l)
RANKED = _table(
    "ranked", **_place, destination=_l, place=_l, first=_l, own=_l, total=_l, occurrence=_l, occurrences=_l, id=_s
)

# Anchor texts for lexical rankers and held-out queries (output/).
ANCHOR_TEXTS = _table("anchor_texts", id=_s, anchor=_s, n=_l)
SOURCE_PAGES = _table("source_pages", doc=_l, held=_i)
ANCHOR_USE = _table("anchor_use", anchor=_s, trained=_l)
HELD_OUT = _table("held_out", **_place, id=_s, title=_s, trained=_l, source=_s)

# Sentences and passages as words and tokens, and their weights (weights/).
SENTENCES = _table("sentences", doc=_l, page=_s, start=_i, words=_s, tokens=_b, lengths=_b, anchors=pa.list_(_anchor))
PASSAGES = _table("passages", doc=_l, in_links=_l, words=_s, tokens=_b, lengths=_b, sentences=_b, signature=_b)
WORD_COUNTS = _table("word_counts", word=_l, n=_l)
WORD_TOTALS = _table("word_totals", word=_l, n=_l)
SENTENCE_WEIGHTS = _table("sentence_weights", in_artefact=True, doc=_l, start=_i, cls=_b, anchors=_b, to_cls=_b)
PASSAGE_WEIGHTS = _table("passage_weights", in_artefact=True, doc=_l, weights=_b)

# Pairs (tasks/).
TERM_COUNTS = _table("term_counts", word=_l, text=_s, n=_l)
TERM_TOTALS = _table("term_totals", word=_l, text=_s, n=_l)
REQUESTS = _table(
    "requests",
    task=_s, key=_s, page=_s, query=_b, anchor=_s, context=_s, length=_i, words_of=_l, positive=_l, negative=_l,
)  # fmt: skip
DRAWS = _table("draws", task=_s, key=_s, draw=_i, anchor=_s, rank=_l, one=_l, doc=_l, place=_l)
COLINKED = _table("colinked", one=_l, other=_l)
LINKED = _table("linked", one=_l, other=_l)
POSITIVES = _table("positives", task=_s, key=_s, signature=_b)  # of the positives of requests
MINED = _table("mined", task=_s, key=_s, destination=_l, more=_b, more_lengths=_b)
NEGATIVES = _table("negatives", task=_s, key=_s, destination=_l)
ASSEMBLED = _table(
    "assembled",
    task=_s, key=_s, page=_s, query=_b, anchor=_s, context=_s, length=_i, positive=_b, positive_in_links=_l,
    negative=_b, negative_in_links=_l, copy=_b, copied=_b, more=_b, more_lengths=_b, words=_s, tokens=_b, sentences=_b, weights=_b,
)  # fmt: skip

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


def unpack(data: bytes) -> np.ndarray:
    """The int32 array of `pack`, read-only."""
    return np.frombuffer(data, np.int32)


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
