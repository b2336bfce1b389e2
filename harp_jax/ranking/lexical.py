"""Lexical ranking over a collection in memory: BM25, BM25F with a field of anchor texts, and query likelihood.

An `InvertedIndex` is tokenised and sorted into postings once. Models score postings at query time, so another parameter value
only costs scoring the queries again; bm25s precomputes all scores for one value. Memory: 4 bytes per token, 8 per posting and
about 100 per document. What does not fit is left to Lucene (Anserini, Pyserini), whose runs every command reads.
"""

import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.text.languages import ENGLISH, lexical_stopwords, lone_letters, splitter, stemmer

if TYPE_CHECKING:
    from scipy import sparse

MODELS = {  # default parameters
    "bm25": {"k1": 0.9, "b": 0.4},
    "bm25f": {"k1": 0.9, "b": 0.4, "anchor_weight": 1.0, "anchor_b": 0.4},
    "ql": {"mu": 1000.0},
}
Anchors = Mapping[str, Mapping[str, int]]  # docid → anchor text → number of links that carry it
Word = int | tuple[int, ...]  # in a query: a stem, or several stems counted as one


@dataclass(frozen=True)
class Field:
    """A field of all documents: word counts [documents, words] integer, stored by word, and lengths [documents] int64."""

    counts: "sparse.csc_array"
    lengths: np.ndarray

    @classmethod
    def of(cls, tokens: list[array], words: int, times: list[array] | None = None) -> "Field":
        """Builds a field from each document's word ids, all below `words`; `times`: how often each counts (default: once)."""
        from scipy import sparse

        sizes = np.fromiter(map(len, tokens), np.int64, len(tokens))
        starts, ids = np.append(0, np.cumsum(sizes)), np.concatenate(tokens)
        number_of = np.concatenate(times) if times else np.ones(len(ids), np.int32)
        counts = sparse.csr_array((number_of, ids, starts), (len(tokens), words))
        counts.sum_duplicates()
        return cls(counts.tocsc(), np.asarray(counts.sum(axis=1)) if times else sizes)

    def postings(self, word: Word) -> tuple[np.ndarray, np.ndarray]:
        """Documents with the word, ascending [n] int32, and its count in each [n] int32."""
        if isinstance(word, tuple):
            counts = np.asarray(self.counts[:, list(word)].sum(axis=1)).ravel()
            return (documents := np.flatnonzero(counts)), counts[documents]
        start, end = self.counts.indptr[word], self.counts.indptr[word + 1]
        return self.counts.indices[start:end], self.counts.data[start:end]

    def norms(self, b: float) -> np.ndarray:
        """1 - b + b · length / mean length [documents] float64."""
        return 1 - b + b * self.lengths / max(self.lengths.mean(), 1e-9)


