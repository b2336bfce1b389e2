"""Losses of pairs, groups and masked words against slow versions; whole objectives are in the other files."""

import math

import jax
import numpy as np
import pytest

from harp_jax.model.cross_encoder import vocabulary_cross_entropy
from harp_jax.objectives import losses

RNG = np.random.default_rng(0)


def slow_losses(name: str, s: np.ndarray, t: np.ndarray) -> list[float]:
    """The losses of a group with scores s, teacher's scores or labels t: of its members, of its negatives, or one."""
    gaps, p = s[0] - s[1:], 1 / (1 + np.exp(-s))
    student, teacher = (np.exp(x) / np.exp(x).sum() for x in (s, t))
    one = {"lce": -np.log(student[0]), "kl": (teacher * np.log(teacher / student)).sum()}
    if name in ("bce", "judged"):
        labels = t if name == "judged" else np.arange(len(s)) == 0
        return [-math.log(x if label else 1 - x) for x, label in zip(p, labels)]
    # The softmax of two scores followed by the hinge, as in the code of HARP's authors.
    softmaxes = [np.exp([s[0], x]) / np.exp([s[0], x]).sum() for x in s[1:]]
    each = {"hinge": np.maximum(0, 1 - gaps), "logistic": np.log1p(np.exp(-gaps))}
    each |= {"softmax_margin": [max(0, 1 - a + b) for a, b in softmaxes], "margin_mse": (gaps - (t[0] - t[1:])) ** 2}
    return list(each[name]) if name in each else [sum(one[part] for part in name.split("_"))]


SCORES, TEACHER = RNG.normal(size=(2, 6, 5)).astype(np.float32)
SIZES = np.array([5, 3, 2, 0, 5, 4])
PRESENT = np.arange(5) < SIZES[:, None]
COUNTS = {"groups": 5, "members": 19, "negatives": 14}


def groups(name: str, teacher: np.ndarray) -> list[list[float]]:
    return [slow_losses(name, s[:n], t[:n]) for s, t, n in zip(np.float64(SCORES), teacher, SIZES) if n]


def check_gradient(loss) -> None:
    gradient = jax.grad(loss)(SCORES)
    assert np.isfinite(gradient).all() and not np.asarray(gradient)[~PRESENT].any() and np.asarray(gradient).any()


@pytest.mark.parametrize("name", ["bce", "judged", "lce", "hinge", "logistic", "softmax_margin", "margin_mse", "kl"])
def test_ranking_losses_equal_loops_over_those_present_and_ignore_empty_groups(name):
    teacher = np.float32(TEACHER > 0) if name == "judged" else TEACHER
    loss = lambda scores: losses.ranking_loss(name, scores, PRESENT, COUNTS, teacher)[0]  # noqa: E731
    assert float(loss(SCORES)) == pytest.approx(np.mean(np.concatenate(groups(name, np.float64(teacher)))), rel=1e-5)
    check_gradient(loss)
    if name in ("margin_mse", "kl"):
        assert float(loss(teacher + 3)) == pytest.approx(0, abs=1e-6)  # only differences matter


@pytest.mark.parametrize("name", ["hinge", "logistic", "softmax_margin", "lce", "kl", "lce_kl"])
def test_pair_losses_equal_loops_over_the_negatives_of_each_group(name):
    loss = lambda scores: losses.pair_loss(name, scores, PRESENT, TEACHER)  # noqa: E731
    expected = [np.mean(group) for group in groups(name, np.float64(TEACHER))]
    np.testing.assert_allclose(loss(SCORES)[SIZES > 0], expected, rtol=1e-5)
    assert not loss(SCORES)[3]
    check_gradient(lambda scores: loss(scores).sum())


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
        expected, found = (jax.jit(jax.value_and_grad(f, (0, 1, 2), has_aux=True))(*arrays) for f in (plain, fused))
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
