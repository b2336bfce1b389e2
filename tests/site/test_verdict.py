"""Which parts are added up: those that raise the mean, and queries never choose their own figure. How the verdict says it."""

import json

import numpy as np
import pytest

from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import Ranking, ordered
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.ranking.fuse import pooled, weighted
from harp_jax.site.verdict import Row, Verdict, decide

QUERIES, DEPTH = 60, 8
QRELS = {f"q{i}": {f"d{i}.0": 1} for i in range(QUERIES)}
FOLDS = {f"q{i}": str(i % 2) for i in range(QUERIES)}


def run(signal: float, seed: str) -> dict[str, Ranking]:
    """A run of random scores, plus `signal` for the relevant document."""
    found = {}
    for number in range(QUERIES):
        scores = generator(seed, number).normal(size=DEPTH)
        scores[0] += signal
        found[f"q{number}"] = Ranking.of([f"d{number}.{i}" for i in range(DEPTH)], scores.tolist())
    return found


def mean_of(ranked: dict[str, Ranking]) -> float:
    judged = {qid: QRELS[qid] for qid in ranked}
    return evaluate(judged, {"x": ranked}, "RR@10").mean["x"]["RR@10"]


def mean_of_sum(first: dict[str, Ranking], second: dict[str, Ranking], weight: float = 1.0) -> float:
    return mean_of(dict(ordered(weighted(pooled([first, second], "minmax"), (1, weight)))))


FIRST_STAGE = run(1.0, "first")


@pytest.mark.parametrize(("signal", "used"), [(2.0, True), (0.0, False), (-3.0, False)])
def test_a_part_is_used_if_it_adds_evidence(signal, used):
    ranker = run(signal, "ranker" if used else "noise")
    weights, halves = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "ranker": ranker})
    assert weights == {"BM25": 1.0} | ({"ranker": 1.0} if used else {})
    assert mean_of(halves) == pytest.approx(mean_of_sum(FIRST_STAGE, ranker) if used else mean_of(FIRST_STAGE))


def test_each_part_has_to_improve_what_is_kept_before_it():
    """Noise is left out; the part after it is still added to the others."""
    strong, good = run(3.0, "strong"), run(1.5, "good")
    weights, _ = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "noise": run(0.0, "noise"), "strong": strong})
    assert [*weights] == ["BM25", "strong"]
    both, _ = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "good": good, "best": run(4.0, "best")})
    assert [*both] == ["BM25", "good", "best"]


def test_a_part_that_contains_the_first_takes_its_place():
    """For example BM25F and BM25: their sum would count the same evidence twice."""
    parts = {"BM25": FIRST_STAGE, "BM25F": run(2.0, "fields"), "ranker": run(2.0, "ranker")}
    weights, halves = decide(QRELS, FOLDS, parts, instead="BM25F")
    assert weights == {"BM25F": 1.0, "ranker": 1.0}
    assert mean_of(halves) == pytest.approx(mean_of_sum(parts["BM25F"], parts["ranker"]))
    weights, _ = decide(QRELS, FOLDS, parts | {"BM25F": run(0.0, "noise")}, instead="BM25F")
    assert weights == {"BM25": 1.0, "ranker": 1.0}


def test_a_trusted_part_counts_double_and_is_kept_unless_it_is_worse():
    """The recommended sum and its gain by halves use twice its scores; a rejected part does not come back."""
    vectors = run(2.0, "vectors")
    parts = {"BM25": FIRST_STAGE, "vectors": vectors}
    weights, halves = decide(QRELS, FOLDS, parts, trusted="vectors")
    assert weights == {"BM25": 1.0, "vectors": 2.0}
    assert mean_of(halves) == pytest.approx(mean_of_sum(FIRST_STAGE, vectors, 2)) != mean_of_sum(FIRST_STAGE, vectors)
    for signal, kept in ((-3.0, False), (0.5, True)):  # worse, and inconclusive
        weak = parts | {"vectors": run(signal, "noise")}
        assert decide(QRELS, FOLDS, weak)[0] == {"BM25": 1.0}
        assert decide(QRELS, FOLDS, weak, trusted="vectors")[0] == {"BM25": 1.0} | ({"vectors": 2.0} if kept else {})


