"""Significance tests against scipy, an exhaustive count and a slow bootstrap, and their error rates."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harp_jax.base.randomness import generator
from harp_jax.evaluation.significance import bootstrap, clustered_t, compare, holm, randomisation, seed_ratio

RNG = np.random.default_rng(5)


def test_groups_of_one_size_have_the_t_test_of_their_means():
    differences = RNG.normal(0.1, 1, 60)
    for size in (1, 3):  # 1: the paired t-test
        means = differences.reshape(-1, size).mean(1)
        found = clustered_t(differences, np.repeat(np.arange(len(means)), size))
        assert found == pytest.approx(stats.ttest_1samp(means, 0).pvalue, rel=1e-9)
    assert clustered_t(np.array([1.0, -1, 1, -1]), [0, 0, 1, 1]) == 1.0  # a difference of 0 without variance
    assert clustered_t(np.zeros(9), range(9)) == 1.0 and clustered_t(np.array([0.3]), [0]) == 1.0


@pytest.mark.parametrize("effect", (1, 4))
def test_a_true_null_is_called_significant_as_often_as_the_level_says(effect):
    """Groups of 1 to 12 queries with correlated differences: the variance of the mean is `effect` times as large."""
    rng, called = np.random.default_rng(effect + 10), np.zeros(3)
    for number in range(500):
        groups = np.repeat(np.arange(132), rng.integers(1, 13, 132))
        sizes = np.bincount(groups)
        shared = (effect - 1) / ((sizes**2).sum() / sizes.sum() - 1)
        draws = shared**0.5 * rng.normal(0, 1, 132)[groups] + (1 - shared) ** 0.5 * rng.normal(0, 1, len(groups))
        values = {"new": {"RR": draws[None]}, "old": {"RR": np.zeros((1, len(groups)))}}
        (found,) = compare(values, groups, "old", ["RR"], 250, number)
        low, high = found.interval
        called += [found.t_test < 0.05, found.randomisation < 0.05, not low <= 0 <= high]
    assert (np.abs(called / 500 - 0.05) <= 0.02).all(), called / 500


def test_randomisation_approaches_the_count_of_all_signs():
    differences = RNG.normal(0.2, 0.5, 10)
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product((-1, 1), repeat=10)]
    exact = np.mean([s >= abs(differences.sum()) - 1e-12 for s in sums])
    found = randomisation(differences, generator("signs"), 20_000)
    assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / 20_000) + 1 / 20_000
    assert randomisation(np.zeros(5), generator("signs"), 100) == 1.0


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_its_definition(p):
    adjusted = holm(p)
    order = sorted(range(len(p)), key=p.__getitem__)
    steps = [(len(p) - place) * p[index] for place, index in enumerate(order)]
    expected = [min(1, max(steps[: place + 1])) for place in range(len(p))]
    assert [adjusted[index] for index in order] == pytest.approx(expected)


def slow_bootstrap(first, second, groups, rng, rounds):
    members = [[q for q, g in enumerate(groups) if g == number] for number in range(max(groups) + 1)]
    means = []
    for _ in range(rounds):
        queries = [q for g in rng.integers(0, len(members), len(members)) for q in members[g]]
        sides = []
        for side in (first, second):
            seeds = rng.integers(0, len(side), len(side))
            sides.append(np.mean([side[s][queries].mean() for s in seeds]))
        means.append(sides[0] - sides[1])
    return np.quantile(means, [0.025, 0.975])


def test_bootstrap_is_the_slow_one():
    groups = [0, 0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8]
    first, second = RNG.random((3, 12)) + 0.3, RNG.random((2, 12))
    found = bootstrap(first, second, groups, generator("boot"), 20_000)
    np.testing.assert_allclose(found, slow_bootstrap(first, second, groups, RNG, 8_000), atol=0.02)


def test_the_spread_of_seeds_is_compared_with_that_of_queries():
    queries = np.repeat([0.1, -0.1], 12)
    first = queries + np.array([[-0.03], [0.0], [0.03]]) + 0.5
    second = np.full((1, 24), 0.4)
    error = (first.mean(0) - second[0]).std(ddof=1) / np.sqrt(24)
    pairs = [n // 2 for n in range(24)]  # pairs of queries that share documents count as one
    assert seed_ratio(first, second, pairs) < seed_ratio(first, second, range(24))
    values = {"mine": {"AP": first}, "one": {"AP": first[:1]}, "base": {"AP": second}}
    mine, one = compare(values, range(24), "base", ["AP"], rounds=100)
    assert mine.seed_ratio == pytest.approx(0.03 / error) and one.seed_ratio is None


def test_intervals_of_draws_with_several_seeds_cover_as_often_as_they_say():
    """Ten draws with three seeds each: mainly the draws vary, so these are not thirty independent runs."""
    zeros, covered = np.zeros((1, 100)), {1: 0, 3: 0}
    rng = np.random.default_rng(11)
    for number in range(100):
        draws = rng.normal(0, 0.03, (10, 1)) + rng.normal(0, 0.005, (10, 3))
        runs = draws.reshape(30, 1) + rng.normal(0, 0.03, 100)
        for together in covered:
            low, high = bootstrap(runs, zeros, range(100), generator("draws", number), 250, together)
            covered[together] += low <= 0 <= high
    assert covered[3] >= 84 and covered[1] <= covered[3] - 8
