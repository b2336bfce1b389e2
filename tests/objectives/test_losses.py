"""Every loss against an independent slow version."""

import math

import jax
import numpy as np

from harp_jax.model.cross_encoder import vocabulary_cross_entropy
from harp_jax.objectives import losses


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_the_softmax_then_the_hinge_of_harps_authors():
    """The other losses are compared with loops over packed groups, in test_objectives and in tests of fine-tuning."""
    pos, neg = np.random.default_rng(0).normal(size=(2, 50))
    slow = [max(0.0, 1 - sigmoid(p - n) + sigmoid(n - p)) for p, n in zip(pos, neg)]
    np.testing.assert_allclose(losses.softmax_margin(pos, neg), slow, rtol=1e-5)


def test_vocabulary_cross_entropy_has_the_values_and_gradients_of_its_logits():
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        hidden, embedding, bias = rng.normal(size=(2, 5, 8)), rng.normal(size=(19, 8)), rng.normal(size=19)
        targets, weights = rng.integers(0, 19, (2, 5)), rng.random((2, 5))

        def plain(hidden, embedding, bias):
            logits = jax.numpy.einsum("rmh,vh->rmv", hidden, embedding) + bias
            hits = jax.numpy.argmax(logits, -1) == targets
            chosen = jax.numpy.take_along_axis(logits, targets[..., None], -1)[..., 0]
            return (weights * (jax.nn.logsumexp(logits, axis=-1) - chosen)).sum(), hits  # Eq. 15

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
