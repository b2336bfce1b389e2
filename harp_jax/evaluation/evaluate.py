"""Evaluates runs against judgments with ir-measures, which matches trec_eval.

Measures are named as in ir-measures (`measures.py`). A document is relevant from level 1 unless `rel=` says otherwise;
nDCG's gain is the level itself (linear, as in trec_eval). Every query in the qrels counts; one missing from a run counts as zero
(`trec_eval -c`). A list of runs is one system trained with several seeds: its values are averaged per query. Runs are compared
with a baseline (`significance.py`), and on request with what every ranker has to beat: its candidates in random order and its own
ranking with blank queries. A re-ranker that has learned nothing scores well above 0; one that has only learned which documents are
popular scores above a random order. A system that is not above these rows is flagged, and so is one with constant scores.
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

CHANCE, ORACLE = "chance", "oracle"  # names of rows
RANKINGS = 10_000  # minimum random rankings in total: RR@10 has a standard deviation of .3, so the mean has .003
ORDERS = (10, 300)  # minimum and maximum random orders per query
NOT_ABOVE_CHANCE = "not above chance"
NOT_ABOVE_BLANK = "no better than with its query blanked"
FEWEST_GROUPS = 10  # minimum effective number of groups for a group bootstrap
FEWEST_ROUNDS, MOST_ROUNDS = 100, 1_000_000
MEASURES = "RR@10 RR@100 nDCG@10 nDCG@100 AP"

Scores = Mapping[str, Mapping[str, float]]  # qid → docid → score
Values = Mapping[str, Mapping[str, np.ndarray]]  # row → measure → [seeds, queries]


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
    if not isinstance(blank, Mapping):
        raise InputError(f"blank={blank!r}: use {{system: its run of blank queries}}")
    check_names(runs, baseline, chance, blank, oracle)
    _check_values(qrels, runs, rounds, runs_per_draw)
    parsed = parse_measures(measures)
    systems = {name: _rankings(given) for name, given in runs.items()}
    judged = [name for name in systems if name not in blank.values()]
    values = {name: _by_seed(qrels, seeds, parsed) for name, seeds in systems.items()}
    if chance:
        values[CHANCE], orders = chance_values(qrels, systems[chance][0], parsed, seed)
    if oracle:
        values[ORACLE] = _by_seed(qrels, [best_order(qrels, systems[oracle][0])], parsed)
    table = replace(_table(qrels, systems, values, parsed), verdicts=_constant(qrels, systems))
    if chance:
        shared = [(name, systems[name][0], systems[chance][0]) for name in judged]
        counts = {name: sum(_docids(run, q) != _docids(than, q) for q in qrels) for name, run, than in shared}
        others = {name: count for name, count in counts.items() if count}
        table = replace(table, seeds=table.seeds | {CHANCE: orders}, other_candidates=others)
    if not (baseline or chance or blank or intervals):
        return replace(table, few_groups=0.0)  # nothing is resampled
    chosen, groups = _confirmed(parsed, confirm), table.groups
    if (chance or blank) and chosen:
        # A system fails if the 95 % interval of its difference from the row includes 0 or lies below it.
        fails = table.verdicts
        pairs = [(name, row) for name in judged for row in (chance and CHANCE, blank.get(name)) if row]
        for name, row in pairs:
            key = generator(seed, "floor", name, row, chosen[0])
            sides = values[name][chosen[0]], values[row][chosen[0]]
            if bootstrap(*sides, groups, key, rounds, runs_per_draw)[0] <= 0:
                fails.setdefault(name, []).append(NOT_ABOVE_CHANCE if row == CHANCE else NOT_ABOVE_BLANK)
        table = replace(table, verdicts=fails, judged_by=chosen[0])
    if intervals and chosen:
        bounds = {}
        for name, by_measure in values.items():
            mine, key = by_measure[chosen[0]], generator(seed, "interval", name, chosen[0])
            bounds[name] = bootstrap(mine, np.zeros((1, mine.shape[1])), groups, key, rounds, runs_per_draw)
        table = replace(table, intervals=bounds, judged_by=chosen[0])
    if baseline:
        compared = {name: values[name] for name in systems if name in judged or name == baseline}
        comparisons = compare(compared, groups, baseline, chosen, rounds, seed, runs_per_draw)
        table = replace(table, baseline=baseline, comparisons=comparisons)
    return table


def _constant(qrels: Qrels, systems: Mapping[str, Sequence[Run]]) -> dict[str, list[str]]:
    """A verdict for each system whose scores are equal in most queries: it keeps the order of its candidates, such as BM25's."""
    found: dict[str, list[str]] = {}
    for name, runs in systems.items():
        several = [
            np.asarray(run[qid].scores, np.float32) for run in runs for qid in qrels if qid in run and len(run[qid]) > 1
        ]
        # Run files have equal scores a unit in the last place apart (`trec.strictly_decreasing`).
        equal = sum(bool(np.ptp(each) <= len(each) * np.spacing(np.abs(each).max())) for each in several)
        if 2 * equal > len(several):
            found[name] = [f"equal scores in {equal} of {len(several)} rankings: this is the order of its candidates"]
    return found


def _by_seed(qrels: Qrels, seeds: Sequence[Run], measures: "list[Measure]") -> dict[str, np.ndarray]:
    """Measure → [seeds, queries] float64 of one system."""
    by_run = [calculate(qrels, run, measures) for run in seeds]
    return {m: np.array([list(one[m].values()) for one in by_run]) for m in map(str, measures)}


