"""Masks against their definition, losses of groups and of masked words against slow versions; whole objectives: test_objectives."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from harp_jax.model.cross_encoder import vocabulary_cross_entropy
from harp_jax.objectives import losses
from harp_jax.objectives.masking import POSITIONS, TARGETS, WEIGHTS, mask_tokens, max_predictions, token_bits, word_ids
from tests.support.distributions import assert_drawn

KEY = jax.random.key(0, impl="threefry2x32")
WORDS, MASK = 1000, 4


def tokens_and_ids(rows: int = 64, length: int = 512) -> tuple[jax.Array, jax.Array]:
    ids = np.arange(rows * length, dtype=np.int32).reshape(rows, length)
    ids[:, ::10] = -1  # specials
    tokens = np.random.default_rng(0).integers(5, WORDS, (rows, length)).astype(np.int32)
    return jnp.asarray(tokens), jnp.asarray(ids)


def test_rates_are_15_percent_and_80_10_10_and_replacements_uniform():
    tokens, ids = map(np.asarray, tokens_and_ids())
    out, other = (
        jax.device_get(mask_tokens(key, {"tokens": tokens}, ids, max_predictions(512), MASK, WORDS))
        for key in (KEY, jax.random.fold_in(KEY, 1))
    )
    rows, columns = np.nonzero(out[WEIGHTS])
    at, targets = out[POSITIONS][rows, columns], out[TARGETS][rows, columns]
    new, chosen = out["tokens"][rows, at], len(rows)
    assert (targets == tokens[rows, at]).all() and (ids[rows, at] >= 0).all()
    unmasked = np.ones_like(tokens, bool)
    unmasked[rows, at] = False
    np.testing.assert_array_equal(out["tokens"][unmasked], tokens[unmasked])
    assert (out["tokens"] != other["tokens"]).any()
    # Each row masks a binomial number of its 460 candidates, at most M.
    support = np.arange(461)
    probability, capped = stats.binom.pmf(support, 460, 0.15), np.minimum(support, max_predictions(512))
    mean = (capped * probability).sum()
    variance = (capped**2 * probability).sum() - mean**2
    assert ((ids >= 0).sum(axis=1) == 460).all() and mean > 0.99 * 0.15 * 460
    assert abs(chosen - len(ids) * mean) < 3 * (len(ids) * variance) ** 0.5
    kinds = np.where(new == MASK, "mask", np.where(new == targets, "same", "random"))
    assert_drawn(kinds.tolist(), {"mask": 0.8, "random": 0.1, "same": 0.1})
    assert_drawn((new[kinds == "random"] // 100).tolist())
    for word in token_bits(KEY, jnp.arange(100_000), 0):  # for consecutive ids
        assert_drawn((np.asarray(word) >> 27).tolist())


def test_the_same_text_is_masked_alike_at_any_position():
    tokens, ids = tokens_and_ids(4, 128)
    mask = jax.jit(lambda tokens, ids: mask_tokens(KEY, {"tokens": tokens}, ids, 40, MASK, WORDS)["tokens"])
    move = lambda x: jnp.roll(x[jnp.asarray([2, 0, 3, 1])], 17, axis=1)  # noqa: E731
    np.testing.assert_array_equal(move(mask(tokens, ids)), mask(move(tokens), move(ids)))


def test_wordpieces_of_a_word_have_one_id_and_are_masked_together():
    tokens, ids = tokens_and_ids(4, 128)
    tokens = jnp.where(ids < 0, 1, tokens)  # special tokens neither begin nor continue a word
    continues = np.arange(WORDS) % 3 == 0
    named = np.asarray(word_ids(tokens, ids, jnp.asarray(continues)))
    for row in range(4):
        expected, word = [], -1
        for token, own in zip(np.asarray(tokens)[row].tolist(), np.asarray(ids)[row].tolist()):
            word = word if continues[token] else own
            expected.append(word if word >= 0 else own)  # pieces without a beginning of a word are words
        assert named[row].tolist() == expected
    masked = mask_tokens(KEY, {"tokens": tokens}, jnp.asarray(named), 60, MASK, WORDS, always=True)
    chosen = np.asarray(masked["tokens"] == MASK)
    assert chosen.any() and not {*named[chosen].tolist()} & {*named[~chosen].tolist()}


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


SCORES, TEACHER = np.random.default_rng(0).normal(size=(2, 6, 5)).astype(np.float32)
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


@pytest.mark.parametrize(("dtype", "apart"), [("float64", 1e-13), ("bfloat16", 0.02)])
def test_vocabulary_cross_entropy_has_the_values_and_gradients_of_its_logits(dtype, apart):
    """Compiled, because XLA may fold a transpose into a product that CPUs do not support in bfloat16."""
    rng = np.random.default_rng(3)
    hidden, embedding, bias = rng.normal(size=(2, 5, 64)), rng.normal(size=(97, 64)), rng.normal(size=97)
    targets, weights = rng.integers(0, 97, (2, 5)), rng.random((2, 5))
    targets[0] = (hidden[0] @ embedding.T + bias).argmax(-1)

    def plain(hidden, embedding, bias):
        logits = jax.numpy.einsum("rmh,vh->rmv", hidden, embedding) + bias
        chosen = jax.numpy.take_along_axis(logits, targets[..., None], -1)[..., 0]
        return (weights * (jax.nn.logsumexp(logits, axis=-1) - chosen)).sum(), logits.argmax(-1) == targets  # Eq. 15

    def fused(*arrays):
        loss, hits = vocabulary_cross_entropy(*arrays, targets)
        return (weights * loss).sum(), hits

    with jax.enable_x64(True):
        wide = dtype if dtype == "float64" else "float32"
        mixed = (jax.numpy.asarray(hidden, dtype), embedding.astype(wide), bias.astype(wide))
        expected, found = (
            jax.jit(jax.value_and_grad(f, (0, 1, 2), has_aux=True))(*arrays)
            for f, arrays in ((plain, (hidden, embedding, bias)), (fused, mixed))
        )
    assert [slopes.dtype for slopes in found[1]] == [dtype, wide, wide]
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found)):
        np.testing.assert_allclose(np.asarray(b, float), a, rtol=0, atol=apart * float(np.abs(a).max()))
