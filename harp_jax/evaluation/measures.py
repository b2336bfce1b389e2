"""Measures by name: those of ir-measures, which match trec_eval, and two that show the limits of a run or its judgments.

RR@10, nDCG@10, AP, P@5, R@100, Rprec, RR(rel=2)@10     ir-measures
oracle(RR@10)      the measure of the ideally ordered run: an upper bound for re-ranking its candidates
unjudged@10        the share of unjudged documents in the top 10
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, TypeAlias

from harp_jax.base.errors import InputError, needs
from harp_jax.corpus.trec import Qrels, Run

if TYPE_CHECKING:
    import ir_measures

Values = dict[str, float]  # qid → value
COUNTS = "Num"  # NumRet, NumRel, NumRelRet and NumQ are summed over queries
DEEPEST = 10**6  # maximum cutoff, deeper than any run


@dataclass(frozen=True)
class Oracle:
    """The measure of the run's documents sorted by relevance level (ties in the run's order)."""

    measure: "ir_measures.Measure"

    def __str__(self) -> str:
        return f"oracle({self.measure})"


@dataclass(frozen=True)
class Unjudged:
    """Share of unjudged documents in the top k, or in the whole of a shorter ranking."""

    k: int

    def __str__(self) -> str:
        return f"unjudged@{self.k}"


Measure: TypeAlias = "Oracle | Unjudged | ir_measures.Measure"


def parse_measures(measures: str | list[str]) -> list[Measure]:
    """Parses names of measures (a list, or a string separated by spaces), without duplicates.

    Computes each once on a toy run, because some names parse but cannot be computed. InputError for unknown names.
    """
    names = measures.split() if isinstance(measures, str) else list(measures)
    parsed: list[Measure] = []
    for name in names or [""]:
        measure = _parse(name)
        if measure not in parsed:
            parsed.append(measure)
    return parsed


def one_measure(name: str) -> Measure:
    """The measure to tune or select by. InputError for several, and for one of which more is not better, such as unjudged@10."""
    measures = parse_measures(name)
    if len(measures) != 1 or not is_tested(measures[0]):
        raise InputError(f"{name!r}: name one measure of the ranking, such as RR@10")
    return measures[0]


def _parse(name: str) -> Measure:
    if inner := re.fullmatch(r"oracle\((.+)\)", name):
        return Oracle(_from_ir_measures(inner[1]))
    if depth := re.fullmatch(r"unjudged@([1-9]\d*)", name):
        return Unjudged(int(depth[1]))
    return _from_ir_measures(name)


def _from_ir_measures(name: str) -> "ir_measures.Measure":
    with needs("evaluation", "ir_measures", "eval"):
        import ir_measures

    try:
        measure = ir_measures.parse_measure(name)
        if not 1 <= measure.params.get("cutoff", 1) <= DEEPEST:  # pytrec-eval would end the process
            raise ValueError(f"use a cutoff of 1 to {DEEPEST:,}")
        ir_measures.calc_aggregate([measure], {"1": {"d": 1}}, {"1": {"d": 1.0}})
    except Exception as error:  # ir-measures lets any exception of its parser and providers through
        why = f" ({error})" if isinstance(error, ValueError) else ""
        raise InputError(
            f"unknown measure {name!r}{why}; use names of ir-measures (RR@10, nDCG@10, AP, P@5, "
            "R@100, Rprec), oracle(RR@10) or unjudged@10"
        ) from error
    return measure


def is_tested(measure: Measure) -> bool:
    """Whether a larger mean means a better run, so that it can be tested: not for oracle(…), unjudged@k and counts."""
    return not isinstance(measure, Oracle | Unjudged) and not str(measure).startswith(COUNTS)


def calculate(qrels: Qrels, run: Run, measures: list[Measure]) -> dict[str, Values]:
    """Measure → qid → value for every query of the qrels; 0 for queries that the run lacks.

    Raises InputError for ERR if query ids are not numbers.
    """
    import ir_measures

    # pytrec-eval ends the process if all levels of a query are negative (TREC Web has -2 for spam); none is relevant.
    levels = {
        qid: judged if max(judged.values(), default=0) >= 0 else dict.fromkeys(judged, 0)
        for qid, judged in qrels.items()
    }
    # One order for all measures: the providers of ir-measures break ties differently, so RR@10 and RR could disagree.
    order = {qid: run[qid].ranked() for qid in qrels if qid in run}
    values: dict[str, Values] = {str(measure): dict.fromkeys(qrels, 0.0) for measure in measures}
    plain = [measure for measure in measures if not isinstance(measure, Oracle | Unjudged)]
    ideal = [measure.measure for measure in measures if isinstance(measure, Oracle)]
    rearrangements: list[tuple[list, Callable[[list[str], dict[str, int]], list[str]], str]]
    rearrangements = [(plain, lambda docids, _: docids, "{}"), (ideal, _by_judgment, "oracle({})")]
    for wanted, rearranged, form in rearrangements:
        if wanted:
            given = {
                qid: {docid: -float(rank) for rank, docid in enumerate(rearranged(docids, qrels[qid]))}
                for qid, docids in order.items()
            }
            try:
                for metric in ir_measures.iter_calc(wanted, levels, given):
                    values[form.format(metric.measure)][metric.query_id] = metric.value
            except CalledProcessError as error:  # gdeval, TREC's script for ERR
                named = " ".join(map(str, wanted))
                raise InputError(
                    f"{named}: the script that computes ERR reads whole numbers as query ids only; leave ERR out"
                ) from error
    for measure in measures:
        if isinstance(measure, Unjudged):
            values[str(measure)] |= {qid: _unjudged(docids, qrels[qid], measure.k) for qid, docids in order.items()}
    return values


def _by_judgment(docids: list[str], judged: dict[str, int]) -> list[str]:
    return sorted(docids, key=lambda docid: -judged.get(docid, 0))


def _unjudged(docids: list[str], judged: dict[str, int], k: int) -> float:
    first = docids[:k]
    return sum(docid not in judged for docid in first) / max(len(first), 1)


def aggregate(measure: Measure, values: Values) -> float:
    """The mean over queries, or the aggregate that ir-measures defines for the measure."""
    if isinstance(measure, Oracle | Unjudged):
        return sum(values.values()) / len(values)
    total = measure.aggregator()
    for value in values.values():
        total.add(value)
    return total.result()
