"""Baselines that every ranker has to beat: its candidates in random order, and its own ranking with blank queries.

A re-ranker that has learned nothing scores well above 0; one that has only learned which documents are popular scores above a
random order. Tables therefore have a row "chance" and rows with blank queries, and flag systems that are not above them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import Qrels, Ranking, Run
from harp_jax.evaluation.measures import Measure, calculate, ordered
from harp_jax.evaluation.significance import bootstrap

CHANCE, ORACLE = "chance", "oracle"  # the names of the rows
RANKINGS = 10_000  # minimum random rankings in total: RR@10 has a standard deviation of .3, the mean one of .003
ORDERS = (10, 300)  # minimum and maximum random orders per query
NOT_ABOVE_CHANCE = "not above chance"
NOT_ABOVE_BLANK = "no better than with its query blanked"

Values = Mapping[str, np.ndarray]  # measure → [seeds, queries]


@dataclass(frozen=True)
class Floors:
    """What to compare systems with: `chance` is the row whose candidates are shuffled, `blank` maps a system to its row with
    blank queries, `oracle` is the row whose candidates are put in the best order.
    """

    chance: str = ""
    blank: Mapping[str, str] | None = None
    oracle: str = ""

    def check(self, rows: Sequence[str]) -> None:
        """Raises InputError for names that are not rows of the table, and for runs named like an added row."""
        for asked, row in ((self.chance, CHANCE), (self.oracle, ORACLE)):
            if asked and row in rows:
                raise InputError(f"a run is named {row!r}, the name of a row that is added; rename the run")
        blank = [("blank", name) for pair in (self.blank or {}).items() for name in pair]
        for option, name in (("chance", self.chance), *blank, ("oracle", self.oracle)):
            if name and name not in rows:
                raise InputError(f"no run is named {name!r} for --{option}; the runs are {', '.join(rows)}")
        for system, row in (self.blank or {}).items():
            if system == row:
                raise InputError(
                    f"--blank={system}={row}: a row is compared with itself; name the run of blank queries"
                )

    @property
    def rows(self) -> set[str]:
        """Rows that are not systems."""
        added = [*([CHANCE] if self.chance else []), *([ORACLE] if self.oracle else [])]
        return {*(self.blank or {}).values(), *added}


def chance_values(qrels: Qrels, run: Run, measures: list[Measure], seed: int = 0) -> tuple[dict[str, np.ndarray], int]:
    """(measure → expected value [1, queries] of the run's candidates in random order, orders sampled per query)."""
    least, most = ORDERS
    orders = min(max(least, math.ceil(RANKINGS / len(qrels))), most)
    total = {str(measure): np.zeros(len(qrels)) for measure in measures}
    for number in range(orders):
        found = calculate(qrels, shuffled(run, generator(seed, "chance", number)), measures)
        for measure, values in found.items():
            total[measure] += np.fromiter(values.values(), np.float64, len(values))
    return {measure: (values / orders)[None] for measure, values in total.items()}, orders


def oracle_values(qrels: Qrels, run: Run, measures: list[Measure]) -> dict[str, np.ndarray]:
    """Measure → value [1, queries] of the run's candidates by decreasing relevance, ties in the order of the run."""
    best: Run = {}
    for qid, ranking in run.items():
        judged = qrels.get(qid, {})
        docids = sorted(ordered(ranking), key=lambda docid: -judged.get(docid, 0))
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
    values: Mapping[str, Values],
    floors: Floors,
    measure: str,
    groups: Sequence[int],
    *,
    rounds: int,
    seed: int = 0,
    runs_per_draw: int = 1,
) -> dict[str, list[str]]:
    """System → what it does not beat: the 95 % bootstrap interval of the difference includes 0 or lies below it.

    values: row → measure → [seeds, queries], with the row CHANCE if `floors.chance` is set; groups: [queries], see `bootstrap`.
    """
    found: dict[str, list[str]] = {}
    for system in values:
        if system in floors.rows:
            continue
        compared = [(CHANCE, NOT_ABOVE_CHANCE)] if floors.chance else []
        compared += [(floors.blank[system], NOT_ABOVE_BLANK)] if floors.blank and system in floors.blank else []
        for row, verdict in compared:
            first, second = values[system][measure], values[row][measure]
            key = generator(seed, "floor", system, row, measure)
            lowest, _ = bootstrap(first, second, groups, key, rounds, runs_per_draw)
            if lowest <= 0:
                found.setdefault(system, []).append(verdict)
    return found


def other_candidates(run: Run, than: Run, queries: Sequence[str]) -> int:
    """Number of queries with different candidates in the two runs."""
    return sum(
        set(run[qid].docids if qid in run else ()) != set(than[qid].docids if qid in than else ()) for qid in queries
    )
