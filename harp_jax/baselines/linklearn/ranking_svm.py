"""Ranking SVM (Schultz and Joachims, 2003) with a diagonal metric: d_w(x, y)² = Σ_i w_i (x_i - y_i)², w ≥ 0 (Eq. 8).

Minimises ½‖w‖² + C·Σ ξ² under d_w(a, c)² - d_w(a, b)² ≥ 1 - ξ. The papers' slacks are linear (C·Σ ξ); squared ones make the
problem smooth, so that scipy's L-BFGS-B solves it within its bounds. They penalise large violations more, and C is not
comparable with the papers'. Weights are of words: they rank the training corpus, and others as far as they share its words.
"""

import logging
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_sums, lines, replacing
from harp_jax.baselines.linklearn.collection import Counts, count, idf
from harp_jax.ranking.lexical import Collection

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

log = logging.getLogger(__name__)

FILE = "ranking_svm.tsv"  # in the workdir: word, weight; absent words have weight 0


def vectors(counts: Counts, idf: np.ndarray) -> "csr_matrix":
    """Texts as rows of (1 + log tf)·idf with length 1: a scipy CSR matrix [texts, V]; idf [V]."""
    from scipy import sparse

    data = (1.0 + np.log(counts.tf)) * idf[counts.terms]
    owner = np.repeat(np.arange(counts.documents), np.diff(counts.starts))
    norm = np.sqrt(np.bincount(owner, data**2, minlength=counts.documents))
    data = data / np.maximum(norm, 1e-12)[owner]
    return sparse.csr_matrix((data, counts.terms, counts.starts), shape=(counts.documents, counts.vocabulary))


def solve(a: "csr_matrix", b: "csr_matrix", c: "csr_matrix", cost: float = 1.0, iterations: int = 15_000) -> np.ndarray:
    """Weights [V] ≥ 0 that minimise ½‖w‖² + cost·Σ max(0, 1 - (d_w(a, c)² - d_w(a, b)²))² over rows of CSR matrices.

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
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if not np.isfinite(found.x).all():
        raise InputError("Ranking SVM found weights that are not finite; check the documents")
    if not found.success:
        log.warning("Ranking SVM stopped after %d iterations before its minimum: %s", found.nit, found.message)
    return found.x


def distances(weights: np.ndarray, query: "csr_matrix", documents: "csr_matrix") -> np.ndarray:
    """d_w(query, document)² [documents] of one row against many."""
    squares = documents.power(2) @ weights
    return query.power(2).dot(weights)[0] - 2.0 * (documents.multiply(weights) @ query.T).toarray()[:, 0] + squares


class Metric:
    """A collection ranked by -d_w(query, document)², a `lexical.Model`; idf is the collection's."""

    def __init__(self, counts: Counts, weights: np.ndarray) -> None:
        self.weights, self.idf = weights, idf(counts, np.arange(counts.documents))
        self.vectors = vectors(counts, self.idf)

    def scores(self, query: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """As `lexical.Model`."""
        terms, tf = np.unique(np.asarray(query, np.int64), return_counts=True)
        text = vectors(Counts(np.array([0, len(terms)]), terms.astype(np.int32), tf, len(self.idf)), self.idf)
        return -distances(self.weights, text, self.vectors), (self.vectors @ text.T).toarray()[:, 0] > 0


def save(workdir: str, weights: np.ndarray, vocabulary: Mapping[str, int]) -> None:
    """Writes the weights [V] above 0, word by word."""
    with replacing(os.path.join(workdir, FILE)) as file:
        file.writelines(f"{word}\t{weights[i]:.9g}\n" for word, i in sorted(vocabulary.items()) if weights[i] > 0)


def load(workdir: str) -> dict[str, float]:
    """The saved weights by word. InputError if there are none, or the file is damaged."""
    path = os.path.join(workdir, FILE)
    if not os.path.exists(path):
        raise InputError(f"{path} does not exist; train with --config.ranking_svm_constraints=20000")
    check_sums(workdir, [FILE])
    weights: dict[str, float] = {}
    for number, line in lines(path):
        word, _, value = line.partition("\t")
        try:
            weights[word] = float(value)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}; train again") from error
        if not 0 <= weights[word] < math.inf:
            raise InputError(f"{path}, line {number}: the weight {value} is not a number of 0 or more; train again")
    return weights


def of_words(weights: Mapping[str, float], vocabulary: Mapping[str, int]) -> np.ndarray:
    """Weights [V] of another vocabulary's words, 0 for those that have none."""
    found = np.zeros(max(vocabulary.values()) + 1)
    for word, i in vocabulary.items():
        found[i] = weights.get(word, 0.0)
    return found


def svm_index(
    collection: Collection, word_weights: Mapping[str, float], where: str = "the collection"
) -> tuple[Metric, str]:
    """(the collection indexed by Ranking SVM's weights of words, how many of its words have one).

    `where` names the collection in messages. Raises InputError if no word has a weight above 0: all distances would be 0,
    and the ranking the collection's order.
    """
    weights = of_words(word_weights, collection.vocabulary)
    words, weighted = sum(map(bool, collection.vocabulary)), int((weights > 0).sum())
    if not weighted:
        raise InputError(
            f"none of the {words} words of {where} has a weight above 0: --ranking_svm is for the collection it was "
            "trained on, with the same --stemmer; leave it out"
        )
    return Metric(count(collection), weights), f"{weighted} of {words} words ({weighted / words:.0%})"
