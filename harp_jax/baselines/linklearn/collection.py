"""Word counts of documents, a sparse matrix [documents, words] int32, their index, and the ranking of a collection with it.

In memory: 8 bytes per (document, word) pair for the counts, 12 for the index.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import progress
from harp_jax.baselines.linklearn.model import Weighting, load
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import read_queries, write_run
from harp_jax.ranking.first_stage import candidates, excluded_of
from harp_jax.ranking.lexical import Field, InvertedIndex, Word
from harp_jax.text.languages import ENGLISH

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def count(collection: InvertedIndex) -> "csr_array":
    """The counts of a tokenised collection, without the empty word of empty documents."""
    vocabulary = max(collection.vocabulary.values()) + 1
    counts = Field.of(collection.tokens, vocabulary).counts.tocsr()  # not `collection.text`, which would stay in memory
    counts.data[counts.indices == collection.vocabulary.get("", -1)] = 0
    counts.eliminate_zeros()
    return counts


def words_of(counts: "csr_array", d: int) -> tuple[np.ndarray, np.ndarray]:
    """(words, their counts) of one document."""
    row = slice(counts.indptr[d], counts.indptr[d + 1])
    return counts.indices[row], counts.data[row]


def lengths_of(counts: "csr_array") -> np.ndarray:
    """Words of each document [documents] int64."""
    return np.asarray(counts.sum(axis=1, dtype=np.int64)).ravel()


def idf(counts: "csr_array") -> np.ndarray:
    """log(N / df) [V] float32; 0 for words that occur in no document."""
    df = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.where(df > 0, np.log(counts.shape[0] / np.maximum(df, 1)), 0.0).astype(np.float32)


class Index:
    """Weighted postings by word, a `lexical.Model`.

    `documents` are the rows to rank (default: all); idf and lengths are computed on them.
    """

    def __init__(self, counts: "csr_array", documents: np.ndarray | None = None) -> None:
        self.rows = np.arange(counts.shape[0]) if documents is None else documents
        chosen = counts if documents is None else counts[documents]
        self.idf, self.lengths = idf(chosen), lengths_of(chosen)
        self._counts = chosen.tocsc()

    def weigh(self, weighting: Weighting) -> "Index":
        """Sets the weights of all postings; returns the index."""
        self.weighting, tf = weighting, self._counts
        terms = np.repeat(np.arange(tf.shape[1]), np.diff(tf.indptr))
        weights = weighting.documents(tf.data, terms, tf.indices, self.idf, self.lengths)
        self._weights = type(tf)((weights.astype(np.float32), tf.indices, tf.indptr), tf.shape)
        return self

    def similarities(self, terms: np.ndarray, tf: np.ndarray) -> np.ndarray:
        """Similarity [documents] float32 of a text, given by its words, to every document."""
        weights = self.weighting.query(tf, self.idf[terms], int(tf.sum())).astype(np.float32)
        return self._weights[:, terms] @ weights

    def scores(self, query: Sequence[Word]) -> tuple[np.ndarray, np.ndarray]:
        """As `lexical.Model`, but stems that it counts as one word are separate words; leaves out documents of score 0 or less."""
        terms, tf = np.unique(np.hstack(query).astype(np.int64), return_counts=True)
        scores = self.similarities(terms, tf)
        return scores, scores > 0


@dataclass(frozen=True)
class Ranked:
    """The number of queries, and of those that match a document."""

    queries: int
    matched: int


@once
def rank_linklearn(
    model: InputPath,
    docs: InputPath,
    queries: InputPath,
    output: str,
    fields: tuple[str, ...] = FIELDS,
    language: str = ENGLISH,
    exclude: InputPath = "",
    k: int = 1000,
    okapi: bool = False,
) -> Ranked:
    """Writes a TREC run of the best `k` documents of each query, without the pairs of the file `exclude`.

    `model` is a workdir of `train.train`. Raises InputError for bad input.
    """
    name = "okapi" if okapi else "linklearn"
    weighting = load(model, okapi)  # a missing model is reported before the documents are read
    texts, excluded = read_queries(queries), excluded_of(exclude)
    documents = Documents.open(docs, fields)
    reading = progress(documents.texts(), total=len(documents), unit="documents", desc="index")
    collection = InvertedIndex(reading, language)
    index = Index(count(collection)).weigh(weighting)
    bar = progress(texts.items(), total=len(texts), unit="queries", desc=name)
    ranked = [(qid, *candidates(index, collection, query, k, excluded.get(qid, set()))) for qid, query in bar]
    write_run(output, ranked, tag=name)
    if unmatched := [qid for qid, docids, _ in ranked if not docids]:
        print(f"note: {len(unmatched)} of {len(texts)} queries match no document: {unmatched[:5]}", file=sys.stderr)
    return Ranked(len(texts), len(texts) - len(unmatched))
