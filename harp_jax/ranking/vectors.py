"""First stage by vectors: embeds every document once and finds the nearest ones of each query exactly.

A long document is embedded in up to PASSAGES windows, and its best window counts. The vectors are cached in files of PART
documents, so that a killed command resumes. A search reads one file after another: its time grows with the collection, its
memory does not. A million passages of 384 numbers take .8 GB; beyond tens of millions use an approximate index.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import cache_directory, replacing, sha256_file
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import STAGES, Progress, progress, say, stage
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import Documents, document_files, is_irds
from harp_jax.corpus.trec import ScoredQuery, read_queries, write_run
from harp_jax.ranking.first_stage import Candidates, Retrieved, read_given
from harp_jax.ranking.scorers import BiEncoderScorer, Windows

PART, BLOCK = 1024, 64  # documents per file, and per update of the progress bar
PASSAGES = 4
QUERIES = 256  # searched together


class VectorIndex:
    """One encoder's vectors of a collection, in the user's cache, named by a hash of both. Embeds missing documents. `passages`:
    maximum windows of a document."""

    def __init__(self, model: str, docs: Documents, scorer: BiEncoderScorer, passages: int = PASSAGES) -> None:
        self.docs, self.scorer, self.windows = docs, scorer, Windows(passages)
        files = [] if is_irds(docs.path) else document_files(docs.path)  # their contents identify them, not the path
        chosen = {
            "docs": "" if files else docs.path,
            "fields": docs.fields,
            "windows": [PART, passages, scorer.max_length],
        }
        key = f"{hash64(json.dumps(chosen), *_contents(model, files)):016x}"
        self.directory = os.path.join(cache_directory("vectors"), key)
        os.makedirs(self.directory, mode=0o700, exist_ok=True)  # as private as the documents
        self.parts = [os.path.join(self.directory, f"{n:06d}.npz") for n in range(-(-len(docs) // PART))]
        for number, path in enumerate(self.parts):
            if os.path.exists(path) and not self._valid(path, min(PART, len(docs) - number * PART)):
                say(f"note: the vectors {os.path.basename(path)} are damaged and are computed again ({self.directory})")
                os.remove(path)
        if not all(map(os.path.exists, self.parts)):
            self._embed()

    def _valid(self, path: str, documents: int) -> bool:
        """Whether a part holds vectors of this encoder for so many documents."""
        try:
            vectors, starts = _stored(path)
            return (
                vectors.shape[1:] == (self.scorer.size,)
                and bool(np.isfinite(vectors).all())
                and len(starts) == documents
                and starts[0] == 0
                and bool((np.diff(np.append(starts, len(vectors))) > 0).all())
            )
        except (OSError, ValueError, KeyError, EOFError, IndexError, AttributeError, zipfile.BadZipFile, zlib.error):
            return False

    def _embed(self) -> None:
        texts = iter(self.docs.texts())
        with progress(total=len(self.docs), unit="documents", desc="embed") as bar:
            for path in self.parts:
                part = [text for _, text in islice(texts, PART)]
                if os.path.exists(path):
                    bar.skip(len(part))
                    continue
                vectors, starts = passage_vectors(self.scorer, part, self.windows, bar)
                with replacing(path, "wb") as file:
                    np.savez(file, vectors=vectors.astype(np.float16), starts=starts)

    def embedded(self, queries: Mapping[str, str]) -> np.ndarray:
        """Unit vectors [queries, size] float32 of queries, truncated to the encoder's length."""
        return self.scorer.vectors(list(map(self.scorer.as_query, self.scorer.encode_queries(list(queries.values())))))

    def search(self, queries: Mapping[str, str], k: int, barred: Mapping[str, set[str]]) -> Iterator[ScoredQuery]:
        """(qid, docids, cosines) of the `k` nearest documents of each query, except those `barred` for it."""
        more = max((len(barred.get(qid, ())) for qid in queries), default=0)
        scores, numbers = self.nearest(self.embedded(queries), k + more)
        wanted = set(numbers.ravel().tolist())
        ids = {number: docid for number, docid in enumerate(self.docs.ids()) if number in wanted}
        for row, qid in enumerate(queries):
            nearest = [(ids[n], score) for n, score in zip(numbers[row].tolist(), scores[row]) if n >= 0]
            kept = [(docid, score) for docid, score in nearest if docid not in barred.get(qid, ())][:k]
            yield qid, [docid for docid, _ in kept], np.array([score for _, score in kept], np.float32)

    def nearest(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Cosines [queries, k] float32 of the nearest documents, best first, and their numbers in file order (-1: no more)."""
        k = min(k, len(self.docs))
        scores = np.full((len(queries), k), -np.inf, np.float32)
        numbers = np.full((len(queries), k), -1, np.int64)
        for rows, first, cosines in self._cosines(queries):
            there = np.arange(first, first + cosines.shape[1])
            both = np.concatenate([scores[rows], cosines], 1)
            names = np.concatenate([numbers[rows], np.broadcast_to(there, cosines.shape)], 1)
            best = np.argsort(-both, axis=1, kind="stable")[:, :k]
            scores[rows], numbers[rows] = (np.take_along_axis(each, best, 1) for each in (both, names))
        return scores, numbers

    def rescore(self, queries: Mapping[str, str], candidates: Mapping[str, Sequence[str]]) -> Iterator[ScoredQuery]:
        """(qid, docids, cosines) of each query's `candidates`. Raises InputError for one that the collection lacks."""
        wanted = {docid for docids in candidates.values() for docid in docids}
        number = {docid: n for n, docid in enumerate(self.docs.ids()) if docid in wanted}
        if lost := wanted - number.keys():
            raise InputError(f"candidate {min(lost)} is not among the documents; correct --run or --docs")
        places = {qid: np.array([number[docid] for docid in candidates[qid]], np.int64) for qid in queries}
        scores = {qid: np.zeros(len(each), np.float32) for qid, each in places.items()}
        qids = list(queries)
        for rows, first, cosines in self._cosines(self.embedded(queries)):
            for qid, row in zip(qids[rows], cosines):
                here = (places[qid] >= first) & (places[qid] < first + len(row))
                scores[qid][here] = row[places[qid][here] - first]
        return ((qid, list(candidates[qid]), scores[qid]) for qid in qids)

    def _cosines(self, queries: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
        """(rows of queries, number of the first document, cosines [rows, documents] float32) by part."""
        for number, path in enumerate(progress(self.parts, unit="parts", desc="search")):
            vectors, starts = _stored(path)
            for first in range(0, len(queries), QUERIES):
                rows = slice(first, first + QUERIES)
                yield rows, number * PART, np.maximum.reduceat(queries[rows] @ vectors.T, starts, axis=1)


def passage_vectors(
    scorer: BiEncoderScorer, texts: Sequence[str], windows: Windows, bar: Progress | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors [passages, size] float32 of the windows of all texts, and each text's first passage [texts] int64."""
    room, vectors, counts = scorer.room(np.zeros(0, np.int32)), [], [0]
    for start in range(0, len(texts), BLOCK):
        block = list(texts[start : start + BLOCK])
        passages = [windows.of(ids, room) for ids in scorer.encode_documents(block, windows.reach(room))]
        vectors.append(scorer.vectors([scorer.as_document(window) for each in passages for window in each]))
        counts += map(len, passages)
        if bar is not None:
            bar.update(len(block))
    return np.concatenate(vectors), np.cumsum(counts[:-1])


def _contents(model: str, files: Iterable[str]) -> list[str]:
    """SHA-256 of each file in the model's directory, by name, and of the documents: a second `harp site` on the same pages, or a
    newly downloaded encoder, finds the same vectors. Hashing is far faster than embedding."""
    weights = [os.path.join(folder, name) for folder, _, names in os.walk(model) for name in names]
    named = {os.path.relpath(path, model): path for path in weights}
    return [f"{name} {sha256_file(named[name])}" for name in sorted(named)] + list(map(sha256_file, files))


def _stored(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [passages, size] float32 of a part, and each document's first passage [documents] int64."""
    with np.load(path) as stored:
        return stored["vectors"].astype(np.float32), stored["starts"]


@once
def vector_files(
    candidates: Candidates,
    *,
    model: InputPath,
    queries: InputPath,
    output: str,
    run: InputPath = "",
    passages: int = PASSAGES,
    max_length: int | None = None,
) -> Retrieved:
    """Writes a TREC run of each query's nearest documents by the encoder `model`, or re-ranks the candidates of `run` by it. A
    passage has `max_length` tokens (None: the model's default). Raises InputError for bad input."""
    texts, barred = read_queries(queries), candidates.excluded
    given = read_given(run, texts) if run else None
    with progress(total=2, unit=STAGES):
        stage("embed")
        docs = Documents.open(candidates.docs, candidates.fields)
        index = VectorIndex(model, docs, BiEncoderScorer.load(model, max_length=max_length), passages)
        stage("search")
        if given is None:
            nearest = index.search(texts, candidates.k or 100, barred)
        else:
            kept = {
                qid: [docid for docid in ranking.ranked() if docid not in barred.get(qid, ())][: candidates.k]
                for qid, ranking in given.items()
            }
            texts = {qid: texts[qid] for qid in kept}
            nearest = index.rescore(texts, kept)
        write_run(output, nearest, tag="vectors")
    return Retrieved(len(texts), len(docs))