def test_with_a_trusted_part_the_one_that_contains_the_first_is_trusted_and_others_may_be_only_reported():
    parts = {
        "BM25": FIRST_STAGE,
        "BM25F": run(0.8, "fields"),
        "vectors": run(0.9, "vectors"),
        "ranker": run(4.0, "ranker"),
    }
    plain, _ = decide(QRELS, FOLDS, parts, instead="BM25F")
    weights, _ = decide(QRELS, FOLDS, parts, instead="BM25F", trusted="vectors", measured=["ranker"])
    assert "BM25F" not in plain and plain["ranker"] == 1.0
    assert weights == {"BM25F": 1.0, "vectors": 2.0}


@pytest.mark.real
def test_parts_without_information_are_hardly_kept():
    """Noise lowers an equally weighted sum: few of 160 parts in 40 verdicts are kept, and the mean by halves does not rise."""
    decided = []
    for draw in range(40):
        parts = {"BM25": FIRST_STAGE} | {f"{n}": run(0.0, f"null {draw} {n}") for n in range(4)}
        decided.append(decide(QRELS, FOLDS, parts))
    assert sum(len(weights) - 1 for weights, _ in decided) <= 4
    assert np.mean([mean_of(halves) for _, halves in decided]) < mean_of(FIRST_STAGE)


def test_the_figure_by_halves_does_not_depend_on_parts_that_its_queries_chose():
    """The ranker is right in fold 0 and wrong in fold 1: choosing on the other fold always picks the worse system."""
    right, wrong = run(6.0, "right"), run(-6.0, "wrong")
    ranker = {qid: (right if FOLDS[qid] == "0" else wrong)[qid] for qid in right}
    weights, halves = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "ranker": ranker})
    half = [qid for qid in QRELS if FOLDS[qid] == "1"]
    alone, spoiled = (mean_of({qid: ranked[qid] for qid in half}) for ranked in (FIRST_STAGE, ranker))
    assert spoiled < alone and mean_of(halves) < mean_of(FIRST_STAGE) and weights == {"BM25": 1.0}


SUM = {"BM25F": 1.0, "vectors": 2.0}
MEANS = "RR@10 0.595 → 0.{} compared with BM25"


@pytest.mark.parametrize(
    ("change", "certain", "test", "said"),
    [
        (0.1, True, "anchors", f"Gain: {MEANS}, +0.100 (95 % interval +0.050 to +0.150)"),
        (0.1, False, "labels", f"Gain: {MEANS}, +0.100 (not certain)"),
        (-0.103, False, "anchors", f"Measured by the site's own anchor texts: {MEANS}, lower, not certain; judged queries "
         "decide: harp tune"),
        (-0.103, False, "labels", f"Measured by 60 judged queries: {MEANS}, lower, not certain; more judged queries decide: harp "
         "tune"),
    ],
)  # fmt: skip
def test_a_gain_is_said_with_its_certainty_and_a_loss_is_not_called_a_gain(tmp_path, change, certain, test, said):
    rows = Row("BM25", 0.595), Row("recommended", 0.595 + change, change, (change - 0.05, change + 0.05), certain)
    verdict = Verdict(SUM, "BM25", "", test, "RR@10", 60, rows, "ask")
    assert verdict.words() == f"Use: BM25F + 2 × vectors\n{said.format(f'{595 + 1000 * change:.0f}')}\nNext: ask"
    assert (
        verdict.line() == f"{verdict.use} (RR@10 {change:+.3f} compared with BM25{'' if certain else ', not certain'})"
    )
    assert (
        verdict.table().splitlines()[-1]
        == f"recommended   {0.595 + change:.3f}  {change:+.3f}  {'yes' if certain else 'no'}"
    )
    verdict.save(str(tmp_path / "verdict.json"))
    written = json.loads((tmp_path / "verdict.json").read_text())
    assert (written["use"], written["words"], written["weights"]) == (verdict.use, verdict.words(), SUM)


def test_no_gain_and_no_test_are_said():
    rows = Row("BM25", 0.5), Row("recommended", 0.5, 0.0, (0.0, 0.0), False)
    none = Verdict({"BM25": 1.0}, "BM25", "", "labels", "RR@10", 60, rows)
    assert none.words() == "Use: BM25\nGain: none: no sum ranked 60 queries better than BM25 (RR@10 0.500)"
    assert none.line() == "BM25 (no sum ranked better)"
    untested = Verdict(SUM, "BM25", untested="too few links")
    assert untested.words() == "Use: BM25F + 2 × vectors\nGain: not measured: too few links"