def _table(qrels: Qrels, systems: Mapping[str, Sequence[Run]], values: Values, measures: "list[Measure]") -> Table:
    """The table of all rows' means (`values`), with the runs' missing and unknown queries, without comparisons."""
    per_query = {
        name: {m: dict(zip(qrels, map(float, by_seed.mean(0)))) for m, by_seed in by_measure.items()}
        for name, by_measure in values.items()
    }
    runs = {
        name if len(seeds) == 1 else f"{name} ({number})": run
        for name, seeds in systems.items()
        for number, run in enumerate(seeds, 1)
    }
    groups, few = groups_to_resample(qrels)
    return Table(
        measures=[str(measure) for measure in measures],
        queries=len(qrels),
        mean={name: {str(m): aggregate(m, by_qid[str(m)]) for m in measures} for name, by_qid in per_query.items()},
        per_query=per_query,
        missing={name: [qid for qid in qrels if qid not in run] for name, run in runs.items()},
        unknown={name: [qid for qid in run if qid not in qrels] for name, run in runs.items()},
        groups=groups,
        seeds={name: len(seeds) for name, seeds in systems.items()},
        few_groups=few,
    )


def _confirmed(measures: "list[Measure]", confirm: str | list[str]) -> list[str]:
    """The names of the measures to test. InputError for one that is not among `measures`."""
    tested = [str(m) for m in measures if is_tested(m)]
    chosen = [str(m) for m in parse_measures(confirm)] if confirm else tested
    if not set(chosen) <= set(tested):
        raise InputError(f"{min(set(chosen) - set(tested))} is named by confirm, but is not among the measures; add it")
    return chosen


def check_names(rows: Collection[str], baseline: str, chance: str, blank: Mapping[str, str], oracle: str) -> None:
    """InputError for names that are not `rows` of the table, and for runs named like an added row."""
    named = [("baseline", baseline), ("chance", chance), ("oracle", oracle)]
    named += [("blank", name) for pair in blank.items() for name in pair]
    absent = [f"no run is named {name!r} for --{option}; the runs are {', '.join(rows)}" for option, name in named
              if name and name not in rows]  # fmt: skip
    taken = [f"a run is named {row!r}, like the added row; rename the run"
             for row, asked in ((CHANCE, chance), (ORACLE, oracle)) if asked and row in rows]  # fmt: skip
    alone = [f"--blank={system}={row}: {row} is both a system and a run of blank queries; name another run"
             for system, row in blank.items() if row in blank]  # fmt: skip
    if wrong := [*taken, *absent, *alone]:
        raise InputError(wrong[0])


def _check_values(qrels: Qrels, runs: Mapping[str, Any], rounds: int, runs_per_draw: int) -> None:
    """InputError for judgments that no measure can count, and for numbers out of range."""
    levels = ((qid, docid, level) for qid, judged in qrels.items() for docid, level in judged.items())
    odd = next((one for one in levels if not isinstance(one[2], int | np.integer) or abs(one[2]) > LARGEST_LEVEL), None)
    counts = {name: 1 if isinstance(run, Mapping) else len(run) for name, run in runs.items()}
    wrong = ""
    if not qrels:
        wrong = "the qrels have no query to evaluate; check the files"
    elif odd:
        wrong = f"query {odd[0]}, document {odd[1]}: relevance {odd[2]!r} is not an integer within ±{LARGEST_LEVEL}; correct it"
    elif not any(level > 0 for judged in qrels.values() for level in judged.values()):
        wrong = f"none of the {len(qrels)} judged queries has a relevant document (level 1 or more); check the qrels"
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


def groups_to_resample(qrels: Qrels) -> tuple[list[int], float]:
    """(the group number of each query, 0): queries that share relevant documents are not independent evidence.

    If the groups are too few to resample, (one group per query, the effective number of groups n² / Σ size²): a group with most of
    the queries would dominate every resample.
    """
    number = {qid: i for i, group in enumerate(components(qrels)) for qid in group}
    groups = [number[qid] for qid in qrels]
    effective = len(groups) ** 2 / float((np.bincount(groups) ** 2).sum())
    return (groups, 0.0) if effective >= FEWEST_GROUPS else ([*range(len(groups))], effective)


def chance_values(
    qrels: Qrels, run: Run, measures: "list[Measure]", seed: int = 0
) -> tuple[dict[str, np.ndarray], int]:
    """(measure → expected value [1, queries] of the run's candidates in random order, orders sampled per query)."""
    least, most = ORDERS
    orders = min(max(least, math.ceil(RANKINGS / len(qrels))), most)
    total = {str(measure): np.zeros(len(qrels)) for measure in measures}
    for number in range(orders):
        draw = generator(seed, "chance", number)
        mixed = {
            qid: Ranking.of([one.docids[i] for i in draw.permutation(len(one))], range(len(one), 0, -1))
            for qid, one in run.items()
        }
        for measure, (values,) in _by_seed(qrels, [mixed], measures).items():
            total[measure] += values
    return {measure: (values / orders)[None] for measure, values in total.items()}, orders


def best_order(qrels: Qrels, run: Run) -> Run:
    """The run's candidates by decreasing relevance, ties in the order of the run."""
    best: Run = {}
    for qid, ranking in run.items():
        judged = qrels.get(qid, {})
        docids = sorted(ranking.ranked(), key=lambda docid: -judged.get(docid, 0))
        best[qid] = Ranking.of(docids, range(len(docids), 0, -1))
    return best


def _docids(run: Run, qid: str) -> set[str]:
    return set(run[qid].docids if qid in run else ())
