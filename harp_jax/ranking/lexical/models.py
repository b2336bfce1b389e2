"""Lexical ranking over a collection in memory: BM25 (bm25s), BM25F with a field of anchor texts, and query likelihood.

A `Collection` is tokenised once; the models are made from it, so that tuning their parameters never reads the documents
again. It holds 4 bytes a token and about 100 a document; each model holds 8 more bytes a posting (22 M words: 1 GB in all).
"""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from harp_jax.errors import InputError, needs
from harp_jax.text.stems import stemmer_of

if TYPE_CHECKING:
    from scipy import sparse

    Counts: TypeAlias = tuple[
        sparse.csr_array, np.ndarray
    ]  # occurrences [documents, words] int32, words [documents] int64

MODELS = {  # and the defaults of their parameters
    "bm25": {"k1": 0.9, "b": 0.4},
    "bm25f": {"k1": 0.9, "b": 0.4, "anchor_weight": 1.0, "anchor_b": 0.4},
    "ql": {"mu": 1000.0},
}


class Collection:
    """(docid, text) pairs as stems: lower-cased words of two characters and more, without English stopwords.

    `stemmer` is the name of a Snowball stemmer, or "" for none. `anchors` (docid → anchor texts) are a field of their own, read
    by BM25F. Raises InputError for a collection without documents.
    """

    def __init__(
        self, texts: Iterable[tuple[str, str]], stemmer: str = "english", anchors: Mapping[str, str] | None = None
    ) -> None:
        with needs("lexical ranking", "bm25s", "bm25"):
            from bm25s.tokenization import Tokenizer

        self.docids: list[str] = []
        self._tokenizer = Tokenizer(stemmer=stemmer_of(stemmer), stopwords="english")
        # A document without words gets the empty word, as bm25s requires.
        stems = self._tokenizer.streaming_tokenize(self._noting_ids(texts))
        self.tokens = [array("i", ids) for ids in stems]  # half the memory of lists
        if not self.tokens:
            raise InputError("the collection holds no documents; check --docs")
        self.anchors: list[array] | None = None
        if anchors is not None:
            field = (anchors.get(docid, "") for docid in self.docids)
            found = self._tokenizer.streaming_tokenize(field, allow_empty=False)
            self.anchors = [array("i", ids) for ids in found]
        self.vocabulary: dict[str, int] = self._tokenizer.get_vocab_dict()
        self._numbers: dict[str, int] = {}

    def _noting_ids(self, texts: Iterable[tuple[str, str]]) -> Iterator[str]:
        for docid, text in texts:
            self.docids.append(docid)
            yield text

    def __len__(self) -> int:
        return len(self.docids)

    @cached_property
    def text_counts(self) -> "Counts":
        """Of the texts; computed on first use."""
        return self._counts(self.tokens)

    @cached_property
    def anchor_counts(self) -> "Counts":
        """Of the anchor texts. Raises InputError for a collection without them."""
        if self.anchors is None:
            raise InputError("bm25f ranks by text and anchor texts; set --anchors to their file (`harp anchors`)")
        return self._counts(self.anchors)

    def _counts(self, tokens: list[array]) -> "Counts":
        from scipy import sparse

        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        words = np.empty(starts[-1], np.int32)
        for number, ids in enumerate(tokens):
            words[starts[number] : starts[number + 1]] = ids
        ones = np.ones(len(words), np.int32)
        counts = sparse.csr_array((ones, words, starts), (len(tokens), max(self.vocabulary.values()) + 1))
        counts.sum_duplicates()
        return counts, lengths

    def query(self, text: str) -> list[int]:
        """The stems of a query that the collection knows, repetitions included."""
        # update_vocab=False still finds a known stem behind an unknown word; "never" would drop the word.
        return next(iter(self._tokenizer.streaming_tokenize([text], update_vocab=False, allow_empty=False)))

    def numbers(self, docids: list[str]) -> np.ndarray:
        """Positions [n] of documents in the collection; KeyError for one that is absent."""
        if not self._numbers:
            self._numbers = {docid: i for i, docid in enumerate(self.docids)}
        return np.array([self._numbers[docid] for docid in docids], np.int64)


