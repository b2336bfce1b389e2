"""Compares runs: paired tests over groups of queries with Holm's correction, and bootstrap intervals.

Queries that share relevant documents are not independent: tests over single queries then call too many differences significant.

Holm's correction covers all comparisons in one table, so test only measures chosen beforehand (`harp evaluate --confirm`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harp_jax.base.randomness import generator

ROUNDS = 10_000  # of randomisation and bootstrap
CHUNK = 250  # rounds computed together; memory is CHUNK × queries
LEVEL = 0.05  # of significance
ONE_RUN = "do not include training seeds"  # said of the intervals of a system with one run


@dataclass(frozen=True)
class Comparison:
    """A run compared with the baseline by one measure, over the queries of the qrels; seeds are averaged per query. `interval` is
    the 95 % bootstrap interval of the difference of means, resampling groups of queries that share relevant documents, and each
    system's seeds. The p-values are two-sided and use the same groups; `…_holm` are corrected for all comparisons of the table.
    They cover queries, not training seeds; with one run per system, the interval does not cover seeds either. `seed_ratio`: the
    standard deviation of a single run's difference over training seeds, relative to its standard error over queries; None if
    neither system has several runs."""

    run: str
    measure: str
    difference: float
    interval: tuple[float, float]
    t_test: float
    t_test_holm: float
    randomisation: float
    randomisation_holm: float
    seed_ratio: float | None = None

    @property
    def p(self) -> float:
        """The larger of the two p-values, after Holm's correction."""
        return max(self.t_test_holm, self.randomisation_holm)

    @property
    def significant(self) -> bool:
        return self.p < LEVEL

    @property
    def verdict(self) -> str:
        if not self.significant:
            return "inconclusive"
        return "better" if self.difference > 0 else "worse"


def clustered_t(differences: np.ndarray, groups: Sequence[int]) -> float:
    """Two-sided p of the t-test with cluster-robust variance, G - 1 degrees of freedom; the paired t-test if groups are single.
    differences, groups: [queries]. 1 for a difference of 0 and for fewer than two groups."""
    from scipy import stats

    mean, count = differences.mean() if len(differences) else 0.0, len(set(groups))
    variance = clustered_variance(differences, groups)
    if count < 2 or not variance or not np.ptp(differences):
        # No variance: the t statistic is undefined. The groups' differences are 0, or all are the same.
        return 1.0 if count < 2 or not mean else 0.0
    return float(2 * stats.t.sf(abs(mean) / math.sqrt(variance), count - 1))


def clustered_variance(differences: np.ndarray, groups: Sequence[int]) -> float:
    """The cluster-robust variance of the mean of differences [queries]: its square root is the standard error over queries."""
    mean, count = differences.mean() if len(differences) else 0.0, len(set(groups))
    deviations = np.bincount(groups, differences - mean)
    return float(count / max(count - 1, 1) * (deviations**2).sum() / max(len(differences), 1) ** 2)


def seed_ratio(first: np.ndarray, second: np.ndarray, groups: Sequence[int]) -> float | None:
    """`Comparison.seed_ratio` of two systems' values [seeds, queries]."""
    several = [side.mean(1) for side in (first, second) if len(side) > 1]
    error = math.sqrt(clustered_variance(first.mean(0) - second.mean(0), groups))
    return math.sqrt(sum(means.var(ddof=1) for means in several)) / error if several and error else None


def randomisation(differences: np.ndarray, draw: np.random.Generator, rounds: int = ROUNDS) -> float:
    """Two-sided p of Fisher's randomisation test: how often random signs put the sum as far from 0 as observed. differences:
    [queries], or their sums over groups [groups]."""
    observed = abs(differences.sum())
    as_far = 0
    for start in range(0, rounds, CHUNK):
        signs = draw.integers(0, 2, (min(CHUNK, rounds - start), len(differences)), dtype=np.int8) * 2 - 1
        # Tolerance: sums of the same numbers in a different order differ in their last bits.
        as_far += int((np.abs(signs @ differences) >= observed * (1 - 1e-12)).sum())
    return (as_far + 1) / (rounds + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the given order."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def bootstrap(
    first: np.ndarray,
    second: np.ndarray,
    groups: Sequence[int],
    draw: np.random.Generator,
    rounds: int = ROUNDS,
    runs_per_draw: int = 1,
) -> tuple[float, float]:
    """95 % percentile interval of mean(first) - mean(second). first, second: [seeds, queries]; groups: [queries]. Whole groups of
    queries are resampled, the same for both sides; seeds are resampled for each side independently. `runs_per_draw`: consecutive
    runs sharing one few-shot draw of training queries; draws are resampled, then runs within them, because runs of one draw are not
    independent evidence for other training queries."""
    number = np.asarray(groups)
    count = int(number.max()) + 1
    sizes = np.bincount(number, minlength=count).astype(float)
    sums = [np.stack([np.bincount(number, row, count) for row in side], axis=1) for side in (first, second)]
    means = []
    for start in range(0, rounds, CHUNK):
        times = draw.multinomial(count, np.full(count, 1 / count), min(CHUNK, rounds - start)).astype(float)
        sides = []
        for side in sums:
            by_seed = times @ side / (times @ sizes)[:, None]
            chosen = resampled(side.shape[1], runs_per_draw, len(times), draw)
            sides.append(np.take_along_axis(by_seed, chosen, axis=1).mean(1))
        means.append(sides[0] - sides[1])
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return float(low), float(high)


def resampled(runs: int, together: int, rounds: int, draw: np.random.Generator) -> np.ndarray:
    """Indices [rounds, runs] of runs resampled with replacement: first draws of `together` runs, then runs within them."""
    if runs == 1 or together == 1:
        return draw.integers(0, runs, (rounds, runs))
    draws = draw.integers(0, runs // together, (rounds, runs // together, 1))
    return (draws * together + draw.integers(0, together, (rounds, runs // together, together))).reshape(rounds, runs)


def compare(
    values: Mapping[str, Mapping[str, np.ndarray]],
    groups: Sequence[int],
    baseline: str,
    measures: Sequence[str],
    rounds: int = ROUNDS,
    seed: int = 0,
    runs_per_draw: int = 1,
) -> list[Comparison]:
    """Compares every other run with the baseline. values: run → measure → [seeds, queries]; `runs_per_draw`: see `bootstrap`."""
    rows = []
    for run in values:
        for measure in measures if run != baseline else ():
            first, second = values[run][measure], values[baseline][measure]
            differences = first.mean(0) - second.mean(0)
            sums = np.bincount(groups, differences)
            p = randomisation(sums, generator(seed, "randomisation", run, measure), rounds)
            key = generator(seed, "bootstrap", run, measure)
            interval = bootstrap(first, second, groups, key, rounds, runs_per_draw)
            difference = math.fsum(differences) / len(differences)
            ratio = seed_ratio(first, second, groups)
            rows.append((run, measure, difference, interval, clustered_t(differences, groups), p, ratio))
    t_holm, r_holm = holm([row[4] for row in rows]), holm([row[5] for row in rows])
    return [Comparison(*row[:5], t, row[5], r, row[6]) for row, t, r in zip(rows, t_holm, r_holm)]
