"""What a first stage will cost, in hours and memory, measured on a sample of its documents and queries."""

import itertools
import statistics
import time
import tracemalloc
from dataclasses import dataclass
from typing import NamedTuple

from harp_jax.base.progress import duration
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_queries
from harp_jax.ranking.first_stage import Candidates, indexed, read_anchors
from harp_jax.ranking.lexical import InvertedIndex, make, search

SIZES, QUERIES = (1000, 4000), 20  # documents of two indexes, from whose difference is extrapolated; queries measured


@dataclass(frozen=True)
class Estimate:
    """Seconds and bytes (the peak) of indexing all `documents`, and seconds of ranking one query."""

    documents: int
    queries: int
    settings: int
    index_seconds: float
    index_bytes: float
    query_seconds: float

    @property
    def seconds(self) -> float:
        return self.index_seconds + self.settings * self.queries * self.query_seconds

    def __str__(self) -> str:
        ranked = f"{self.queries:,} queries" + (f" with {self.settings} settings" if self.settings > 1 else "")
        return (
            f"index of {self.documents:,} documents: about {duration(self.index_seconds)} and {self.index_bytes / 1e9:.1f} GB of "
            f"memory; {ranked}: about {duration(self.seconds - self.index_seconds)} ({self.query_seconds:.2g} s each). "
            "If that is too much, rank with Lucene (Anserini, Pyserini): harp rerank --run, fuse and evaluate read its runs."
        )


class _Measured(NamedTuple):
    documents: int
    index_seconds: float
    index_bytes: float
    query_seconds: float


def estimate(candidates: Candidates, queries: str, model: str = "bm25", settings: int = 1, sample: int = 0) -> Estimate:
    """Measures `model` on evenly spaced documents. `settings`: of tuning on `sample` queries (0: all). InputError: bad input."""
    docs, texts = Documents.open(candidates.docs, candidates.fields), read_queries(queries)
    anchors = read_anchors(candidates.anchors) if candidates.anchors else None
    asked = list(itertools.islice(texts.values(), QUERIES))

    def index_of(size: int) -> InvertedIndex:
        step = max(1, len(docs) // size)
        chosen = ((docid, docs[docid]) for docid in itertools.islice(docs.ids(), 0, None, step))
        index = indexed(chosen, model, candidates.language, anchors)
        make(model, index, {})
        return index

    def measured(size: int) -> _Measured:
        began = time.perf_counter()
        index = index_of(size)
        indexing, ranker, seconds = time.perf_counter() - began, make(model, index, {}), []
        for query in asked:
            began = time.perf_counter()
            search(ranker, index, query, candidates.k or 100)
            seconds.append(time.perf_counter() - began)
        del index, ranker
        tracemalloc.start()
        try:
            count = len(index_of(size))
            return _Measured(count, indexing, tracemalloc.get_traced_memory()[1], statistics.median(seconds or [0.0]))
        finally:
            tracemalloc.stop()

    index_of(10)  # imports
    small, large = map(measured, SIZES)

    def extrapolated(name: str) -> float:
        first, second = getattr(small, name), getattr(large, name)
        slope = max(second - first, 0.0) / max(large.documents - small.documents, 1)
        return second + slope * (len(docs) - large.documents)

    count = min(sample, len(texts)) if sample else len(texts)
    return Estimate(
        len(docs),
        count,
        settings,
        extrapolated("index_seconds"),
        extrapolated("index_bytes"),
        extrapolated("query_seconds"),
    )