class Model(Protocol):
    """A lexical model of a collection."""

    def scores(self, query: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Scores [documents] float, all finite, and which documents share a word with the query [documents] bool."""


class Bm25:
    """BM25 in Lucene's variant."""

    def __init__(self, collection: Collection, k1: float = 0.9, b: float = 0.4) -> None:
        import bm25s

        self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
        self._index.index((collection.tokens, collection.vocabulary), show_progress=False)

    def scores(self, query: list[int]) -> tuple[np.ndarray, np.ndarray]:
        scores = self._index.get_scores_from_ids(query)
        return scores, scores > 0


class Bm25f:
    """BM25 over the fields text and anchors (Robertson, Zaragoza and Taylor, 2004), with Lucene's idf as in `Bm25`:

    Σ_w idf(w) · t / (k1 + t), t = c(w, text) / n(text) + anchor_weight · c(w, anchors) / n(anchors),
    n(field) = 1 - b + b · length / mean length of the field over all documents

    idf counts the documents with the word in either field. Raises InputError for a collection without anchors.
    """

    def __init__(
        self, collection: Collection, k1: float = 0.9, b: float = 0.4, anchor_weight: float = 1.0, anchor_b: float = 0.4
    ) -> None:
        anchors = normalised(collection.anchor_counts, anchor_b)
        # Postings of a word lie together. Words only in anchor texts stay in the sum at weight 0, for idf.
        self._frequencies = (normalised(collection.text_counts, b) + anchor_weight * anchors).tocsc()
        documents = np.diff(self._frequencies.indptr)
        self._idf = np.log(1 + (len(collection) - documents + 0.5) / (documents + 0.5))
        self._k1, self._documents = k1, len(collection)

    def scores(self, query: list[int]) -> tuple[np.ndarray, np.ndarray]:
        scores = np.zeros(self._documents)
        words, repetitions = np.unique(np.asarray(query, np.int64), return_counts=True)
        for word, times in zip(words, repetitions):
            start, end = self._frequencies.indptr[word], self._frequencies.indptr[word + 1]
            found = self._frequencies.data[start:end]
            # With k1 = 0, 0 / 0 for a word that occurs only in a field of weight 0.
            gain = np.divide(found, self._k1 + found, out=np.zeros_like(found), where=found > 0)
            scores[self._frequencies.indices[start:end]] += times * self._idf[word] * gain
        return scores, scores > 0


def normalised(counts: "Counts", b: float) -> "sparse.csr_array":
    """Frequencies [documents, words] float64, divided by 1 - b + b · length / mean length of the field."""
    from scipy import sparse

    frequencies, lengths = counts
    norm = 1 - b + b * lengths / max(lengths.mean(), 1e-9)
    # An empty field has norm 0 where b is 1, and no frequency to divide.
    return sparse.diags_array(1 / np.where(norm > 0, norm, 1.0)) @ frequencies


class QueryLikelihood:
    """log p(q|d) of a unigram model smoothed with Dirichlet's prior, without the terms that are equal for all documents:

    Σ_w c(w,q)·log(1 + c(w,d)/(μ·p(w|C))) + |q|·log(μ/(|d|+μ)) (Zhai and Lafferty, 2001). |q| counts the query's words
    that the collection knows.
    """

    def __init__(self, collection: Collection, mu: float = 1000.0) -> None:
        counts, lengths = collection.text_counts
        self._counts = counts.tocsc()  # postings of a word lie together
        in_collection = np.asarray(self._counts.sum(axis=0), np.float64).ravel()
        nothing = collection.vocabulary.get("", -1)
        if nothing >= 0:
            lengths = lengths - self._counts[:, [nothing]].toarray().ravel()
            in_collection[nothing] = 0.0
        self._probability = in_collection / max(in_collection.sum(), 1.0)
        self._penalty = np.log(mu / (lengths + mu))
        self._mu = mu

    def scores(self, query: list[int]) -> tuple[np.ndarray, np.ndarray]:
        gain = np.zeros(len(self._penalty))
        words, repetitions = np.unique(np.asarray(query, np.int64), return_counts=True)
        for word, times in zip(words, repetitions):
            start, end = self._counts.indptr[word], self._counts.indptr[word + 1]
            found = self._counts.data[start:end] / (self._mu * self._probability[word])
            gain[self._counts.indices[start:end]] += times * np.log1p(found)
        return gain + len(query) * self._penalty, gain > 0


def make(name: str, collection: Collection, parameters: Mapping[str, float]) -> Model:
    """The model `name` of MODELS. Raises InputError for parameters that it does not have or that are out of range."""
    if name not in MODELS:
        raise InputError(f"unknown first stage {name!r}; choose from {', '.join(MODELS)}")
    given = {**MODELS[name], **parameters}
    unknown = sorted(given.keys() - MODELS[name].keys())
    if unknown:
        raise InputError(f"{name} has no parameter {unknown[0]!r}; its parameters are {', '.join(MODELS[name])}")
    for field, value in given.items():
        lowest = 0.0 if field != "mu" else 1e-9
        if not lowest <= value < math.inf or (field in ("b", "anchor_b") and value > 1):
            raise InputError(f"{field}={value}: use k1 ≥ 0, b and anchor_b in 0…1, anchor_weight ≥ 0, mu > 0")
    found: dict[str, Callable[..., Model]] = {"bm25": Bm25, "bm25f": Bm25f, "ql": QueryLikelihood}
    return found[name](collection, **given)


def search(model: Model, collection: Collection, query: str, k: int) -> tuple[list[str], np.ndarray]:
    """The best `k` of the documents that share a word with the query, and their scores; ties in the collection's order."""
    ids = collection.query(query)
    if not ids:
        return [], np.zeros(0)
    scores, matched = model.scores(ids)
    best = top(np.where(matched, scores, -np.inf), k)
    return [collection.docids[i] for i in best], scores[best]


def rescore(model: Model, collection: Collection, query: str, docids: list[str]) -> np.ndarray:
    """Scores [n] of the given documents, whether or not they share a word with the query."""
    ids = collection.query(query)
    if not ids:
        return np.zeros(len(docids))
    return model.scores(ids)[0][collection.numbers(docids)]


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """Indices of the `k` largest scores [n] above -inf, largest first, ties by index."""
    there = np.flatnonzero(scores > -np.inf)
    if len(there) > k:
        threshold = np.partition(scores[there], len(there) - k)[len(there) - k]
        above, level = there[scores[there] > threshold], there[scores[there] == threshold]
        there = np.sort(np.concatenate([above, level[: k - len(above)]]))
    return there[np.argsort(-scores[there], kind="stable")]
