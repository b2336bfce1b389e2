"""Word weightings (LinkLearn's f, and Okapi tuned on the same task), which transfer to other corpora; the index that ranks by one.

f is a product of three one-input MLPs (Eq. 3), in JAX for training and as lookup tables for ranking. Counts are a sparse matrix
[documents, words] int32, with 8 bytes of memory per (document, word) pair; an index has 12.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.base.files import check_sums, read_json
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import progress
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import read_queries, write_run
from harp_jax.ranking.first_stage import candidates, excluded_of
from harp_jax.ranking.lexical import Field, InvertedIndex, Word
from harp_jax.text.languages import ENGLISH

if TYPE_CHECKING:
    from scipy.sparse import csr_array

A = TypeVar("A", jax.Array, np.ndarray)  # in training and in ranking

MODEL = "model.json"  # in a workdir, with its digest in SHA256SUMS
INPUTS = ("tf", "idf", "length")
BIAS = 0.5  # initial output bias: weights near BIAS³, so that similarities begin near the margin


def transformed(name: str, x: np.ndarray) -> np.ndarray:
    """log(1 + x) of counts, so that one tanh covers texts of 5 and of 5,000 words; idf unchanged."""
    return x if name == "idf" else np.log1p(x)


def scales(**inputs: np.ndarray) -> dict[str, list[float]]:
    """Mean and deviation of each transformed input over the training corpus, part of the model."""
    values = {name: transformed(name, x) for name, x in inputs.items()}
    return {name: [float(np.mean(v)), float(max(np.std(v), 1e-6))] for name, v in values.items()}


def init_params(seed: int, hidden: int) -> dict[str, dict[str, jax.Array]]:
    """θ₁, θ₂, θ₃: one hidden layer of `hidden` tanh units each, float32."""
    params = {}
    for number, name in enumerate(INPUTS):
        k1, k2, k3 = jax.random.split(jax.random.fold_in(jax.random.key(seed), number), 3)
        params[name] = {
            "in": jax.random.normal(k1, (hidden,)),
            "in_bias": jax.random.normal(k2, (hidden,)),
            "out": 0.1 * jax.random.normal(k3, (hidden,)) / hidden**0.5,
            "out_bias": jnp.asarray(BIAS),
        }
    return params


def mlp(params: Mapping[str, A], x: A, xp: ModuleType = jnp) -> A:
    """One-input MLP, elementwise over x [...]; `xp` is jax.numpy or numpy."""
    return xp.tanh(x[..., None] * params["in"] + params["in_bias"]) @ params["out"] + params["out_bias"]


def similarities(params: dict, batch: dict[str, jax.Array]) -> jax.Array:
    """sim_θ [pairs] of pairs of texts.

    batch: pair, tf_a, tf_b, idf [T], one entry for each shared word (pair = number of pairs for padding), length_a, length_b
    [pairs]; all transformed and scaled. The length's MLP does not depend on the word and is factored out of the sum.
    """
    pairs = len(batch["length_a"])
    words = mlp(params["tf"], batch["tf_a"]) * mlp(params["tf"], batch["tf_b"]) * mlp(params["idf"], batch["idf"]) ** 2
    sums = jax.ops.segment_sum(words, batch["pair"], num_segments=pairs + 1)[:pairs]
    return sums * mlp(params["length"], batch["length_a"]) * mlp(params["length"], batch["length_b"])


@dataclass(frozen=True)
class LinkLearn:
    """A trained f. `params` are numpy arrays, `scale` the inputs' mean and deviation."""

    params: dict[str, dict[str, np.ndarray]]
    scale: dict[str, list[float]]

    def scaled(self, name: str, x: np.ndarray) -> np.ndarray:
        """An input, transformed and scaled for its MLP."""
        mean, deviation = self.scale[name]
        return ((transformed(name, np.asarray(x)) - mean) / deviation).astype(np.float32)

    def table(self, name: str, x: np.ndarray) -> np.ndarray:
        """MLP of each element of x, computed once for each distinct value."""
        values, place = np.unique(x, return_inverse=True)
        return mlp(self.params[name], self.scaled(name, values), np)[place.reshape(np.shape(x))]

    def query(self, tf: np.ndarray, idf: np.ndarray, length: int) -> np.ndarray:
        """Weights [terms] of a query's words; the similarity of two texts is the dot product of their weights."""
        # A negative length factor would invert the ranking.
        size = np.abs(self.table("length", np.array([length])))
        return self.table("tf", tf) * self.table("idf", idf) * size

    def documents(
        self, tf: np.ndarray, terms: np.ndarray, owner: np.ndarray, idf: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """Weights [postings]: posting p is tf[p] times word terms[p] in text owner[p]; idf [V], lengths [texts]."""
        by_tf = mlp(self.params["tf"], self.scaled("tf", np.arange(tf.max(initial=0) + 1)), np)
        return by_tf[tf] * self.table("idf", idf)[terms] * self.table("length", lengths)[owner]


@dataclass(frozen=True)
class Okapi:
    """Okapi BM25 as in LinkLearn's paper: d_i = (K + 1)·tf·idf / (K·((1 - B) + B·l/L) + tf); a query's weights are its counts.
    Arguments as in `LinkLearn`."""

    k: float = 1.2
    b: float = 0.75

    def query(self, tf: np.ndarray, idf: np.ndarray, length: int) -> np.ndarray:
        return tf.astype(np.float32)

    def documents(
        self, tf: np.ndarray, terms: np.ndarray, owner: np.ndarray, idf: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        norm = self.k * (1.0 - self.b + self.b * lengths / max(lengths.mean(), 1e-9))
        return (self.k + 1.0) * tf * idf[terms] / (norm[owner] + tf)


Weighting = LinkLearn | Okapi


def load(workdir: str, okapi: bool = False) -> Weighting:
    """The LinkLearn model of a workdir of `train`, or with `okapi` the Okapi tuned on the same task.

    Raises InputError if there is none, or if the file was changed since it was written.
    """
    check_sums(workdir, [MODEL])
    data = read_json(os.path.join(workdir, MODEL), "train it again")
    if okapi:
        return Okapi(**data["okapi"])
    params, scale = data["linklearn"]["params"], data["linklearn"]["scale"]
    return LinkLearn({n: {k: np.asarray(v, np.float32) for k, v in p.items()} for n, p in params.items()}, scale)


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
    """Weighted postings by word of the documents to rank, a `lexical.Model`."""

    def __init__(self, counts: "csr_array") -> None:
        self.idf, self.lengths, self._counts = idf(counts), lengths_of(counts), counts.tocsc()

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
