"""Measures by the names of ir-measures, which match trec_eval: RR@10, nDCG@10, AP, P@5, R@100, Rprec, RR(rel=2)@10, Judged@10."""

import re
from typing import TYPE_CHECKING

from harp_jax.base.errors import InputError, needs
from harp_jax.corpus.trec import Qrels, Run

if TYPE_CHECKING:
    from ir_measures import Measure

Values = dict[str, float]  # qid → value
# Measures where higher is not better: counts (NumRet, NumRel, …), summed over queries, and the share of judged documents.
DESCRIPTIVE = ("Num", "Judged")
GDEVAL_LEVEL = 4  # maximum relevance level
DEEPEST = 10**6  # maximum cutoff, deeper than any run


def parse_measures(measures: str | list[str]) -> "list[Measure]":
    """Parses names of measures (a list, or a string separated by spaces), without duplicates. Computes each once on a toy run,
    because some names parse but cannot be computed. InputError for unknown names."""
    with needs("evaluation", "ir_measures", "eval"):
        import ir_measures

    parsed: list[Measure] = []
    for name in (measures.split() if isinstance(measures, str) else measures) or [""]:
        try:
            if re.search("[0-9]_", str(name)):  # Python reads 1_0 as 10
                raise ValueError("use digits alone for numbers")
            measure = ir_measures.parse_measure(name)
            if not 1 <= measure.params.get("cutoff", 1) <= DEEPEST:  # pytrec-eval would end the process
                raise ValueError(f"use a cutoff of 1 to {DEEPEST:,}")
            ir_measures.calc_aggregate([measure], {"1": {"d": 1}}, {"1": {"d": 1.0}})
        except Exception as error:  # ir-measures lets any exception of its parser and providers through
            why = f" ({error})" if isinstance(error, ValueError) else ""
            advice = "use names of ir-measures (RR@10, nDCG@10, AP, P@5, R@100, Rprec)"
            raise InputError(f"unknown measure {name!r}{why}; {advice}") from error
        if measure not in parsed:
            parsed.append(measure)
    return parsed


def one_measure(name: str) -> "Measure":
    """The measure to tune or select by. InputError for several, and for counts such as NumRet."""
    measures = parse_measures(name)
    if len(measures) != 1 or not is_tested(measures[0]):
        raise InputError(f"{name!r}: name one measure of the ranking, such as RR@10")
    return measures[0]


def is_tested(measure: "Measure") -> bool:
    """Whether a larger mean means a better run, so that it can be tested."""
    return not str(measure).startswith(DESCRIPTIVE)


def calculate(qrels: Qrels, run: Run, measures: "list[Measure]") -> dict[str, Values]:
    """Measure → qid → value for every query of the qrels; 0 for queries that the run lacks. InputError for ERR of queries or levels
    that gdeval, TREC's script for it, cannot read: ids that are not whole numbers, levels above 4."""
    import ir_measures

    by_gdeval = [m for m in measures if m.NAME == "ERR" or m.params.get("dcg") == "exp-log2"]
    for qid, levels in qrels.items() if by_gdeval else ():
        wrong = "" if re.fullmatch("0|[1-9][0-9]*", qid) else f"the query id {qid!r} is not a number"
        if max(levels.values(), default=0) > GDEVAL_LEVEL:
            wrong = f"a level of query {qid} is above {GDEVAL_LEVEL}"
        if wrong:
            name = by_gdeval[0]
            raise InputError(f"{name}: {wrong}, which TREC's script for it cannot read; leave {name} out")
    # pytrec-eval ends the process if all levels of a query are negative (TREC Web has -2 for spam); none is relevant.
    judged = {
        qid: levels if max(levels.values(), default=0) >= 0 else dict.fromkeys(levels, 0)
        for qid, levels in qrels.items()
    }
    # One order for all measures: the providers of ir-measures break ties differently, so RR@10 and RR could disagree.
    ranked = {qid: {docid: -float(rank) for rank, docid in enumerate(run[qid].ranked())} for qid in qrels if qid in run}
    values: dict[str, Values] = {str(measure): dict.fromkeys(qrels, 0.0) for measure in measures}
    for metric in ir_measures.iter_calc(measures, judged, ranked):
        values[str(metric.measure)][metric.query_id] = metric.value
    return values


def aggregate(measure: "Measure", values: Values) -> float:
    """The mean over queries, or the aggregate that ir-measures defines for the measure."""
    total = measure.aggregator()
    for value in values.values():
        total.add(value)
    return total.result()
