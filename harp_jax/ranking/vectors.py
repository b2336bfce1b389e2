"""First stage by vectors: every document is embedded once, and the nearest ones of each query are found exactly.

A long document is embedded in up to PASSAGES windows and counts as its best one. The vectors stay in the cache, PART documents a
file, so that a killed command goes on where it was. A search reads file after file: memory does not grow with the collection,
time does. A million passages of 384 numbers take .8 GB; beyond tens of millions use an approximate index.
"""

import os
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from harp_jax.base.files import cache_directory, replacing
from harp_jax.base.progress import progress
from harp_jax.corpus.documents import Documents, document_files, is_irds
from harp_jax.corpus.trec import ScoredQuery, read_queries, write_run
from harp_jax.ranking.first_stage import Candidates
from harp_jax.ranking.rerank import fingerprint
from harp_jax.ranking.scorers import BiEncoderScorer, Windows

PART = 1024  # documents
PASSAGES = 8
QUERIES = 256  # searched together


class VectorIndex:
    """The vectors of a collection by one encoder, in `directory` (default: of the user's cache, named by a hash of both).

    Embeds what is not there yet. `passages`: windows of a document, at most.
    """

    def __init__(
        self, model: str, docs: Documents, scorer: BiEncoderScorer, passages: int = PASSAGES, directory: str = ""
    ) -> None:
        self.docs, self.scorer, self.windows = docs, scorer, Windows(passages)
        chosen = {"docs": docs.path, "fields": docs.fields, "passages": passages, "max_length": scorer.max_length}
        key = fingerprint(chosen, model, [] if is_irds(docs.path) else document_files(docs.path))
        self.directory = directory or os.path.join(cache_directory("vectors"), key)
        os.makedirs(self.directory, exist_ok=True)
        self.parts = [os.path.join(self.directory, f"{n:06d}.npz") for n in range(-(-len(docs) // PART))]
        if not all(map(os.path.exists, self.parts)):
            self._embed()

    def _embed(self) -> None:
        texts = iter(progress(self.docs.texts(), total=len(self.docs), unit="documents", desc="embed"))
        for path in self.parts:
            part = [text for _, text in islice(texts, PART)]
            if not os.path.exists(path):
                vectors, starts = self._passages(part)
                with replacing(path, "wb") as file:
                    np.savez(file, vectors=vectors.astype(np.float16), starts=starts)

    def _passages(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors [passages, hidden] float32, and the first passage of each text [texts] int64."""
        room = self.scorer.room(np.zeros(0, np.int32))
        windows = [self.windows.of(ids, room) for ids in self.scorer.encode_documents(texts, self.windows.reach(room))]
        starts = np.cumsum([0, *map(len, windows[:-1])])
        return self.scorer.vectors([window for each in windows for window in each]), starts

    def search(self, queries: Mapping[str, str], k: int, barred: Mapping[str, set[str]]) -> Iterator[ScoredQuery]:
        """(qid, docids, cosines) of the `k` nearest documents of each query, without those that are `barred` for it."""
        room = self.scorer.room(np.zeros(0, np.int32))
        vectors = self.scorer.vectors([ids[:room] for ids in self.scorer.encode_queries(list(queries.values()))])
        scores, numbers = self.nearest(vectors, k + max((len(barred.get(qid, ())) for qid in queries), default=0))
        wanted = set(numbers.ravel().tolist())
        ids = {number: docid for number, docid in enumerate(self.docs.ids()) if number in wanted}
        for row, qid in enumerate(queries):
            found = [(ids[n], score) for n, score in zip(numbers[row].tolist(), scores[row]) if n >= 0]
            kept = [(docid, score) for docid, score in found if docid not in barred.get(qid, ())][:k]
            yield qid, [docid for docid, _ in kept], np.array([score for _, score in kept], np.float32)

    def nearest(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Cosines [queries, k] float32 of the nearest documents, best first, and their numbers in file order (-1: no more)."""
        scores = np.full((len(queries), k), -np.inf, np.float32)
        numbers = np.full((len(queries), k), -1, np.int64)
        for part, path in enumerate(progress(self.parts, unit="parts", desc="search")):
            with np.load(path) as stored:
                vectors, starts = stored["vectors"].astype(np.float32), stored["starts"]
            there = np.arange(part * PART, part * PART + len(starts))
            for first in range(0, len(queries), QUERIES):
                rows = slice(first, first + QUERIES)
                found = np.maximum.reduceat(queries[rows] @ vectors.T, starts, axis=1)
                both = np.concatenate([scores[rows], found], 1)
                names = np.concatenate([numbers[rows], np.broadcast_to(there, found.shape)], 1)
                best = np.argsort(-both, axis=1, kind="stable")[:, :k]
                scores[rows], numbers[rows] = (np.take_along_axis(all_, best, 1) for all_ in (both, names))
        return scores, numbers


def vector_files(
    candidates: Candidates, *, model: str, queries: str, output: str, passages: int = PASSAGES
) -> tuple[int, int]:
    """Writes a TREC run of the nearest documents of each query by the encoder `model`. Returns the numbers of queries, documents.

    Raises InputError for bad input.
    """
    texts, barred = read_queries(queries), candidates.excluded
    docs = Documents.open(candidates.docs, candidates.fields)
    index = VectorIndex(model, docs, BiEncoderScorer.load(model), passages)
    write_run(output, index.search(texts, candidates.k or 100, barred), tag="vectors")
    return len(texts), len(docs)
