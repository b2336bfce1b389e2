"""Measures by name: those of ir-measures (trec_eval's numbers), and two that say what a ranking could not show.

RR@10, nDCG@10, AP, P@5, R@100, Rprec, RR(rel=2)@10     ir-measures
oracle(RR@10)      the measure after an ideal re-ordering of the run: what re-ranking its candidates can reach
unjudged@10        the share of the first 10 documents that nobody has judged
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from harp_jax.corpus.trec import Qrels, Ranking, Run
from harp_jax.errors import InputError

Values = dict[str, float]  # qid → value


@dataclass(frozen=True)
class Oracle:
    """A measure of the candidates in the order of their judgments (equal ones in the run's order)."""

    measure: Any

    def __str__(self) -> str:
        return f"oracle({self.measure})"


@dataclass(frozen=True)
class Unjudged:
    """Unjudged documents among the first k, divided by the documents that are there."""

    k: int

    def __str__(self) -> str:
        return f"unjudged@{self.k}"


def parse_measures(measures: str | list[str]) -> list[Any]:
    """Measures, each tried out on a toy run: some names parse and cannot be computed. InputError for unknown ones."""
    names = measures.split() if isinstance(measures, str) else list(measures)
    if not names:
        raise InputError('no measure; name some, as in --measures="RR@10 nDCG@10"')
    parsed = []
    for name in names:
        measure = _parse(name)
        if measure not in parsed:
            parsed.append(measure)
    return parsed


def _parse(name: str) -> Any:
    if inner := re.fullmatch(r"oracle\((.+)\)", name):
        return Oracle(_from_ir_measures(inner[1]))
    if depth := re.fullmatch(r"unjudged@([1-9]\d*)", name):
        return Unjudged(int(depth[1]))
    return _from_ir_measures(name)


def _from_ir_measures(name: str) -> Any:
    import ir_measures

    try:
        measure = ir_measures.parse_measure(name)
        ir_measures.calc_aggregate([measure], {"1": {"d": 1}}, {"1": {"d": 1.0}})
    except Exception as error:  # ir-measures raises whatever its parser or a provider does
        raise InputError(
            f"unknown measure {name!r} ({type(error).__name__}); names are those of ir-measures: "
            "RR@10, nDCG@10, AP, P@5, R@100, Rprec; and oracle(RR@10), unjudged@10"
        ) from error
    return measure


def is_tested(measure: Any) -> bool:
    """Whether a difference in it says that a run is better."""
    return not isinstance(measure, Oracle | Unjudged)


def calculate(qrels: Qrels, run: Run, measures: list[Any]) -> dict[str, Values]:
    """Measure → qid → value for every query of the qrels; 0 where the run has nothing for it."""
    import ir_measures

    order = {qid: ordered(run[qid]) for qid in qrels if qid in run}
    values: dict[str, Values] = {str(measure): dict.fromkeys(qrels, 0.0) for measure in measures}
    plain = [measure for measure in measures if is_tested(measure)]
    ideal = [measure.measure for measure in measures if isinstance(measure, Oracle)]
    for wanted, rearranged, form in ((plain, lambda docids, _: docids, "{}"), (ideal, _by_judgment, "oracle({})")):
        if wanted:
            given = {
                qid: {docid: -float(rank) for rank, docid in enumerate(rearranged(docids, qrels[qid]))}
                for qid, docids in order.items()
            }
            for metric in ir_measures.iter_calc(wanted, qrels, given):
                values[form.format(metric.measure)][metric.query_id] = metric.value
    for measure in measures:
        if isinstance(measure, Unjudged):
            values[str(measure)] |= {qid: _unjudged(docids, qrels[qid], measure.k) for qid, docids in order.items()}
    return values


def ordered(ranking: Ranking) -> list[str]:
    """Document ids, best first, as trec_eval orders them: scores in single precision, ties by descending id.

    One order for all measures: the tools behind ir-measures break ties each in its own way, and a run of equal scores
    would have another first document by RR@10 than by RR.
    """
    scored = zip(np.asarray(ranking.scores, np.float32).tolist(), ranking.docids)
    return [docid for _, docid in sorted(scored, reverse=True)]


def _by_judgment(docids: list[str], judged: dict[str, int]) -> list[str]:
    return sorted(docids, key=lambda docid: -judged.get(docid, 0))


def _unjudged(docids: list[str], judged: dict[str, int], k: int) -> float:
    first = docids[:k]
    return sum(docid not in judged for docid in first) / max(len(first), 1)


def aggregate(measure: Any, values: Values) -> float:
    """The mean over queries (or what ir-measures takes in its place for the measure)."""
    if not is_tested(measure):
        return sum(values.values()) / len(values)
    total = measure.aggregator()
    for value in values.values():
        total.add(value)
    return total.result()
