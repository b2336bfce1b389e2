"""Word weightings: LinkLearn's f and Okapi tuned on the same task, which transfer to other corpora, and Ranking SVM's metric.

f is a product of three one-input MLPs (Eq. 3), in JAX for training and as lookup tables for ranking.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_sums, read_json

if TYPE_CHECKING:
    from scipy.sparse import csr_array

log = logging.getLogger(__name__)

A = TypeVar("A", jax.Array, np.ndarray)  # in training and in ranking

MODEL = "model.json"  # in a workdir, with its digest in SHA256SUMS
INPUTS = ("tf", "idf", "length")
BIAS = 0.5  # initial output bias: weights near BIAS³, so that similarities begin near the margin


def scales(tf: np.ndarray, idf: np.ndarray, length: np.ndarray) -> dict[str, list[float]]:
    """Mean and deviation of each transformed input over the training corpus, part of the model."""
    values = {"tf": transformed("tf", tf), "idf": idf, "length": transformed("length", length)}
    return {name: [float(np.mean(v)), float(max(np.std(v), 1e-6))] for name, v in values.items()}


def transformed(name: str, x: np.ndarray) -> np.ndarray:
    """log(1 + x) of counts, so that one tanh covers texts of 5 and of 5,000 words; idf unchanged."""
    return x if name == "idf" else np.log1p(x)


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
    """Okapi BM25 as in LinkLearn's paper: d_i = (K + 1)·tf·idf / (K·((1 - B) + B·l/L) + tf); a query's weights are its counts."""

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


def unit_vectors(counts: "csr_array", idf: np.ndarray) -> "csr_array":
    """Texts as rows of (1 + log tf)·idf with length 1 [texts, V]; idf [V]."""
    data = (1.0 + np.log(counts.data)) * idf[counts.indices]
    owner = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    norm = np.maximum(np.sqrt(np.bincount(owner, data**2, minlength=counts.shape[0])), 1e-12)
    return type(counts)((data / norm[owner], counts.indices, counts.indptr), counts.shape)


def solve(a: "csr_array", b: "csr_array", c: "csr_array", cost: float = 1.0, iterations: int = 15_000) -> np.ndarray:
    """Ranking SVM (Schultz and Joachims, 2003) with a diagonal metric: d_w(x, y)² = Σ_i w_i (x_i - y_i)², w ≥ 0 (Eq. 8).

    Returns the weights [V] that minimise ½‖w‖² + cost·Σ max(0, 1 - (d_w(a, c)² - d_w(a, b)²))² over rows of CSR matrices.

    The papers' slacks are linear (C·Σ ξ); squared ones make the problem smooth, so that scipy's L-BFGS-B solves it within its
    bounds. They penalise large violations more, and C is not comparable with the papers'.

    Logs a warning if the minimum is not reached; raises InputError if the weights are not finite.
    """
    from scipy.optimize import minimize

    gaps = (a - c).power(2) - (a - b).power(2)
    transposed = gaps.T.tocsr()

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        slack = np.maximum(0.0, 1.0 - gaps @ w)
        return 0.5 * w @ w + cost * slack @ slack, w - 2.0 * cost * (transposed @ slack)

    start = np.ones(gaps.shape[1])
    bounds, options = [(0.0, None)] * len(start), {"maxiter": iterations}
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if not np.isfinite(solution.x).all():
        raise InputError("Ranking SVM found weights that are not finite; check the documents")
    if not solution.success:
        log.warning("Ranking SVM stopped after %d iterations before its minimum: %s", solution.nit, solution.message)
    return solution.x


def distances(weights: np.ndarray, query: "csr_array", documents: "csr_array") -> np.ndarray:
    """d_w(query, document)² [documents] of one row against many."""
    squares = documents.power(2) @ weights
    return query.power(2).dot(weights)[0] - 2.0 * (documents.multiply(weights) @ query.T).toarray()[:, 0] + squares
