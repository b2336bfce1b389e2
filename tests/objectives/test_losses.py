"""Distillation and the words' cross-entropy against slow versions; those of pairs and groups are in test_objectives.py."""

import math

import jax
import numpy as np
import pytest

from harp_jax.model.cross_encoder import vocabulary_cross_entropy
from harp_jax.objectives import losses

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", ["margin_mse", "kl"])
def test_distillation_equals_loops_over_those_present_and_ignores_empty_groups(name):
    scores, teacher = RNG.normal(size=(2, 6, 5)).astype(np.float32)
    sizes = np.array([5, 3, 2, 0, 5, 4])
    present = np.arange(5) < sizes[:, None]
    expected = []
    for s, t, size in zip(scores.astype(float), teacher.astype(float), sizes):
        if name == "margin_mse":
            expected += [((s[0] - s[i]) - (t[0] - t[i])) ** 2 for i in range(1, size)]
        elif size:
            p, q = (np.exp(x[:size]) / np.exp(x[:size]).sum() for x in (t, s))
            expected.append(sum(a * math.log(a / b) for a, b in zip(p, q)))
    counts = {"groups": 5, "members": 19, "negatives": 14}

    def loss(scores, teacher):
        return losses.ranking_loss(name, scores, present, counts, teacher)[0]

    found, gradient = jax.value_and_grad(loss)(scores, teacher)
    assert float(found) == pytest.approx(np.mean(expected), rel=1e-4)
    assert np.isfinite(gradient).all() and not np.asarray(gradient)[~present].any()
    assert float(loss(teacher + 3, teacher)) == pytest.approx(0, abs=1e-6)  # only differences matter


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
    """Compiled, because XLA may fold a transpose into a product that CPUs do not support."""
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
