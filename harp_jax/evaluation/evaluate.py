"""Evaluates runs against judgments with ir-measures, which matches trec_eval.

Measures are named as in ir-measures (`measures.py`). A document is relevant from level 1 unless `rel=` says otherwise;
nDCG's gain is the level itself (linear, as in trec_eval). Every query in the qrels counts; one missing from a run counts as zero
(`trec_eval -c`). A list of runs is one system trained with several seeds: its values are averaged per query. Runs are compared
with a baseline (`significance.py`), and on request with what every ranker has to beat: its candidates in random order and its own
ranking with blank queries. A re-ranker that has learned nothing scores well above 0; one that has only learned which documents are
popular scores above a random order. A system that is not above these rows is flagged, and so is one with constant scores.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.labels import check_relevant
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


def evaluate(
    qrels: Qrels,
    runs: Mapping[str, Run | Sequence[Run]],
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

    With `baseline` the other runs are compared with it by the measures `confirm` (default: all of `measures`), with `rounds` of
    randomisation and bootstrap from `seed`. `runs_per_draw`: consecutive runs sharing one training draw; the bootstrap resamples
    draws, then runs.

    `chance` names a run whose candidates in random order become the row "chance" (means of many orders); `blank` names, by
    system, its run with blank queries. A system that is not above either is flagged (`Table.verdicts`), by the first measure of
    `confirm`. These rows are not compared with the baseline.

    `oracle` names a run whose candidates in the best order become the row "oracle", the upper bound of re-ranking them.

    `intervals` adds 95 % bootstrap intervals of the runs' means by the first measure of `confirm` (`Table.intervals`).

    Raises InputError for unknown measures and runs, numbers out of range and empty qrels.
    """
    blank = blank or {}
    systems = {name: [some] if isinstance(some, Mapping) else [*some] for name, some in runs.items()}
    named = {"baseline": baseline, CHANCE: chance, ORACLE: oracle}
    _check(qrels, systems, named, blank, rounds, runs_per_draw)
    parsed = parse_measures(measures)
    tested = [str(m) for m in parsed if is_tested(m)]
    chosen = [str(m) for m in parse_measures(confirm)] if confirm else tested
    if not set(chosen) <= set(tested):
        raise InputError(f"{min(set(chosen) - set(tested))} is named by confirm, but is not among the measures; add it")

    # Row → measure → values [seeds, queries]: the systems, and the rows to compare them with.
    values = {name: _by_seed(qrels, seeds, parsed) for name, seeds in systems.items()}
    seeds_of = {name: len(seeds) for name, seeds in systems.items()}
    if chance:
        values[CHANCE], seeds_of[CHANCE] = chance_values(qrels, systems[chance][0], parsed, seed)
    if oracle:
        values[ORACLE] = _by_seed(qrels, [best_order(qrels, systems[oracle][0])], parsed)

    # What systems do not beat: 0 is in the 95 % interval of the difference from the row, or above it.
    judged = [name for name in systems if name not in blank.values()]
    resampled = bool(chosen and (baseline or chance or blank or intervals))
    groups, few_groups = groups_to_resample(qrels)
    verdicts = _constant(qrels, systems)
    for name in judged if chosen else ():
        for row, said in ((CHANCE if chance else "", NOT_ABOVE_CHANCE), (blank.get(name, ""), NOT_ABOVE_BLANK)):
            if row:
                mine, theirs = (values[each][chosen[0]] for each in (name, row))
                key = generator(seed, "floor", name, row, chosen[0])
                if bootstrap(mine, theirs, groups, key, rounds, runs_per_draw)[0] <= 0:
                    verdicts.setdefault(name, []).append(said)
    other_candidates = {}
    for name in judged if chance else ():
        pairs = [[{*run.get(qid, Ranking()).docids} for run in (systems[name][0], systems[chance][0])] for qid in qrels]
        if differing := sum(ours != theirs for ours, theirs in pairs):
            other_candidates[name] = differing

    # Intervals of the means, and comparisons with the baseline.
    bounds = {}
    for name in values if intervals and chosen else ():
        mine, key = values[name][chosen[0]], generator(seed, "interval", name, chosen[0])
        bounds[name] = bootstrap(mine, np.zeros((1, mine.shape[1])), groups, key, rounds, runs_per_draw)
    compared = {name: values[name] for name in systems if name in judged or name == baseline}
    comparisons = compare(compared, groups, baseline, chosen, rounds, seed, runs_per_draw) if baseline else []

    per_query = {
        name: {m: dict(zip(qrels, map(float, by_seed.mean(0)))) for m, by_seed in by_measure.items()}
        for name, by_measure in values.items()
    }
    numbered = {
        name if len(seeds) == 1 else f"{name} ({number})": run
        for name, seeds in systems.items()
        for number, run in enumerate(seeds, 1)
    }
    return Table(
        measures=[str(measure) for measure in parsed],
        queries=len(qrels),
        mean={name: {str(m): aggregate(m, by_qid[str(m)]) for m in parsed} for name, by_qid in per_query.items()},
        per_query=per_query,
        missing={name: [qid for qid in qrels if qid not in run] for name, run in numbered.items()},
        unknown={name: [qid for qid in run if qid not in qrels] for name, run in numbered.items()},
        groups=groups,
        seeds=seeds_of,
        baseline=baseline,
        comparisons=comparisons,
        few_groups=few_groups if resampled else 0.0,
        verdicts=verdicts,
        judged_by=chosen[0] if chosen and (chance or blank or intervals) else "",
        intervals=bounds,
        other_candidates=other_candidates,
    )