class InvertedIndex:
    """(docid, text) pairs as stems: lower-cased words of at least two characters, without stopwords (text/languages.py). `language`
    is a tag such as "de", or "" for whole words and no stopwords. `anchors` are a separate field for BM25F, in which an anchor text
    counts once for every link that carries it. Raises InputError for an empty collection."""

    def __init__(
        self, texts: Iterable[tuple[str, str]], language: str = ENGLISH, anchors: Anchors | None = None
    ) -> None:
        with needs("lexical ranking", "bm25s", "bm25"):
            from bm25s.tokenization import Tokenizer

        self.docids: list[str] = []
        left_out = lexical_stopwords(language)
        self._tokenizer = Tokenizer(stemmer=stemmer(language), stopwords=left_out, splitter=splitter(language))
        self.language = language

        def noting_ids() -> Iterator[str]:
            for docid, text in texts:
                self.docids.append(docid)
                yield text

        # As in bm25s, a document without words gets the empty word.
        stems = self._tokenizer.streaming_tokenize(noting_ids())
        self.tokens = [array("i", ids) for ids in stems]  # half the memory of lists
        if not self.tokens:
            raise InputError("the collection holds no documents; check --docs")
        self.anchors: list[array] | None = None
        if anchors is not None:
            self.anchors = [array("i") for _ in self.docids]
            self.links = [array("q") for _ in self.docids]  # how often each token counts
            rows = [(n, text, links) for n, d in enumerate(self.docids) for text, links in anchors.get(d, {}).items()]
            stems = self._tokenizer.streaming_tokenize((text for _, text, _ in rows), allow_empty=False)
            for (number, _, links), ids in zip(rows, stems):
                self.anchors[number].extend(ids)
                self.links[number].extend([links] * len(ids))
        self.vocabulary: dict[str, int] = self._tokenizer.get_vocab_dict()
        self._words = max(self.vocabulary.values()) + 1
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.docids)

    @cached_property
    def text(self) -> Field:
        """Postings of the texts, built on first use."""
        return Field.of(self.tokens, self._words)

    @cached_property
    def anchor_texts(self) -> Field:
        """Postings of the anchor texts. Raises InputError if there are none."""
        if self.anchors is None:
            raise InputError("bm25f ranks by text and anchor texts; set --anchors to their file (`harp anchors`)")
        return Field.of(self.anchors, self._words, self.links)

    def query(self, text: str) -> list[int]:
        """Ids of the query's stems that occur in the collection, with repetitions."""
        # update_vocab=False finds the known stem of an unknown word; "never" would drop the word.
        return next(iter(self._tokenizer.streaming_tokenize([text], update_vocab=False, allow_empty=False)))

    def words(self, text: str) -> list[Word]:
        """As `query`, but a lone letter in a script without spaces becomes all stems that contain it, counted as one word."""
        letters = [each for each in lone_letters(text, self.language) if each not in lexical_stopwords(self.language)]
        alone = {self.vocabulary.get(letter) for letter in letters}
        within = [tuple(n for stem, n in self.vocabulary.items() if letter in stem) for letter in letters]
        return [*(n for n in self.query(text) if n not in alone), *filter(None, within)]

    def numbers(self, docids: list[str]) -> np.ndarray:
        """Positions [n] of documents in the collection; KeyError for a missing one."""
        if not self._numbers:
            self._numbers = {docid: i for i, docid in enumerate(self.docids)}
        return np.array([self._numbers[docid] for docid in docids], np.int64)


class Model(Protocol):
    """A lexical model of a collection."""

    def scores(self, query: Sequence[Word]) -> tuple[np.ndarray, np.ndarray]:
        """Scores [documents] float, all finite, and which documents share a word with the query [documents] bool."""


def idf(documents: int, having: np.ndarray | int) -> np.ndarray | float:
    """Lucene's idf of words that occur in n = `having` of N documents: log(1 + (N - n + .5) / (n + .5))."""
    return np.log(1 + (documents - having + 0.5) / (having + 0.5))


class Bm25:
    """Lucene's BM25: Σ_w idf(w) · c(w,d) / (c(w,d) + k1 · (1 - b + b · |d| / mean length))."""

    def __init__(self, collection: InvertedIndex, k1: float = 0.9, b: float = 0.4) -> None:
        self._text, self._norms = collection.text, k1 * collection.text.norms(b)

    def scores(self, query: Sequence[Word]) -> tuple[np.ndarray, np.ndarray]:
        scores = np.zeros(len(self._norms))
        for word, times in Counter(query).items():
            documents, counts = self._text.postings(word)
            weight = times * idf(len(scores), len(documents))
            scores[documents] += weight * counts / (counts + self._norms[documents])
        return scores, scores > 0


class Bm25f:
    """BM25 over the fields text and anchors (Robertson, Zaragoza and Taylor, 2004), with Lucene's idf as in `Bm25`:

    Σ_w idf(w) · t / (k1 + t), t = c(w, text) / n(text) + anchor_weight · c(w, anchors) / n(anchors),
    n(field) = 1 - b + b · length / mean length of the field over all documents

    idf counts the documents with the word in either field. Raises InputError for a collection without anchors.
    """

    def __init__(
        self, collection: InvertedIndex, k1: float = 0.9, b: float = 0.4, anchor_weight: float = 1.0, anchor_b: float = 0.4
    ) -> None:  # fmt: skip
        text, anchors = collection.text, collection.anchor_texts
        self._fields = ((text, 1.0, text.norms(b)), (anchors, anchor_weight, anchors.norms(anchor_b)))
        # Number of documents [words] with the word in their text or anchor texts.
        self._having = np.diff((collection.text.counts + collection.anchor_texts.counts).indptr)
        self._k1 = k1

    def scores(self, query: Sequence[Word]) -> tuple[np.ndarray, np.ndarray]:
        scores = np.zeros(len(self._fields[0][0].lengths))
        for word, times in Counter(query).items():
            frequencies = np.zeros(len(scores))
            having = []
            for field, weight, norms in self._fields:
                documents, counts = field.postings(word)
                frequencies[documents] += weight * counts / norms[documents]
                having.append(documents)
            documents = np.concatenate(having)
            weighted = frequencies[documents]
            # k1 = 0 gives 0 / 0 for a word that occurs only in a field of weight 0.
            gain = np.divide(weighted, self._k1 + weighted, out=np.zeros_like(weighted), where=weighted > 0)
            # A document with the word in both fields is listed twice, but an indexed += adds its gain only once.
            count = len(np.unique(documents)) if isinstance(word, tuple) else self._having[word]
            scores[documents] += times * idf(len(scores), count) * gain
        return scores, scores > 0


