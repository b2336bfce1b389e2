"""Ranking SVM (Schultz and Joachims, 2003) with a diagonal metric: d_w(x, y)² = Σ_i w_i (x_i - y_i)², w ≥ 0 (Eq. 8).

Solved by scipy's L-BFGS-B, which keeps the bounds; slacks are squared, so that the problem is smooth (the L2-loss SVM; the
paper's are linear). A weight a word: nothing carries over to a corpus of other words.
"""

from typing import Any

import numpy as np

from harp_jax.linklearn.collection import Counts, idf


def vectors(counts: Counts, training: np.ndarray) -> Any:
    """Documents as rows of (1 + log tf)·idf with length 1: a scipy CSR matrix [documents, V]; idf of the training documents."""
    from scipy import sparse

    data = (1.0 + np.log(counts.tf)) * idf(counts, training)[counts.terms]
    owner = np.repeat(np.arange(counts.documents), np.diff(counts.starts))
    norm = np.sqrt(np.bincount(owner, data**2, minlength=counts.documents))
    data = data / np.maximum(norm, 1e-12)[owner]
    return sparse.csr_matrix((data, counts.terms, counts.starts), shape=(counts.documents, counts.vocabulary))


def solve(a: Any, b: Any, c: Any, cost: float) -> np.ndarray:
    """Weights [V] ≥ 0 that minimise ½‖w‖² + cost·Σ max(0, 1 - (d_w(a, c)² - d_w(a, b)²))² over rows of CSR matrices."""
    from scipy.optimize import minimize

    gaps = (a - c).power(2) - (a - b).power(2)
    transposed = gaps.T.tocsr()

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        slack = np.maximum(0.0, 1.0 - gaps @ w)
        return 0.5 * w @ w + cost * slack @ slack, w - 2.0 * cost * (transposed @ slack)

    start = np.ones(gaps.shape[1])
    return minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(start)).x


def distances(weights: np.ndarray, query: Any, documents: Any) -> np.ndarray:
    """d_w(query, document)² [documents] of one row against many."""
    squares = documents.power(2) @ weights
    return query.power(2).dot(weights)[0] - 2.0 * (documents.multiply(weights) @ query.T).toarray()[:, 0] + squares
