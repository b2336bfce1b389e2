"""Evaluates runs against judgments with ir-measures, which matches trec_eval.

Measures are named as in ir-measures (`measures.py`). A document is relevant from level 1 unless `rel=` says otherwise;
nDCG's gain is the level itself (linear, as in trec_eval). Every query in the qrels counts; one missing from a run counts as zero
(`trec_eval -c`). A list of runs is one system trained with several seeds: its values are averaged per query. Runs are compared
with a baseline (`significance.py`), and on request with chance and blank queries (`floors.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import LARGEST_LEVEL, Qrels, Ranking, Run, components
from harp_jax.evaluation.floors import CHANCE, ORACLE, Floors, chance_values, oracle_values, other_candidates, verdicts
from harp_jax.evaluation.measures import aggregate, calculate, is_tested, parse_measures
from harp_jax.evaluation.significance import ROUNDS, bootstrap, compare
from harp_jax.evaluation.tables import Table

FEWEST_GROUPS = 10  # minimum effective number of groups for a group bootstrap
FEWEST_ROUNDS, MOST_ROUNDS = 100, 1_000_000
MEASURES = "RR@10 RR@100 nDCG@10 nDCG@100 AP"

Scores = Mapping[str, Mapping[str, float]]  # qid → docid → score


def evaluate(
    qrels: Qrels,
    runs: Mapping[str, Run | Scores | Sequence[Run | Scores]],
    measures: str | list[str] = MEASURES,
    baseline: str = "",
    confirm: str | list[str] = "",
    rounds: int = ROUNDS,
    seed: int = 0,
    runs_per_draw: int = 1,
    chance: str = "",
    blank: Mapping[str, str] | None = None,
    intervals: bool = False,
    oracle: str = "",
) -> Table:
    """Computes all measures of all runs, per query and averaged over the queries of the qrels; lists of runs are averaged.

    A run is what `read_run` returns, or qid → docid → score. With `baseline` the other runs are compared with it by the
    measures `confirm` (default: all of `measures`), with `rounds` of randomisation and bootstrap from `seed`.
    `runs_per_draw`: consecutive runs sharing one training draw; the bootstrap resamples draws, then runs.

    `chance` names a run whose candidates in random order become the row "chance" (means of many orders); `blank` names, by
    system, its run with blank queries. A system that is not above either is flagged (`Table.verdicts`), by the first measure of
    `confirm`. These rows are not compared with the baseline.

    `oracle` names a run whose candidates in the best order become the row "oracle", the upper bound of re-ranking them.

    `intervals` adds 95 % bootstrap intervals of the runs' means by the first measure of `confirm` (`Table.intervals`).

    Raises InputError for unknown measures and runs, numbers out of range and empty qrels.
    """
    if not qrels:
        raise InputError("the qrels hold no query to evaluate; check the files")
    for qid, judged in qrels.items():
        for docid, level in judged.items():
            if not isinstance(level, int | np.integer) or abs(level) > LARGEST_LEVEL:
                raise InputError(
                    f"query {qid}, document {docid}: relevance {level!r} is no integer within ±{LARGEST_LEVEL}; correct it"
                )
    if not isinstance(rounds, int) or not FEWEST_ROUNDS <= rounds <= MOST_ROUNDS:
        raise InputError(f"rounds={rounds!r}: use a whole number of {FEWEST_ROUNDS} to {MOST_ROUNDS}")
    if runs_per_draw < 1:
        raise InputError(f"runs_per_draw={runs_per_draw}: use 1 or more")
    if baseline and baseline not in runs:
        raise InputError(f"no run is named {baseline!r} for the baseline; the runs are {', '.join(runs)}")
    floors = Floors(chance, blank, oracle)
    floors.check(list(runs))
    parsed = parse_measures(measures)
    systems = {name: _rankings(given) for name, given in runs.items()}
    for name, seeds in systems.items():
        if len(seeds) > 1 and len(seeds) % runs_per_draw:
            raise InputError(f"{name}: {len(seeds)} runs are not a whole number of draws of {runs_per_draw}")
    values: dict[str, dict[str, np.ndarray]] = {}  # run → measure → [seeds, queries]
    missing: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    for name, seeds in systems.items():
        found = [calculate(qrels, run, parsed) for run in seeds]
        values[name] = {m: np.array([list(one[m].values()) for one in found]) for m in map(str, parsed)}
        for number, run in enumerate(seeds, 1):
            label = name if len(seeds) == 1 else f"{name} ({number})"
            missing[label] = [qid for qid in qrels if qid not in run]
            unknown[label] = [qid for qid in run if qid not in qrels]
    orders = 0
    different: dict[str, int] = {}  # system → queries with other candidates than the row "chance"
    if chance:
        values[CHANCE], orders = chance_values(qrels, systems[chance][0], parsed, seed)
        for name, seeds in systems.items():
            if name not in floors.rows and (count := other_candidates(seeds[0], systems[chance][0], list(qrels))):
                different[name] = count
    if oracle:
        values[ORACLE] = oracle_values(qrels, systems[oracle][0], parsed)
    per_query = {
        name: {m: dict(zip(qrels, map(float, by_seed.mean(0)))) for m, by_seed in by_measure.items()}
        for name, by_measure in values.items()
    }
    table = Table(
        measures=[str(measure) for measure in parsed],
        queries=len(qrels),
        mean={name: {str(m): aggregate(m, found[str(m)]) for m in parsed} for name, found in per_query.items()},
        per_query=per_query,
        missing=missing,
        unknown=unknown,
        seeds={name: len(seeds) for name, seeds in systems.items()} | ({CHANCE: orders} if chance else {}),
        other_candidates=different,
    )
    if not (baseline or chance or blank or intervals):
        return table
    tested = [str(m) for m in parsed if is_tested(m)]
    chosen = [str(m) for m in parse_measures(confirm)] if confirm else tested
    if not set(chosen) <= set(tested):
        raise InputError(f"{min(set(chosen) - set(tested))} is to be confirmed, but is not among the measures; add it")
    groups: Sequence[int] = groups_of(qrels)
    effective = effective_groups(groups)
    if effective < FEWEST_GROUPS:
        groups = range(len(groups))
        table = replace(table, few_groups=effective)
    if (chance or blank) and chosen:
        beaten_by = verdicts(values, floors, chosen[0], groups, rounds=rounds, seed=seed, runs_per_draw=runs_per_draw)
        table = replace(table, verdicts=beaten_by, judged_by=chosen[0])
    if intervals and chosen:
        found_intervals = {}
        for name, by_measure in values.items():
            mine, key = by_measure[chosen[0]], generator(seed, "interval", name, chosen[0])
            found_intervals[name] = bootstrap(mine, np.zeros((1, mine.shape[1])), groups, key, rounds, runs_per_draw)
        table = replace(table, intervals=found_intervals, judged_by=chosen[0])
    if baseline:
        compared = {name: values[name] for name in values if name not in floors.rows or name == baseline}
        comparisons = compare(compared, groups, baseline, chosen, rounds, seed, runs_per_draw)
        table = replace(table, baseline=baseline, comparisons=comparisons)
    return table


def _rankings(given: Run | Scores | Sequence[Run | Scores]) -> list[Run]:
    """The runs of one system, one per seed."""
    return [
        {qid: one if isinstance(one, Ranking) else Ranking.of([*one], one.values()) for qid, one in run.items()}
        for run in ([given] if isinstance(given, Mapping) else given)
    ]


def groups_of(qrels: Qrels) -> list[int]:
    """The group number of each query: queries that share relevant documents are not independent evidence."""
    number = {qid: i for i, group in enumerate(components(qrels)) for qid in group}
    return [number[qid] for qid in qrels]


def effective_groups(groups: Sequence[int]) -> float:
    """Effective number of groups: n² / Σ size². A group with most of the queries would dominate every resample."""
    sizes = np.bincount(groups)
    return len(groups) ** 2 / float((sizes**2).sum())
