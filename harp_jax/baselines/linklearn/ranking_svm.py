"""Ranking SVM (Schultz and Joachims, 2003) with a diagonal metric: d_w(x, y)² = Σ_i w_i (x_i - y_i)², w ≥ 0 (Eq. 8).

Minimises ½‖w‖² + C·Σ ξ² under d_w(a, c)² - d_w(a, b)² ≥ 1 - ξ. The papers' slacks are linear (C·Σ ξ); squared ones make the
problem smooth, so that scipy's L-BFGS-B solves it within its bounds. They penalise large violations more, and C is not
comparable with the papers'.
"""

import logging
from typing import TYPE_CHECKING

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.baselines.linklearn.collection import Counts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

log = logging.getLogger(__name__)


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