class QueryLikelihood:
    """log p(q|d) of a unigram model with Dirichlet smoothing, without terms that are equal for all documents:

    Σ_w c(w,q)·log(1 + c(w,d)/(μ·p(w|C))) + |q|·log(μ/(|d|+μ)) (Zhai and Lafferty, 2001). |q| counts the query's words
    that occur in the collection.
    """

    def __init__(self, collection: InvertedIndex, mu: float = 1000.0) -> None:
        self._text, lengths = collection.text, collection.text.lengths
        in_collection = np.asarray(self._text.counts.sum(axis=0), np.float64).ravel()
        nothing = collection.vocabulary.get("", -1)
        if nothing >= 0:
            lengths = lengths - self._text.counts[:, [nothing]].toarray().ravel()
            in_collection[nothing] = 0.0
        self._probability = in_collection / max(in_collection.sum(), 1.0)
        self._penalty = np.log(mu / (lengths + mu))
        self._mu = mu

    def scores(self, query: Sequence[Word]) -> tuple[np.ndarray, np.ndarray]:
        gain = np.zeros(len(self._penalty))
        for word, times in Counter(query).items():
            documents, counts = self._text.postings(word)
            gain[documents] += times * np.log1p(counts / (self._mu * self._probability[np.atleast_1d(word)].sum()))
        return gain + len(query) * self._penalty, gain > 0


def make(name: str, collection: InvertedIndex, parameters: Mapping[str, float]) -> Model:
    """The model `name` of MODELS. Raises InputError for unknown or out-of-range parameters."""
    models: dict[str, Callable[..., Model]] = {"bm25": Bm25, "bm25f": Bm25f, "ql": QueryLikelihood}
    return models[name](collection, **checked(name, parameters))


def checked(name: str, parameters: Mapping[str, float]) -> dict[str, float]:
    """All parameters of the model `name`, these and the defaults. InputError as `make`."""
    unknown = sorted(parameters.keys() - MODELS.get(name, {}).keys())
    if name not in MODELS or unknown:
        known = ", ".join(f"{model} ({', '.join(fields)})" for model, fields in MODELS.items())
        raise InputError(f"no first stage {name!r} with parameters {unknown}; choose from {known}")
    chosen = {**MODELS[name], **parameters}
    for field, value in chosen.items():
        lowest = 0.0 if field != "mu" else 1e-9
        highest = 1.0 if field in ("b", "anchor_b") else sys.float_info.max
        if not isinstance(value, int | float | np.number) or not lowest <= value <= highest:
            raise InputError(f"{field}={value!r}: use k1 ≥ 0, b and anchor_b in 0…1, anchor_weight ≥ 0, mu > 0")
    return chosen


def search(model: Model, collection: InvertedIndex, query: str, k: int) -> tuple[list[str], np.ndarray]:
    """The best `k` documents that share a word with the query, and their scores; ties in the collection's order."""
    words = collection.words(query)
    if not words:
        return [], np.zeros(0)
    scores, matched = model.scores(words)
    best = top(np.where(matched, scores, -np.inf), k)
    return [collection.docids[i] for i in best], scores[best]


def rescore(model: Model, collection: InvertedIndex, query: str, docids: list[str]) -> np.ndarray:
    """Scores [n] of the given documents, whether or not they share a word with the query."""
    words = collection.words(query)
    if not words:
        return np.zeros(len(docids))
    return model.scores(words)[0][collection.numbers(docids)]


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """Indices of the `k` largest scores [n] above -inf, largest first, ties by index."""
    best = np.flatnonzero(scores > -np.inf)
    if len(best) > k:
        threshold = np.partition(scores[best], len(best) - k)[len(best) - k]
        above, level = best[scores[best] > threshold], best[scores[best] == threshold]
        best = np.sort(np.concatenate([above, level[: k - len(above)]]))
    return best[np.argsort(-scores[best], kind="stable")]
