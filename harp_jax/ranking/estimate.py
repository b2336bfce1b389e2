"""What a first stage will cost, in hours and memory, measured on a sample of its documents and queries."""

import itertools
import time
import tracemalloc

import numpy as np

from harp_jax.base.progress import duration
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_queries
from harp_jax.ranking.first_stage import Candidates, indexed, read_anchors
from harp_jax.ranking.lexical import InvertedIndex, Model, make, search

SIZES, QUERIES = (1000, 4000), 20  # documents of two indexes, from whose difference is extrapolated; queries measured


def estimate(candidates: Candidates, queries: str, model: str = "bm25", settings: int = 1, sample: int = 0) -> str:
    """The cost of `model` in words, from evenly spaced documents. `settings`: of tuning on `sample` queries (0: all). Raises
    InputError for bad input."""
    docs, texts = Documents.open(candidates.docs, candidates.fields), read_queries(queries)
    anchors = read_anchors(candidates.anchors) if candidates.anchors else None

    def index_of(size: int) -> tuple[InvertedIndex, Model]:
        step = max(1, len(docs) // size)
        chosen = ((docid, docs[docid]) for docid in itertools.islice(docs.ids(), 0, None, step))
        index = indexed(chosen, model, candidates.language, anchors)
        return index, make(model, index, {})

    def measured(size: int) -> np.ndarray:
        """Documents, seconds of indexing, its peak memory in bytes, seconds per query."""
        times = [time.perf_counter()]
        index, ranker = index_of(size)
        times.append(time.perf_counter())
        for query in itertools.islice(texts.values(), QUERIES):
            search(ranker, index, query, candidates.k or 100)
            times.append(time.perf_counter())
        indexing, *seconds = np.diff(times)
        del index, ranker
        tracemalloc.start()
        try:
            count, per_query = len(index_of(size)[0]), np.median(seconds) if seconds else 0.0
            return np.array([count, indexing, tracemalloc.get_traced_memory()[1], per_query])
        finally:
            tracemalloc.stop()

    index_of(10)  # imports
    small, large = map(measured, SIZES)
    slope = np.maximum(large - small, 0.0) / max(large[0] - small[0], 1)
    _, indexing, memory, per_query = large + slope * (len(docs) - large[0])
    count = min(sample, len(texts)) if sample else len(texts)
    ranked = f"{count:,} queries" + (f" with {settings} settings" if settings > 1 else "")
    return (
        f"index of {len(docs):,} documents: about {duration(indexing)} and {memory / 1e9:.1f} GB of memory; "
        f"{ranked}: about {duration(settings * count * per_query)} ({per_query:.2g} s each). "
        "If that is too much, rank with Lucene (Anserini, Pyserini): harp rerank --run, fuse and evaluate read its runs."
    )
