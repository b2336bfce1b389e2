"""The verdict on a ranker: parts that raise the mean are used, others not, and queries never choose their own figure."""

import json

import numpy as np
import pytest

from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import Ranking, ordered
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.ranking.fuse import pooled, weighted
from harp_jax.site.verdict import BETTER, UNDECIDED, WORSE, decide

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


def test_a_part_that_adds_evidence_is_used():
    ranker = run(2.0, "ranker")
    found, _ = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "ranker": ranker})
    (result,) = found.components
    assert result.verdict == BETTER and result.used and found.weights == {"BM25": 1.0, "ranker": 1.0}
    assert result.mean > found.baseline and result.interval[0] > 0 and found.expected.difference == result.difference
    use, gain = found.words().split("\n")
    low, high = found.expected.interval
    change = f"{found.baseline:.3f} → {found.expected.mean:.3f} compared with BM25, {found.expected.difference:+.3f}"
    assert use == "Use: BM25 + ranker" and not found.remark
    assert gain == f"Gain: RR@10 {change} (95 % interval {low:+.3f} to {high:+.3f})"
    assert found.line() == f"BM25 + ranker (RR@10 {found.expected.difference:+.3f} compared with BM25)"
    assert found.baseline == mean_of(FIRST_STAGE) and result.mean == mean_of_sum(FIRST_STAGE, ranker)


@pytest.mark.parametrize("signal", [0.0, -3.0])
def test_a_part_that_adds_nothing_is_not_used(signal):
    found, _ = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "ranker": run(signal, "noise")})
    assert (
        found.components[0].verdict in (UNDECIDED, WORSE)
        and not found.components[0].used
        and found.weights == {"BM25": 1.0}
    )
    assert (
        found.words().startswith("Use: BM25\nGain: none: no sum ranked 60 queries better than BM25 (")
        and found.expected.difference == 0
    )


def test_each_part_has_to_improve_what_is_kept_before_it():
    """Noise is left out; the part after it is still added to the others."""
    strong, good = run(3.0, "strong"), run(1.5, "good")
    found, _ = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "noise": run(0.0, "noise"), "strong": strong})
    assert found.components[1].verdict == BETTER and [*found.weights] == ["BM25", "strong"]
    both, _ = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "good": good, "best": run(4.0, "best")})
    assert [*both.weights] == ["BM25", "good", "best"]
    assert both.components[1].difference == pytest.approx(both.components[1].mean - both.components[0].mean)


def test_a_part_that_contains_the_first_takes_its_place():
    """For example BM25F and BM25: their sum would count the same evidence twice."""
    better, ranker = run(2.0, "fields"), run(2.0, "ranker")
    parts = {"BM25": FIRST_STAGE, "BM25F": better, "ranker": ranker}
    found, _ = decide(QRELS, FOLDS, parts, instead="BM25F")
    assert found.use == "BM25F + ranker" and found.components[0].mean == found.components[0].alone > found.baseline
    assert found.components[1].mean == mean_of_sum(better, ranker)
    assert found.components[0].replaces_first and not found.components[1].replaces_first
    worse, _ = decide(
        QRELS, FOLDS, {"BM25": FIRST_STAGE, "BM25F": run(0.0, "noise"), "ranker": ranker}, instead="BM25F"
    )
    assert worse.use == "BM25 + ranker"


def test_a_trusted_part_counts_double_and_is_kept_unless_it_is_worse():
    """The recommended sum and its gain by halves use twice its scores; a rejected part does not come back."""
    vectors = run(2.0, "vectors")
    parts = {"BM25": FIRST_STAGE, "vectors": vectors}
    (equal, _), (found, _) = decide(QRELS, FOLDS, parts), decide(QRELS, FOLDS, parts, trusted="vectors")
    assert found.use == "BM25 + 2 × vectors" and found.weights == {"BM25": 1.0, "vectors": 2.0}
    assert found.components == equal.components
    assert found.expected.mean == mean_of_sum(FIRST_STAGE, vectors, 2) != equal.expected.mean
    for signal, kept in ((-3.0, False), (0.5, True)):  # worse, and inconclusive
        weak = parts | {"vectors": run(signal, "noise")}
        assert decide(QRELS, FOLDS, weak)[0].weights == {"BM25": 1.0}
        trusted, _ = decide(QRELS, FOLDS, weak, trusted="vectors")
        assert trusted.weights == {"BM25": 1.0} | ({"vectors": 2.0} if kept else {})
        assert ("Gain: none" in trusted.words()) != kept and trusted.trusted == "vectors"
        assert not kept or (trusted.words().endswith("(not certain)") and "not certain" in trusted.line())


def test_with_a_trusted_part_the_one_that_contains_the_first_is_trusted_and_others_may_be_only_reported():
    parts = {
        "BM25": FIRST_STAGE,
        "BM25F": run(0.8, "fields"),
        "vectors": run(0.9, "vectors"),
        "ranker": run(4.0, "ranker"),
    }
    plain, _ = decide(QRELS, FOLDS, parts, instead="BM25F")
    found, _ = decide(QRELS, FOLDS, parts, instead="BM25F", trusted="vectors", measured=["ranker"])
    assert "BM25F" not in plain.weights and plain.weights["ranker"] == 1.0
    assert (
        found.weights == {"BM25F": 1.0, "vectors": 2.0}
        and found.components[-1].verdict == BETTER
        and not found.components[-1].used
    )
    assert "ranker" not in found.words() and found.measured == ("ranker",)


@pytest.mark.real
def test_parts_without_information_are_hardly_kept_and_never_better():
    """Noise lowers an equally weighted sum: few of 160 parts in 40 verdicts are kept, and the mean by halves does not rise."""
    found = []
    for draw in range(40):
        parts = {"BM25": FIRST_STAGE} | {f"{n}": run(0.0, f"null {draw} {n}") for n in range(4)}
        found.append(decide(QRELS, FOLDS, parts)[0])
    assert sum(len(each.weights) - 1 for each in found) <= 4
    assert not any(result.verdict == BETTER for each in found for result in each.components)
    assert np.mean([each.expected.difference for each in found]) < 0


def test_the_figure_by_halves_does_not_depend_on_parts_that_its_queries_chose():
    """The ranker is right in fold 0 and wrong in fold 1: choosing on the other fold always picks the worse system."""
    right, wrong = run(6.0, "right"), run(-6.0, "wrong")
    ranker = {qid: (right if FOLDS[qid] == "0" else wrong)[qid] for qid in right}
    found, _ = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "ranker": ranker})
    half = [qid for qid in QRELS if FOLDS[qid] == "1"]
    alone, spoiled = (mean_of({qid: ranked[qid] for qid in half}) for ranked in (FIRST_STAGE, ranker))
    assert spoiled < alone and found.expected.mean < found.baseline and found.weights == {"BM25": 1.0}
    assert "Gain: none" in found.words() and not found.components[0].used


def test_a_decision_is_saved(tmp_path):
    ranker = run(2.0, "ranker")
    found, _ = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "HARP": ranker})
    found.save(str(tmp_path / "verdict.json"))
    written = json.loads((tmp_path / "verdict.json").read_text())
    assert (
        written["use"] == "BM25 + HARP" and written["queries"] == QUERIES and [*written["weights"]] == ["BM25", "HARP"]
    )
    assert written["words"] == found.words()
