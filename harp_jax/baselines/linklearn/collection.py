"""Word counts and the index of a collection, shared by Okapi, LinkLearn and the constraints.

In memory: 8 bytes per (document, word) pair for the counts, 12 for the index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from harp_jax.ranking.lexical import Field, InvertedIndex, Word


@dataclass(frozen=True)
class Counts:
    """Words of documents, row by row: document d has terms[starts[d]:starts[d+1]] (ascending int32) with their counts tf."""

    starts: np.ndarray  # [documents + 1] int64
    terms: np.ndarray  # [postings] int32
    tf: np.ndarray  # [postings] int32
    vocabulary: int  # words are 0 … vocabulary - 1

    @property
    def documents(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Words of each document [documents] int64."""
        total = np.concatenate([[0], np.cumsum(self.tf, dtype=np.int64)])
        return total[self.starts[1:]] - total[self.starts[:-1]]

    def rows(self, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(index of each posting of the documents, index of its document in `documents`), both int64, in order."""
        first, sizes = self.starts[documents], np.diff(self.starts)[documents]
        owner = np.repeat(np.arange(len(documents)), sizes)
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return first[owner] + within, owner

    def of(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        """(terms, tf) of one document."""
        row = slice(self.starts[d], self.starts[d + 1])
        return self.terms[row], self.tf[row]


def idf(counts: Counts, documents: np.ndarray) -> np.ndarray:
    """log(N / df) [V] float32 over the given documents; 0 for words that occur in none."""
    places, _ = counts.rows(documents)
    df = np.bincount(counts.terms[places], minlength=counts.vocabulary)
    return np.where(df > 0, np.log(len(documents) / np.maximum(df, 1)), 0.0).astype(np.float32)


def count(collection: InvertedIndex) -> Counts:
    """The counts of a tokenised collection, without the empty word of empty documents."""
    vocabulary = max(collection.vocabulary.values()) + 1
    matrix = Field.of(collection.tokens, vocabulary).counts.tocsr()  # not `collection.text`, which would stay in memory
    matrix.data[matrix.indices == collection.vocabulary.get("", -1)] = 0
    matrix.eliminate_zeros()
    return Counts(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data, vocabulary)


class Weighting(Protocol):
    """A model that weighs words; the similarity of two texts is the dot product of their weights."""

    def query(self, tf: np.ndarray, idf: np.ndarray, length: int) -> np.ndarray:
        """Weights [terms] of a query's words."""

    def documents(
        self, tf: np.ndarray, terms: np.ndarray, owner: np.ndarray, idf: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """Weights [postings]: posting p is tf[p] times word terms[p] in text owner[p]; idf [V], lengths [texts]."""


class Index:
    """Weighted postings by word, a `lexical.Model`.

    `documents` are the rows to rank (default: all); idf and lengths are computed on them.
    """

    def __init__(self, counts: Counts, documents: np.ndarray | None = None) -> None:
        self.counts = counts
        self.rows = np.arange(counts.documents) if documents is None else documents
        self.idf = idf(counts, self.rows)
        self.lengths = counts.lengths[self.rows]
        places, owner = counts.rows(self.rows)
        # Sorted by word, then by document.
        order = np.argsort(counts.terms[places], kind="stable")
        self._terms, self._tf = counts.terms[places][order], counts.tf[places][order]
        self._owner = owner[order].astype(np.int32)
        self._starts = np.searchsorted(self._terms, np.arange(counts.vocabulary + 1))

    def weigh(self, weighting: Weighting) -> "Index":
        """Sets the weights of all postings; returns the index."""
        self.weighting = weighting
        weights = weighting.documents(self._tf, self._terms, self._owner, self.idf, self.lengths)
        self._weights = weights.astype(np.float32)
        return self

    def similarities(self, terms: np.ndarray, tf: np.ndarray) -> np.ndarray:
        """Similarity [documents] float32 of a text, given by its words, to every document."""
        scores = np.zeros(len(self.rows), np.float32)
        weights = self.weighting.query(tf, self.idf[terms], int(tf.sum())).astype(np.float32)
        for term, weight in zip(terms, weights):
            part = slice(self._starts[term], self._starts[term + 1])
            # A word's documents are distinct, so indexed addition is correct.
            scores[self._owner[part]] += weight * self._weights[part]
        return scores

    def scores(self, query: Sequence[Word]) -> tuple[np.ndarray, np.ndarray]:
        """As `lexical.Model`, but stems that it counts as one word are separate words; leaves out documents of score 0 or less."""
        terms, tf = np.unique(np.hstack(query).astype(np.int64), return_counts=True)
        scores = self.similarities(terms, tf)
        return scores, scores > 0