def _check(
    qrels: Qrels,
    systems: Mapping[str, Sequence[Run]],
    named: Mapping[str, str],
    blank: Mapping[str, str],
    rounds: int,
    draw: int,
) -> None:
    """InputError for names of runs that do not fit, judgments that no measure can count, and numbers out of range. `named`: option
    → the run that it names; `draw`: runs per draw."""
    wrong = ""
    for option, name in [*named.items(), *(("blank", name) for pair in blank.items() for name in pair)]:
        if name and name not in systems:
            wrong = f"no run is named {name!r} for --{option}; the runs are {', '.join(systems)}"
    if both := [name for name, row in blank.items() if row in blank]:
        wrong = f"--blank={both[0]}={blank[both[0]]}: {blank[both[0]]} is both a system and a run of blank queries; name another"
    if taken := [row for row in (CHANCE, ORACLE) if named[row] and row in systems]:
        wrong = f"a run is named {taken[0]!r}, like the added row; rename the run"
    for qid, docid, level in ((qid, docid, level) for qid, levels in qrels.items() for docid, level in levels.items()):
        if not isinstance(level, int | np.integer) or abs(level) > LARGEST_LEVEL:
            wrong = f"query {qid}, document {docid}: relevance {level!r} is not an integer within ±{LARGEST_LEVEL}; correct it"
    if not isinstance(rounds, int) or not FEWEST_ROUNDS <= rounds <= MOST_ROUNDS:
        wrong = f"rounds={rounds!r}: use a whole number of {FEWEST_ROUNDS} to {MOST_ROUNDS}"
    if draw < 1:
        wrong = f"runs_per_draw={draw}: use 1 or more"
    elif uneven := [name for name, seeds in systems.items() if len(seeds) > 1 and len(seeds) % draw]:
        wrong = f"{uneven[0]}: {len(systems[uneven[0]])} runs are not a whole number of draws of {draw}"
    if wrong:
        raise InputError(wrong)
    check_relevant(qrels)


def _by_seed(qrels: Qrels, seeds: Sequence[Run], measures: "list[Measure]") -> dict[str, np.ndarray]:
    """Measure → [seeds, queries] float64 of one system."""
    by_run = [calculate(qrels, run, measures) for run in seeds]
    return {m: np.array([list(one[m].values()) for one in by_run]) for m in map(str, measures)}


def _constant(qrels: Qrels, systems: Mapping[str, Sequence[Run]]) -> dict[str, list[str]]:
    """A verdict for each system whose scores are equal in most queries: it keeps the order of its candidates, such as BM25's."""
    verdicts: dict[str, list[str]] = {}
    for name, runs in systems.items():
        several = [np.asarray(run[q].scores, np.float32) for run in runs for q in qrels if q in run and len(run[q]) > 1]
        # Run files have equal scores a unit in the last place apart (`trec.strictly_decreasing`).
        equal = sum(bool(np.ptp(each) <= len(each) * np.spacing(np.abs(each).max())) for each in several)
        if 2 * equal > len(several):
            said = f"equal scores in {equal} of {len(several)} rankings: this is the order of its candidates"
            verdicts[name] = [said]
    return verdicts


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
        docids = sorted(ranking.ranked(), key=lambda docid: -qrels.get(qid, {}).get(docid, 0))
        best[qid] = Ranking.of(docids, range(len(docids), 0, -1))
    return best
