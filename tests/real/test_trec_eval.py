"""Our measures against what trec_eval itself printed for its own fixtures."""

import math
import re

import pytest

from harp_jax.corpus.trec import Run, read_qrels, read_run
from harp_jax.evaluation.evaluate import evaluate
from tests.support.shared_data import shared

pytestmark = pytest.mark.real
PLAIN = {"map": "AP", "recip_rank": "RR", "Rprec": "Rprec", "ndcg": "nDCG"}
AT_RANK = {"ndcg_cut": "nDCG@{}", "P": "P@{}", "recall": "R@{}"}


def printed(name: str) -> dict[tuple[str, str], float]:
    """(our name of the measure, qid or "all") → value."""
    found = {}
    with open(shared("trec_eval", name)) as file:
        for line in file:
            measure, qid, value = line.split()
            at = re.fullmatch(r"(ndcg_cut|P|recall)_(\d+)", measure)
            ours = AT_RANK[at[1]].format(at[2]) if at else PLAIN.get(measure)
            if ours:
                found[ours, qid] = float(value)
    return found


def first(run: Run, k: int) -> Run:
    """The best `k` documents of every query, as trec_eval's -M does (ties by document id, descending)."""
    cut: Run = {}
    for qid, ranking in run.items():
        best = sorted(zip(ranking.scores, ranking.docids), reverse=True)[:k]
        cut[qid] = type(ranking)([docid for _, docid in best])
        cut[qid].scores.extend(score for score, _ in best)
    return cut


@pytest.mark.parametrize(
    "qrels, run, output, relevant, depth",
    [
        ("qrels.test", "results.test", "out.test.a", 1, None),
        ("qrels.test", "results.test", "out.test.aq", 1, None),
        ("qrels.test", "results.trunc", "out.test.aqc", 1, None),
        ("qrels.test", "results.trunc", "out.test.aqcM", 1, 100),
        ("qrels.rel_level", "results.test", "out.test.aql", 2, None),
    ],
)
def test_equals_trec_eval(qrels, run, output, relevant, depth):
    expected = printed(output)
    measures = sorted({measure for measure, _ in expected})
    assert len(measures) >= 4 + 9 + 9 + 9
    names = {}
    for measure in measures:
        level = "" if relevant == 1 or measure.startswith("nDCG") else f"(rel={relevant})"
        names[measure] = measure.replace("@", f"{level}@") if "@" in measure else measure + level
    judged, ranked = read_qrels(shared("trec_eval", qrels)), read_run(shared("trec_eval", run))
    table = evaluate(judged, {"run": ranked if depth is None else first(ranked, depth)}, list(names.values()))
    parsed = dict(zip(names, table.measures))
    for (measure, qid), value in expected.items():
        ours = table.mean["run"] if qid == "all" else {m: v[qid] for m, v in table.per_query["run"].items()}
        assert math.isclose(ours[parsed[measure]], value, abs_tol=5.001e-5), (measure, qid)
