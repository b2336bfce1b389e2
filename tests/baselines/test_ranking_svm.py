"""Ranking SVM: its minimum and its distances."""

import numpy as np

from harp_jax.base.randomness import generator
from harp_jax.baselines.linklearn import ranking_svm


def test_ranking_svm_finds_the_words_that_count():
    from scipy import sparse

    rng = generator("svm")
    a, b, c = (rng.random((80, 6)) for _ in range(3))
    b[:, :2] = a[:, :2] + 0.02 * rng.standard_normal((80, 2))  # near in the first two words, and in no other
    weights = ranking_svm.solve(*(sparse.csr_matrix(x) for x in (a, b, c)), 10.0)
    assert (weights >= 0).all() and weights[:2].min() > 3 * weights[2:].max()

    def near(x, y):
        return (weights * (x - y) ** 2).sum(axis=1)

    assert (near(a, b) < near(a, c)).mean() > 0.9
    found = ranking_svm.distances(weights, sparse.csr_matrix(a[:1]), sparse.csr_matrix(c))
    np.testing.assert_allclose(found, near(a[:1], c), atol=1e-10)
    # At the minimum of a convex problem under bounds no allowed step descends.
    gaps = (a - c) ** 2 - (a - b) ** 2
    gradient = weights - 20.0 * gaps.T @ np.maximum(0.0, 1 - gaps @ weights)
    assert (
        np.abs(np.where(weights > 1e-8, gradient, np.minimum(gradient, 0.0))) < 1e-2 * np.abs(gaps.sum(0)).max()
    ).all()


def test_ranking_svm_warns_before_its_minimum(caplog):
    from scipy import sparse

    a, b, c = (sparse.csr_matrix(generator("svm", i).random((40, 6))) for i in range(3))
    assert ranking_svm.solve(a, b, c, 10.0).min() >= 0 and not caplog.records
    ranking_svm.solve(a, b, c, 10.0, iterations=1)
    assert "stopped after 1 iterations before its minimum" in caplog.text
