"""What a first stage will cost, in hours and memory, measured on a sample of its documents and queries."""

import itertools
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

from harp_jax.base.progress import duration
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_queries
from harp_jax.ranking.first_stage import Candidates, indexed, read_anchors
from harp_jax.ranking.lexical import make, search

DOCUMENTS, QUERIES = 5000, 20  # measured; the memory on a fifth of the documents, because tracing is slow


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


def estimate(candidates: Candidates, queries: str, model: str = "bm25", settings: int = 1, sample: int = 0) -> Estimate:
    """Measures `model` on evenly spaced documents. `settings`: of tuning on `sample` queries (0: all). InputError: bad input."""
    docs, texts = Documents.open(candidates.docs, candidates.fields), read_queries(queries)
    anchors = read_anchors(candidates.anchors) if candidates.anchors else None
    step = max(1, len(docs) // DOCUMENTS)

    def chosen(step: int) -> Iterator[tuple[str, str]]:
        return ((docid, docs[docid]) for docid in itertools.islice(docs.ids(), 0, None, step))

    began = time.perf_counter()
    index = indexed(chosen(step), model, candidates.language, anchors)
    ranker = make(model, index, {})
    scale = len(docs) / len(index)
    index_seconds = (time.perf_counter() - began) * scale
    asked = list(itertools.islice(texts.values(), QUERIES))
    began = time.perf_counter()
    for query in asked:
        search(ranker, index, query, candidates.k or 100)
    query_seconds = (time.perf_counter() - began) / max(len(asked), 1) * scale
    tracemalloc.start()
    try:
        traced = indexed(chosen(5 * step), model, candidates.language, anchors)
        make(model, traced, {})
        index_bytes = tracemalloc.get_traced_memory()[1] * len(docs) / len(traced)
    finally:
        tracemalloc.stop()
    count = min(sample, len(texts)) if sample else len(texts)
    return Estimate(len(docs), count, settings, index_seconds, index_bytes, query_seconds)
