"""Every loss against an independent slow version."""

import math

import jax
import numpy as np
import pytest

from harp_jax.model.cross_encoder import vocabulary_cross_entropy
from harp_jax.objectives import losses

RNG = np.random.default_rng(0)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize(
    "loss, slow, tolerance",
    [
        (losses.hinge, lambda p, n: max(0.0, 1 - p + n), 1e-6),  # Eq. 6
        (losses.logistic, lambda p, n: -math.log(sigmoid(p - n)), 1e-5),  # RankNet's cross-entropy
        # The softmax, then the hinge, of HARP's authors.
        (losses.softmax_margin, lambda p, n: max(0.0, 1 - sigmoid(p - n) + sigmoid(n - p)), 1e-5),
        # Eq. 18 with its minus sign; the second score's sign is the label.
        (
            lambda s, n: losses.relevance(s, (n > 0).astype(float)),
            lambda s, n: -math.log(sigmoid(s) if n > 0 else 1 - sigmoid(s)),
            1e-5,
        ),
    ],
    ids=["hinge", "logistic", "softmax_margin", "relevance"],
)
def test_losses_of_scores_equal_their_definitions(loss, slow, tolerance):
    pos, neg = RNG.normal(size=50), RNG.normal(size=50)
    np.testing.assert_allclose(loss(pos, neg), [slow(p, n) for p, n in zip(pos, neg)], rtol=tolerance)


def test_masked_cross_entropy_is_eq_15():
    logits, targets = RNG.normal(size=(4, 3, 11)).astype(np.float32), RNG.integers(0, 11, (4, 3))
    expected = np.zeros((4, 3))
    for i in range(4):
        for j in range(3):
            p = [math.exp(x) for x in logits[i, j]]
            expected[i, j] = -math.log(p[targets[i, j]] / sum(p))
    np.testing.assert_allclose(losses.masked_cross_entropy(logits, targets), expected, rtol=1e-5)


@pytest.mark.parametrize("present", [8, 3])
def test_lce_is_a_softmax_over_those_present(present):
    scores = RNG.normal(size=8).astype(np.float32)
    valid = np.arange(8) < present
    expected = -math.log(math.exp(scores[0]) / sum(math.exp(s) for s in scores[:present]))
    assert float(losses.localised_contrastive(scores, valid)) == pytest.approx(expected, rel=1e-5)


def test_vocabulary_cross_entropy_has_the_values_and_gradients_of_its_logits():
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        hidden, embedding, bias = rng.normal(size=(2, 5, 8)), rng.normal(size=(19, 8)), rng.normal(size=19)
        targets, weights = rng.integers(0, 19, (2, 5)), rng.random((2, 5))

        def plain(hidden, embedding, bias):
            logits = jax.numpy.einsum("rmh,vh->rmv", hidden, embedding) + bias
            hits = jax.numpy.argmax(logits, -1) == targets
            return (weights * losses.masked_cross_entropy(logits, targets)).sum(), hits

        def fused(*arrays):
            loss, hits = vocabulary_cross_entropy(*arrays, targets)
            return (weights * loss).sum(), hits

        arrays = (hidden, embedding, bias)
        expected, found = (jax.value_and_grad(f, (0, 1, 2), has_aux=True)(*arrays) for f in (plain, fused))
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found)):
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-12)


def test_vocabulary_cross_entropy_in_bfloat16_stays_close():
    """Compiled: XLA folded the transpose of one product into it, and had no such product on CPUs."""
    rng = np.random.default_rng(4)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((2, 5, 64), (97, 64), (97,))]
    targets = rng.integers(0, 97, (2, 5))
    narrow = [jax.numpy.asarray(arrays[0], "bfloat16"), *arrays[1:]]

    def total(hidden, embedding, bias):
        return vocabulary_cross_entropy(hidden, embedding, bias, targets)[0].sum()

    exact, rough = (jax.jit(jax.value_and_grad(total, (0, 1, 2)))(*a) for a in (arrays, narrow))
    assert rough[1][0].dtype == jax.numpy.bfloat16 and rough[1][1].dtype == np.float32
    for a, b in zip(jax.tree.leaves(exact), jax.tree.leaves(rough)):
        np.testing.assert_allclose(np.asarray(b, np.float32), a, rtol=0, atol=0.02 * float(np.abs(a).max()))
