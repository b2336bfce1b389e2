"""Eq. 2 to 5 against slow versions written from the paper, and the samplers against their distributions."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from data_pipeline.tasks.sampling import NoPair, Sampler, Weighted, shuffled, without_replacement
from harp_jax.base.randomness import generator
from tests.support.distributions import assert_drawn

WORDS = [(1,), (2,), (3,), (1,), (4, 9), (5,), (2,), (6,)]
WEIGHTS = np.array([0.05, 0.2, 0.1, 0.15, 0.12, 0.02, 0.1, 0.06])


def is_term(word):
    return word != (5,)


def slow_distribution(excluded, weighting="softmax", scale=1.0):
    """Term by term, following the text of section 3.2.1."""
    beta = {}
    for w_k in dict.fromkeys(WORDS):
        if is_term(w_k) and w_k not in excluded:
            beta[w_k] = scale * sum(a for w_t, a in zip(WORDS, WEIGHTS) if w_t == w_k)
    if weighting == "softmax":
        z = sum(math.exp(b) for b in beta.values())
        return {w: math.exp(b) / z for w, b in beta.items()}
    total = sum(beta.values())
    return {w: b / total for w, b in beta.items()}


@pytest.mark.parametrize("excluded", [set(), {(2,)}, {(1,), (4, 9)}])
@pytest.mark.parametrize(("weighting", "scale"), [("softmax", 1.0), ("softmax", 12.0), ("normalised", 1.0)])
def test_distribution(excluded, weighting, scale):
    """`scale`: 12 for attention summed over 12 heads."""
    sampler = Sampler(is_term, weighting=weighting, attention_scale=scale)
    words, p = sampler.distribution(Weighted(WORDS, WEIGHTS), excluded)
    expected = slow_distribution(excluded, weighting, scale)
    assert words == list(expected)
    np.testing.assert_allclose(p, list(expected.values()), rtol=1e-12)


@pytest.mark.parametrize(
    ("sampling", "longest", "mean", "tolerance"),
    [("paper", 9, 3 / (1 - math.exp(-3)), 0.05), ("official", 5, 2.56, 0.03)],  # the authors' mean
)
def test_lengths_are_of_a_poisson_or_the_integer_parts_of_a_normal_distribution(sampling, longest, mean, tolerance):
    """Both start at 1; lengths of `longest` or more are one class."""
    sampler, rng = Sampler(is_term, query_length=3.0, sampling=sampling), generator("lengths", sampling)
    drawn = [sampler.length(rng) for _ in range(20_000)]
    if sampling == "paper":
        # P(x) = λ^x e^-λ / (x! (1 - e^-λ))
        p = {x: 3.0**x * math.exp(-3.0) / math.factorial(x) / (1 - math.exp(-3.0)) for x in range(1, longest)}
    else:
        p = {x: (stats.norm.sf(x - 3) - stats.norm.sf(x - 2)) / stats.norm.sf(-2) for x in range(1, longest)}
    assert_drawn((min(length, longest) for length in drawn), p | {longest: 1 - sum(p.values())})
    assert abs(np.mean(drawn) - mean) < tolerance


P = np.array([0.4, 0.3, 0.2, 0.1])
LEFT = {(1,): 4 / 7, (2,): 3 / 7}  # shares without the third word
INSIDE = {(1,), (4, 9), (6,)}
TEXT = Weighted(WORDS, WEIGHTS)
SHARES = Sampler(is_term, weighting="normalised")
OFFICIAL = Sampler(is_term, weighting="normalised", sampling="official")


@pytest.mark.parametrize(
    ("draw", "p"),
    [
        (lambda rng: tuple(without_replacement(rng, P, 2)),
         {(i, j): P[i] * P[j] / (1 - P[i]) for i in range(4) for j in range(4) if i != j}),
        (lambda rng: tuple(OFFICIAL.sample(rng, Weighted([(1,), (2,), (3,)], P[:3]), {(3,)}, 2, "text")),
         {(a, b): LEFT[a] * LEFT[b] for a in LEFT for b in LEFT}),
        # Eq. 3: the first of two sampled terms
        (lambda rng: Sampler(is_term).sample(rng, TEXT, {(3,)}, 2, "text")[0], slow_distribution({(3,)})),
        # the first word of a ranking that is in a set: a sample from the set
        (lambda rng: next(word for word in SHARES.ranking(rng, TEXT, set()) if word in INSIDE),
         slow_distribution(set(WORDS) - INSIDE, "normalised")),
        (lambda rng: tuple(shuffled(rng, [1, 2, 3])), dict.fromkeys(itertools.permutations([1, 2, 3]), 1 / 6)),
    ],
    ids=["without replacement", "official: with replacement", "softmax", "ranking", "order"],
)  # fmt: skip
def test_draws_follow_their_distribution(draw, p):
    rng = generator("draws")
    assert_drawn((draw(rng) for _ in range(10_000)), p)


def test_sampled_words_are_distinct_and_a_short_pool_is_a_loss():
    sampler, rng = Sampler(is_term), generator("all")
    assert sorted(sampler.sample(rng, TEXT, {(3,)}, 4, "page")) == [(1,), (2,), (4, 9), (6,)]
    # Weights of zero stay possible.
    np.testing.assert_allclose(SHARES.distribution(Weighted([(1,), (2,)], np.zeros(2)), set())[1], [0.5, 0.5])
    for short, pool, count in ((sampler, TEXT, 5), (OFFICIAL, Weighted([(3,)], np.ones(1)), 1)):
        with pytest.raises(NoPair, match="page-has-too-few-terms"):
            short.sample(rng, pool, {(3,)}, count, "page")
