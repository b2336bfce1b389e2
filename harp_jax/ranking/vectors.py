"""Vectors of documents: each text is embedded once into one memory-mapped file, which is searched exactly.

    vectors.float16   unit vectors [passages, size], appended as texts are embedded
    texts.tsv         the encoder and windows that they were made with; then hash<TAB>passages for each text, in the same order
    SHA256SUMS        of both, unless a run that adds texts was killed

A document's vectors are found by the hash of its text, so a changed collection embeds only its new texts, and a killed run resumes.
A long text is embedded in up to `windows` windows, and its best one counts. A search reads the file block by block: its time grows
with the collection, its memory by about 50 bytes a document. A million passages of 384 numbers are .8 GB; beyond tens of millions
use an approximate index. `harp site` keeps both files in its output, `harp first-stage --model=vectors` in the user's cache. The
library's `Retriever` searches in memory.
"""

import contextlib
import os
import string
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Self

import jax
import numpy as np

from harp_jax.base.cli import keep_compiled
from harp_jax.base.errors import InputError, at_least, named
from harp_jax.base.files import (
    SUMS,
    cache_directory,
    full_disk_refused,
    intact,
    listed_sums,
    locked,
    sha256_file,
    write_sums,
)
from harp_jax.base.made import InputPath, digest, once
from harp_jax.base.progress import STAGES, progress, say, stage
from harp_jax.base.randomness import generator, hash64
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.text_files import checked_texts
from harp_jax.corpus.trec import ScoredQuery, ordered, read_queries, write_run
from harp_jax.model.products import fastest_dtype
from harp_jax.ranking.first_stage import Candidates, Retrieved, read_given
from harp_jax.ranking.options import PASSAGES
from harp_jax.ranking.scorers import BiEncoderScorer, Windows, sentence_encoder

VECTORS_FILE, TEXTS_FILE = "vectors.float16", "texts.tsv"
BLOCK = 256  # texts embedded together, sorted by length; a killed run loses a block
SAMPLE = 64  # texts of which the time is measured
ROWS = 1 << 16  # passages compared with one query at once
PART, QUERIES = 4096, 256  # passages and queries compared at once
RANDOM_QUERIES = 64


@dataclass(frozen=True)
class Embedded:
    """How many texts were embedded now, how many there are, and the seconds that the others take (of a sample)."""

    new: int
    texts: int
    seconds_left: float = 0.0


def made_with(encoder: str, windows: int, max_length: int | None = None) -> str:
    """Names an encoder by its content, and the windows."""
    return f"{digest(encoder).sha256} {windows}{f' {max_length}' if max_length else ''}"


