"""Evaluates runs against judgments with ir-measures, which matches trec_eval.

Measures are named as in ir-measures (`measures.py`). A document is relevant from level 1 unless `rel=` says otherwise;
nDCG's gain is the level itself (linear, as in trec_eval). Every query in the qrels counts; one missing from a run counts as zero
(`trec_eval -c`). A list of runs is one system trained with several seeds: its values are averaged per query. Runs are compared
with a baseline (`significance.py`), and on request with what every ranker has to beat: its candidates in random order and its own
ranking with blank queries. A re-ranker that has learned nothing scores well above 0; one that has only learned which documents are
popular scores above a random order. A system that is not above these rows is flagged.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import LARGEST_LEVEL, Qrels, Ranking, Run, components
from harp_jax.evaluation.measures import aggregate, calculate, is_tested, parse_measures
from harp_jax.evaluation.results import Table
from harp_jax.evaluation.significance import ROUNDS, bootstrap, compare

if TYPE_CHECKING:
    from ir_measures import Measure

CHANCE, ORACLE = "chance", "oracle"  # the names of the rows
RANKINGS = 10_000  # minimum random rankings in total: RR@10 has a standard deviation of .3, the mean one of .003
ORDERS = (10, 300)  # minimum and maximum random orders per query
NOT_ABOVE_CHANCE = "not above chance"
NOT_ABOVE_BLANK = "no better than with its query blanked"
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
    blank = blank or {}
    check_names(runs, baseline, chance, blank, oracle)
    _check_values(qrels, runs, rounds, runs_per_draw)
    parsed = parse_measures(measures)
    systems = {name: _rankings(given) for name, given in runs.items()}
    floors = {
        *blank.values(),
        *([CHANCE] if chance else []),
        *([ORACLE] if oracle else []),
    }  # rows that are not systems
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
            if name not in floors and (count := other_candidates(seeds[0], systems[chance][0], list(qrels))):
                different[name] = count
    if oracle:
        values[ORACLE] = oracle_values(qrels, systems[oracle][0], parsed)
    per_query = {
        name: {m: dict(zip(qrels, map(float, by_seed.mean(0)))) for m, by_seed in by_measure.items()}
        for name, by_measure in values.items()
    }
    groups = groups_of(qrels)
    effective = effective_groups(groups)
    if effective < FEWEST_GROUPS:
        groups = [*range(len(groups))]
    table = Table(
        measures=[str(measure) for measure in parsed],
        queries=len(qrels),
        mean={name: {str(m): aggregate(m, found[str(m)]) for m in parsed} for name, found in per_query.items()},
        per_query=per_query,
        missing=missing,
        unknown=unknown,
        groups=groups,
        seeds={name: len(seeds) for name, seeds in systems.items()} | ({CHANCE: orders} if chance else {}),
        other_candidates=different,
    )
    if not (baseline or chance or blank or intervals):
        return table
    tested = [str(m) for m in parsed if is_tested(m)]
    chosen = [str(m) for m in parse_measures(confirm)] if confirm else tested
    if not set(chosen) <= set(tested):
        raise InputError(f"{min(set(chosen) - set(tested))} is to be confirmed, but is not among the measures; add it")
    if effective < FEWEST_GROUPS:
        table = replace(table, few_groups=effective)
    if (chance or blank) and chosen:
        compared_with = {name: [blank[name]] if name in blank else [] for name in systems if name not in floors}
        if chance:
            compared_with = {name: [CHANCE, *rows] for name, rows in compared_with.items()}
        beaten_by = verdicts(
            values, compared_with, chosen[0], groups, rounds=rounds, seed=seed, runs_per_draw=runs_per_draw
        )
        table = replace(table, verdicts=beaten_by, judged_by=chosen[0])
    if intervals and chosen:
        found_intervals = {}
        for name, by_measure in values.items():
            mine, key = by_measure[chosen[0]], generator(seed, "interval", name, chosen[0])
            found_intervals[name] = bootstrap(mine, np.zeros((1, mine.shape[1])), groups, key, rounds, runs_per_draw)
        table = replace(table, intervals=found_intervals, judged_by=chosen[0])
    if baseline:
        compared = {name: values[name] for name in values if name not in floors or name == baseline}
        comparisons = compare(compared, groups, baseline, chosen, rounds, seed, runs_per_draw)
        table = replace(table, baseline=baseline, comparisons=comparisons)
    return table


def check_names(rows: Collection[str], baseline: str, chance: str, blank: Mapping[str, str], oracle: str) -> None:
    """InputError for names that are not `rows` of the table, and for runs named like an added row."""
    named = [("baseline", baseline), ("chance", chance), ("oracle", oracle)]
    named += [("blank", name) for pair in blank.items() for name in pair]
    absent = [f"no run is named {name!r} for --{option}; the runs are {', '.join(rows)}" for option, name in named
              if name and name not in rows]  # fmt: skip
    taken = [f"a run is named {row!r}, the name of a row that is added; rename the run"
             for row, asked in ((CHANCE, chance), (ORACLE, oracle)) if asked and row in rows]  # fmt: skip
    alone = [f"--blank={system}={row}: a row is compared with itself; name the run of blank queries"
             for system, row in blank.items() if system == row]  # fmt: skip
    if wrong := [*taken, *absent, *alone]:
        raise InputError(wrong[0])


def _check_values(qrels: Qrels, runs: Mapping[str, Any], rounds: int, runs_per_draw: int) -> None:
    """InputError for judgments that no measure can count, and for numbers out of range."""
    levels = ((qid, docid, level) for qid, judged in qrels.items() for docid, level in judged.items())
    odd = next((one for one in levels if not isinstance(one[2], int | np.integer) or abs(one[2]) > LARGEST_LEVEL), None)
    counts = {name: 1 if isinstance(run, Mapping) else len(run) for name, run in runs.items()}
    wrong = ""
    if not qrels:
        wrong = "the qrels hold no query to evaluate; check the files"
    elif odd:
        wrong = (
            f"query {odd[0]}, document {odd[1]}: relevance {odd[2]!r} is no integer within ±{LARGEST_LEVEL}; correct it"
        )
    elif not isinstance(rounds, int) or not FEWEST_ROUNDS <= rounds <= MOST_ROUNDS:
        wrong = f"rounds={rounds!r}: use a whole number of {FEWEST_ROUNDS} to {MOST_ROUNDS}"
    elif runs_per_draw < 1:
        wrong = f"runs_per_draw={runs_per_draw}: use 1 or more"
    elif uneven := [name for name, count in counts.items() if count > 1 and count % runs_per_draw]:
        wrong = f"{uneven[0]}: {counts[uneven[0]]} runs are not a whole number of draws of {runs_per_draw}"
    if wrong:
        raise InputError(wrong)


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


def chance_values(
    qrels: Qrels, run: Run, measures: "list[Measure]", seed: int = 0
) -> tuple[dict[str, np.ndarray], int]:
    """(measure → expected value [1, queries] of the run's candidates in random order, orders sampled per query)."""
    least, most = ORDERS
    orders = min(max(least, math.ceil(RANKINGS / len(qrels))), most)
    total = {str(measure): np.zeros(len(qrels)) for measure in measures}
    for number in range(orders):
        found = calculate(qrels, shuffled(run, generator(seed, "chance", number)), measures)
        for measure, values in found.items():
            total[measure] += np.fromiter(values.values(), np.float64, len(values))
    return {measure: (values / orders)[None] for measure, values in total.items()}, orders


def oracle_values(qrels: Qrels, run: Run, measures: "list[Measure]") -> dict[str, np.ndarray]:
    """Measure → value [1, queries] of the run's candidates by decreasing relevance, ties in the order of the run."""
    best: Run = {}
    for qid, ranking in run.items():
        judged = qrels.get(qid, {})
        docids = sorted(ranking.ranked(), key=lambda docid: -judged.get(docid, 0))
        best[qid] = Ranking.of(docids, range(len(docids), 0, -1))
    found = calculate(qrels, best, measures)
    return {measure: np.fromiter(values.values(), np.float64, len(values))[None] for measure, values in found.items()}


def shuffled(run: Run, draw: np.random.Generator) -> Run:
    """The candidates of every query in a random order."""
    return {
        qid: Ranking.of([ranking.docids[i] for i in draw.permutation(len(ranking))], range(len(ranking), 0, -1))
        for qid, ranking in run.items()
    }


def verdicts(
    values: Mapping[str, Mapping[str, np.ndarray]],
    compared_with: Mapping[str, Sequence[str]],
    measure: str,
    groups: Sequence[int],
    *,
    rounds: int,
    seed: int = 0,
    runs_per_draw: int = 1,
) -> dict[str, list[str]]:
    """System → what it does not beat: the 95 % bootstrap interval of the difference includes 0 or lies below it.

    values: row → measure → [seeds, queries]; compared_with: system → rows; groups: [queries], see `bootstrap`.
    """
    found: dict[str, list[str]] = {}
    for system, rows in compared_with.items():
        for row in rows:
            first, second = values[system][measure], values[row][measure]
            key = generator(seed, "floor", system, row, measure)
            lowest, _ = bootstrap(first, second, groups, key, rounds, runs_per_draw)
            if lowest <= 0:
                found.setdefault(system, []).append(NOT_ABOVE_CHANCE if row == CHANCE else NOT_ABOVE_BLANK)
    return found


def other_candidates(run: Run, than: Run, queries: Sequence[str]) -> int:
    """Number of queries with different candidates in the two runs."""
    return sum(
        set(run[qid].docids if qid in run else ()) != set(than[qid].docids if qid in than else ()) for qid in queries
    )
