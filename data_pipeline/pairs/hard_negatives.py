"""BM25's pages for an anchor text, the negatives of ADP.

A search over the whole corpus would need one index of it in every worker, and returns true synonyms of the positive first. Each
bucket searches a slice of the pages instead: its own bucket and the following ones until there are `adp_slice` pages. Time and
memory stay the same per bucket however large the corpus is.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_pipeline.engine.job import Job
from data_pipeline.engine.store import buckets, read
from data_pipeline.engine.tables import table, unpack
from data_pipeline.tasks import adp
from harp_jax.base.randomness import generator

# The first stage of MS MARCO's baselines; the length of leads varies little.
K1, B = 0.9, 0.4


class Slice:
    """BM25 over the wordpieces of some pages: docs and in_links are [pages] int64."""

    def __init__(self, docs: np.ndarray, in_links: np.ndarray, texts: list[np.ndarray]) -> None:
        from scipy import sparse

        self.docs, self.in_links = docs, in_links
        lengths = np.array([len(text) for text in texts], np.int64)
        page = np.repeat(np.arange(len(texts)), lengths)
        pieces = np.concatenate(texts)
        counts = sparse.coo_matrix((np.ones(len(pieces)), (pieces, page))).tocsr()  # sums repeated pieces
        found = np.diff(counts.indptr)
        idf = np.log1p((len(texts) - found + 0.5) / (found + 0.5))
        norm = K1 * (1 - B + B * lengths / max(1.0, lengths.mean()))
        counts.data = counts.data * (K1 + 1) / (counts.data + norm[counts.indices])
        counts.data *= np.repeat(idf, found)
        self.postings = counts

    def search(self, query: Iterable[int], count: int, without: int) -> np.ndarray:
        """Places of the best pages that share a wordpiece with the query, at most `count`; the page `without` is left out."""
        scores = np.zeros(len(self.docs))
        matrix = self.postings
        for piece in sorted(set(query)):
            if piece < matrix.shape[0]:
                part = slice(matrix.indptr[piece], matrix.indptr[piece + 1])
                scores[matrix.indices[part]] += matrix.data[part]
        scores[self.docs == without] = 0.0
        # Every page with the score of the last one, so that ties are broken by the order of the slice.
        count = min(count, len(scores))
        kept = np.flatnonzero((scores > 0) & (scores >= np.partition(scores, -count)[-count]))
        return kept[np.argsort(-scores[kept], kind="stable")][:count]


def mine(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over the buckets of `requests`: the negative of each request of ADP, if BM25 finds a page."""
    c = job["config"]
    requests = read(job, "requests", number, ["task", "key", "anchor", "positive"]).to_pylist()
    pages = _slice(job, number, c["adp_slice"])
    found = []
    for row in requests:
        if row["task"] != adp.TASK:
            continue
        places = pages.search(unpack(row["anchor"]).tolist(), c["adp_depth"], row["positive"])
        if len(places):
            rng = generator(c["seed"], adp.TASK, row["key"], "negative")
            chosen = adp.negative(pages.in_links[places], rng)
            found.append(dict(key=row["key"], destination=int(pages.docs[places[chosen]])))
    return {"adp_negatives": table("adp_negatives", found)}


def _slice(job: Job, number: int, count: int) -> Slice:
    """The passages of bucket `number` and of those after it, in a circle, until there are `count`; of linked pages only.

    Where ICT, PROP or running text are made as well, there are passages of all pages. Pages without links are never positives:
    as negatives they would be told apart by that alone.
    """
    every = buckets(job, "passages")
    first = next((i for i, bucket in enumerate(every) if bucket >= number), 0)
    docs: list[int] = []
    links: list[int] = []
    texts: list[np.ndarray] = []
    for bucket in every[first:] + every[:first]:
        for batch in read(job, "passages", bucket, ["doc", "in_links", "tokens"]).to_batches(max_chunksize=1024):
            batch = batch.filter(pc.greater(batch.column("in_links"), 0))
            docs += batch.column("doc").to_pylist()
            links += batch.column("in_links").to_pylist()
            texts += [unpack(tokens) for tokens in batch.column("tokens").to_pylist()]
        if len(docs) >= count:
            break
    return Slice(np.array(docs[:count], np.int64), np.array(links[:count], np.int64), texts[:count])