def add_texts(
    docs: Documents, encoder: str, windows: int, output: str, max_length: int | None = None, sample: int = 0
) -> Embedded:
    """Embeds the texts that the folder `output` lacks, or all if it is damaged; drops those that are gone if most are. `sample`:
    only so many texts, spread over the collection, once to compile and once to measure the time."""
    os.makedirs(output, mode=0o700, exist_ok=True)  # as private as the documents
    vectors_path, texts_path = (os.path.join(output, name) for name in (VECTORS_FILE, TEXTS_FILE))
    head = made_with(encoder, windows, max_length)
    hashes = text_hashes(docs)
    first = np.sort(np.unique(hashes, return_index=True)[1])  # the first document of each text
    keys = hashes[first]
    stored, counts = read_texts(output, head)
    if np.setdiff1d(stored, keys).size > len(keys):
        stored, counts = stored[:0], counts[:0]
    elif listed_sums(output) and np.isin(keys, stored).all():
        return Embedded(0, len(keys))

    keep_compiled()
    # Cosines of backends of one dtype differ by 4e-7, less than float16 stores; of bfloat16 (JAX, MiniLM) and float32 by 3e-4.
    scorer = sentence_encoder(encoder, fastest_dtype(jax.default_backend()), max_length)
    if os.path.exists(vectors_path) and os.path.getsize(vectors_path) < counts.sum() * scorer.size * 2:  # truncated
        stored, counts = stored[:0], counts[:0]
    missing = first[~np.isin(keys, stored)]
    chosen = missing[:: max(1, len(missing) // sample)][:sample] if sample else missing
    is_chosen = np.zeros(len(hashes), bool)
    is_chosen[chosen] = True
    texts = ((int(key), text) for (_, text), key, new in zip(docs.texts(), hashes, is_chosen) if new)
    began = time.monotonic()
    with (
        progress(total=len(chosen), unit="texts", desc="embed") as bar,
        full_disk_refused(output),
        open(vectors_path, "ab") as vectors,
        open(texts_path, "a") as written,
    ):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(output, SUMS))
        # What a killed run wrote in part, or with another encoder.
        vectors.truncate(int(counts.sum()) * scorer.size * 2)
        rows = sum(len(f"{'':16}\t{n}\n") * times for n, times in zip(*np.unique(counts, return_counts=True)))
        written.truncate(len(head) + 1 + int(rows) if len(stored) else 0)
        if not len(stored):
            written.write(f"{head}\n")
        while block := list(islice(texts, BLOCK)):
            if sample:
                passage_vectors(scorer, [text for _, text in block], Windows(windows))
                began = time.monotonic()
            passages, numbers = passage_vectors(scorer, [text for _, text in block], Windows(windows))
            vectors.write(passages.astype(np.float16).tobytes())
            vectors.flush()
            written.write("".join(f"{key:016x}\t{count}\n" for (key, _), count in zip(block, numbers)))
            written.flush()
            bar.update(len(block))
    write_sums(output, (VECTORS_FILE, TEXTS_FILE))
    seconds = (time.monotonic() - began) / max(1, len(chosen)) * (len(missing) - len(chosen))
    return Embedded(len(chosen), len(keys), round(seconds, 1) if sample else 0.0)


def passage_vectors(scorer: BiEncoderScorer, texts: Sequence[str], windows: Windows) -> tuple[np.ndarray, list[int]]:
    """Unit vectors [passages, size] float32 of the windows of all texts, and the number of each text's passages. InputError
    for vectors that are not finite."""
    room = scorer.room(np.zeros(0, np.int32))
    passages = [windows.of(ids, room) for ids in scorer.encode_documents(list(texts), windows.reach(room))]
    vectors = scorer.vectors([scorer.as_document(window) for each in passages for window in each])
    if not np.isfinite(vectors).all():
        wrong = "the encoder gives vectors that are not finite numbers: its weights are damaged"
        raise InputError(f"{wrong}; restore or train it again")
    return vectors, [*map(len, passages)]


def query_vectors(scorer: BiEncoderScorer, queries: Sequence[str]) -> np.ndarray:
    """Unit vectors [queries, size] float32, truncated to the encoder's length."""
    return scorer.vectors([scorer.as_query(ids) for ids in scorer.encode_queries(list(queries))])


def text_hashes(docs: Documents) -> np.ndarray:
    """The hash of each document's text [documents] uint64."""
    return np.fromiter((hash64(text) for _, text in docs.texts()), np.uint64)


def read_texts(folder: str, wanted: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Hashes [texts] uint64 of the stored texts and their numbers of passages [texts] int64, in order; none if they were not made
    with the `wanted` encoder and windows, or were changed since."""
    path, keys, counts = os.path.join(folder, TEXTS_FILE), array("Q"), array("q")
    if damaged := bool(listed_sums(folder)) and not intact(folder):
        say(f"note: the vectors in {folder} are damaged and have to be computed again")
    if damaged or not os.path.exists(path):
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    with open(path) as file:
        head = file.readline()
        for row in file if not wanted or head == f"{wanted}\n" else ():
            if not row.endswith("\n"):  # the last row of a killed run
                break
            key, _, count = row.rstrip("\n").partition("\t")
            if len(key) != 16 or not count.isdecimal():
                raise InputError(f"{path} is damaged ({row[:40]!r}); remove {folder} and embed again")
            keys.append(int(key, 16))
            counts.append(int(count))
    return np.array(keys, np.uint64), np.array(counts, np.int64)


class PassageVectors:
    """The vectors in `directory`, for documents whose texts have these `hashes`, in order, and the encoder that embeds queries.

    Raises InputError if a document has no vector of this encoder.
    """

    def __init__(
        self,
        directory: str,
        encoder: str,
        windows: int,
        hashes: Sequence[int] | np.ndarray,
        max_length: int | None = None,
    ) -> None:
        self.encoder = sentence_encoder(encoder, "float32", max_length)
        self.windows = Windows(windows)
        stored, counts = read_texts(directory, made_with(encoder, windows, max_length))
        self._starts = np.append(0, np.cumsum(counts))
        hashes, by_hash = np.asarray(hashes, np.uint64), np.argsort(stored)
        at = np.minimum(np.searchsorted(stored, hashes, sorter=by_hash), max(len(stored) - 1, 0))
        self._text_of = by_hash[at] if len(stored) else np.zeros(0, np.int64)
        path = os.path.join(directory, VECTORS_FILE)
        lacking = len(hashes) and not np.array_equal(stored[self._text_of], hashes)
        if lacking or os.path.getsize(path) < self._starts[-1] * self.encoder.size * 2:
            raise InputError(f"{directory} lacks the vectors of some documents by {encoder}; run harp site again")
        self._vectors = np.memmap(path, np.float16, "r", shape=(int(self._starts[-1]), self.encoder.size))

    def counts(self) -> np.ndarray:
        """The number of passages of each document [documents] int64."""
        return np.diff(self._starts)[self._text_of]

    def of(self, number: int) -> np.ndarray:
        """The vectors [passages, size] float16 of the document with this number."""
        text = self._text_of[number]
        return self._vectors[self._starts[text] : self._starts[text + 1]]

    def cosines(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        """Cosines [documents] float32 of a query, and the indices [documents] int64 of their best windows."""
        (asked,) = query_vectors(self.encoder, [query])
        count = len(self._starts) - 1
        best, window = np.empty(count, np.float32), np.empty(count, np.int64)
        for texts, passages, starts in self._blocks(ROWS):
            each = passages @ asked
            best[texts] = np.maximum.reduceat(each, starts)
            counts = np.diff([*starts, len(each)])
            number = np.arange(len(each)) - np.repeat(starts, counts)
            is_best = each == np.repeat(best[texts], counts)
            window[texts] = np.minimum.reduceat(np.where(is_best, number, len(each)), starts)
        return best[self._text_of], window[self._text_of]

    def nearest(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Cosines [queries, k] float32 of the nearest documents to vectors [queries, size], best first, and their numbers."""
        k = min(k, len(self._text_of))
        scores, numbers = np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64)
        order = np.argsort(self._text_of, kind="stable")  # several documents may have one text
        in_order = self._text_of[order]
        for rows, texts, of_texts in self._cosines(queries):
            documents = order[slice(*np.searchsorted(in_order, [texts.start, texts.stop]))]
            cosines = of_texts[:, self._text_of[documents] - texts.start]
            both = np.concatenate([scores[rows], cosines], 1)
            names = np.concatenate([numbers[rows], np.broadcast_to(documents, cosines.shape)], 1)
            best = np.argsort(-both, axis=1, kind="stable")[:, :k]
            scores[rows], numbers[rows] = (np.take_along_axis(each, best, 1) for each in (both, names))
        return scores, numbers

    def rescored(self, queries: np.ndarray, candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each of the vectors [queries, size] the cosines [n] float32 with the documents of these numbers [n]."""
        scores = [np.zeros(len(numbers), np.float32) for numbers in candidates]
        wanted = [self._text_of[numbers] for numbers in candidates]
        for rows, texts, cosines in self._cosines(queries):
            for query, row in enumerate(cosines, rows.start):
                here = (wanted[query] >= texts.start) & (wanted[query] < texts.stop)
                scores[query][here] = row[wanted[query][here] - texts.start]
        return scores

    @cached_property
    def noise(self) -> float:
        """The cosine with the nearest passage that 95 % of queries of random letters stay below."""
        rng = generator("queries without meaning")
        letters = [*string.ascii_lowercase]
        queries = [
            " ".join("".join(rng.choice(letters, rng.integers(4, 11))) for _ in range(rng.integers(1, 4)))
            for _ in range(RANDOM_QUERIES)
        ]
        asked = query_vectors(self.encoder, queries).T
        nearest = np.max([(passages @ asked).max(axis=0) for _, passages, _ in self._blocks(ROWS)], axis=0)
        return float(np.quantile(nearest, 0.95))

    def _blocks(self, rows: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(texts, their passages [passages, size] float32, each text's first passage [texts]), about `rows` passages at once."""
        first = 0
        while first < len(self._starts) - 1:
            last = max(first + 1, int(np.searchsorted(self._starts, self._starts[first] + rows, "right")) - 1)
            start, end = self._starts[first], self._starts[last]
            yield slice(first, last), self._vectors[start:end].astype(np.float32), self._starts[first:last] - start
            first = last

    def _cosines(self, queries: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """(queries, texts, their cosines [queries, texts] float32) block by block."""
        for texts, passages, starts in self._blocks(PART):
            for first in range(0, len(queries), QUERIES):
                rows = slice(first, first + QUERIES)
                yield rows, texts, np.maximum.reduceat(queries[rows] @ passages.T, starts, axis=1)


def cached_vectors(docs: Documents, encoder: str, passages: int, max_length: int | None) -> PassageVectors:
    """The vectors of a collection in the user's cache, named by the contents of both and the dtype that they are computed in.
    Embeds what is missing or damaged."""
    # The contents of files identify them, not the path: an encoder may be downloaded again. A dataset has no files.
    contents = [*map(sha256_file, docs.files)] or [docs.path]
    how = made_with(encoder, passages, max_length), fastest_dtype(jax.default_backend())
    key = hash64(*how, *docs.fields, *contents)
    folder = os.path.join(cache_directory("vectors"), f"{key:016x}")
    with locked(os.path.join(folder, ".lock"), f"another process embeds the same documents in {folder}; wait for it"):
        if not intact(folder):  # `add_texts` would read all documents
            add_texts(docs, encoder, passages, folder, max_length)
    return PassageVectors(folder, encoder, passages, text_hashes(docs), max_length)


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
    run_candidates = read_given(run, texts) if run else None
    with progress(total=2, unit=STAGES):
        stage("embed")
        docs = Documents.open(candidates.docs, candidates.fields)
        vectors = cached_vectors(docs, model, passages, max_length)
        stage("search")
        if run_candidates is None:
            ranked = nearest_documents(vectors, docs, texts, candidates.k or 100, barred)
        else:
            allowed = {
                qid: [docid for docid in ranking.ranked() if docid not in barred.get(qid, ())][: candidates.k]
                for qid, ranking in run_candidates.items()
            }
            wanted = {docid for docids in allowed.values() for docid in docids}
            number = {docid: n for n, docid in enumerate(docs.ids()) if docid in wanted}
            if lost := wanted - number.keys():
                raise InputError(f"candidate {min(lost)} is not among the documents; correct --run or --docs")
            texts = {qid: texts[qid] for qid in allowed}
            numbers = [np.array([number[docid] for docid in docids], np.int64) for docids in allowed.values()]
            scores = vectors.rescored(query_vectors(vectors.encoder, [*texts.values()]), numbers)
            ranked = ((qid, docids, each) for (qid, docids), each in zip(allowed.items(), scores))
        write_run(output, ranked, tag="vectors")
    return Retrieved(len(texts), len(docs))


def nearest_documents(
    vectors: PassageVectors, docs: Documents, queries: Mapping[str, str], k: int, barred: Mapping[str, set[str]]
) -> Iterator[ScoredQuery]:
    """(qid, docids, cosines) of the `k` nearest documents of each query, except those `barred` for it."""
    more = max((len(barred.get(qid, ())) for qid in queries), default=0)
    scores, numbers = vectors.nearest(query_vectors(vectors.encoder, [*queries.values()]), k + more)
    wanted = set(numbers.ravel().tolist())
    ids = {number: docid for number, docid in enumerate(docs.ids()) if number in wanted}
    for row, qid in enumerate(queries):
        nearest = [(ids[n], score) for n, score in zip(numbers[row].tolist(), scores[row])]
        allowed = [(docid, score) for docid, score in nearest if docid not in barred.get(qid, ())][:k]
        yield qid, [docid for docid, _ in allowed], np.array([score for _, score in allowed], np.float32)


class Retriever:
    """A sentence encoder: one trained on links (`harp train --config=retriever`), or any that sentence-transformers loads.

    Vectors and cosines equal those of `SentenceTransformer.encode_query` and `.encode_document`; torch is not needed.

    >>> import harp_jax as hj
    >>> model = hj.Retriever.from_pretrained("sentence-encoder")
    >>> model.encode(["a red cat", "a blue dog"]).shape
    (2, 32)
    >>> model.search({"q1": "cats"}, {"d1": "a red cat", "d2": "a blue dog"}, k=1)
    {'q1': {...}}
    """

    def __init__(self, scorer: BiEncoderScorer) -> None:
        self.scorer = scorer

    @classmethod
    def from_pretrained(
        cls,
        directory: str | os.PathLike[str],
        dtype: str = "float32",
        max_length: int | None = None,
        batch_tokens: int | None = None,
        backend: str = "jax",
    ) -> Self:
        """Loads an export or another sentence-transformers directory, or a training workdir.

        Pooling, prompts and `max_length` (tokens of a text) are those that it records; without, the mean of hidden states. `dtype`:
        float32 or bfloat16. `backend`: jax, openvino, onnx, or auto, the fastest installed. Raises InputError if there is no
        encoder to load.
        """
        at_least(1, max_length=max_length, batch_tokens=batch_tokens)
        return cls(sentence_encoder(named(directory), dtype, max_length, batch_tokens, backend))

    def encode(self, texts: Iterable[str], as_queries: bool = False) -> np.ndarray:
        """Unit vectors [texts, size] float32 of the first `max_length` tokens, with the prompt of documents or of queries."""
        texts = checked_texts("texts", texts)
        return query_vectors(self.scorer, texts) if as_queries else passage_vectors(self.scorer, texts, Windows(1))[0]

    def search(
        self,
        queries: Mapping[str, str],
        docs: Mapping[str, str] | Documents,
        k: int | None = 10,
        passages: int = PASSAGES,
    ) -> dict[str, dict[str, float]]:
        """{qid: {docid: cosine}} of the `k` nearest documents, best first (None: of all). A document counts by the best of its
        first `passages`.

        Embeds all documents: for many searches keep the vectors (`encode`), or use `harp first-stage --model=vectors`.
        """
        at_least(1, k=k)
        docs = dict(docs.texts()) if isinstance(docs, Documents) else docs
        for what, given in (("queries", queries), ("docs", docs)):
            if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
                raise InputError(f"{what}: use {{id: text}}, both strings")
        if not docs:
            raise InputError("no documents to search")
        docids, texts = [*docs], checked_texts("docs", docs.values())
        blocks = [texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK)]
        vectors, counts = zip(*(passage_vectors(self.scorer, block, Windows(passages)) for block in blocks))
        starts = np.cumsum([0, *chain(*counts)])[:-1]
        asked = self.encode(queries.values(), as_queries=True)
        cosines = np.maximum.reduceat(asked @ np.concatenate(vectors).T, starts, axis=1)
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        runs = ordered(
            (qid, [docids[i] for i in best], scores[best]) for qid, best, scores in zip(queries, nearest, cosines)
        )
        return {qid: {run.docids[i]: float(run.scores[i]) for i in run.order()} for qid, run in runs}
