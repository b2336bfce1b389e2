"""Which parts are added up: those that raise the mean, and queries never choose their own figure. How the verdict says it."""

import numpy as np
import pytest

from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import Ranking, ordered
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.ranking.fuse import pooled, sum_in_words, weighted
from harp_jax.site.verdict import Row, Verdict, decide

QUERIES, DEPTH = 60, 8
QRELS = {f"q{i}": {f"d{i}.0": 1} for i in range(QUERIES)}
FOLDS = {f"q{i}": str(i % 2) for i in range(QUERIES)}


def run(signal: float, seed: str) -> dict[str, Ranking]:
    """A run of random scores, plus `signal` for the relevant document."""
    ranked = {}
    for number in range(QUERIES):
        scores = generator(seed, number).normal(size=DEPTH)
        scores[0] += signal
        ranked[f"q{number}"] = Ranking.of([f"d{number}.{i}" for i in range(DEPTH)], scores.tolist())
    return ranked


def mean_of(ranked: dict[str, Ranking]) -> float:
    judged = {qid: QRELS[qid] for qid in ranked}
    return evaluate(judged, {"x": ranked}, "RR@10").mean["x"]["RR@10"]


FIRST_STAGE = run(1.0, "first")
INSTEAD, TRUSTED = {"instead": "BM25F"}, {"trusted": "vectors"}


@pytest.mark.parametrize(
    ("parts", "options", "used"),
    [
        # A part is used if it adds evidence.
        ({"ranker": (2.0, "ranker")}, {}, "BM25 + ranker"),
        ({"ranker": (0.0, "noise")}, {}, "BM25"),
        # Each one has to improve what is kept before it.
        ({"noise": (0.0, "noise"), "strong": (3.0, "strong")}, {}, "BM25 + strong"),
        # A part that contains the first takes its place: their sum would count the same evidence twice.
        ({"BM25F": (2.0, "fields"), "ranker": (2.0, "ranker")}, INSTEAD, "BM25F + ranker"),
        ({"BM25F": (0.0, "noise"), "ranker": (2.0, "ranker")}, INSTEAD, "BM25 + ranker"),
        # A trusted part counts twice, and is kept unless it is worse, not only if it is better.
        ({"vectors": (2.0, "vectors")}, TRUSTED, "BM25 + 2 × vectors"),
        ({"vectors": (-3.0, "noise")}, TRUSTED, "BM25"),
        ({"vectors": (0.5, "noise")}, TRUSTED, "BM25 + 2 × vectors"),
        ({"vectors": (0.5, "noise")}, {}, "BM25"),
        # With a trusted part, the one that contains the first is trusted too; others may be only reported.
        ({"BM25F": (0.8, "fields"), "vectors": (0.9, "vectors"), "ranker": (4.0, "ranker")},
         {**INSTEAD, **TRUSTED, "measured": ["ranker"]}, "BM25F + 2 × vectors"),
    ],
)  # fmt: skip
def test_what_is_added_up_and_measured_on_other_queries(parts, options, used):
    runs = {"BM25": FIRST_STAGE} | {name: run(*how) for name, how in parts.items()}
    weights, halves = decide(QRELS, FOLDS, runs, **options)
    assert sum_in_words(weights) == used
    if used != "BM25":  # then both halves choose the same
        total = weighted(pooled([runs[part] for part in weights], "minmax"), [*weights.values()])
        assert mean_of(halves) == pytest.approx(mean_of(dict(ordered(total))))


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


@pytest.mark.parametrize(
    ("change", "certain", "said"),
    [
        (0.1, True, "Gain: RR@10 0.595 → 0.695 compared with BM25, +0.100 (95 % interval +0.050 to +0.150)"),
        (0.1, False, "Gain: RR@10 0.595 → 0.695 compared with BM25, +0.100 (not certain)"),
        (-0.103, False, "Measured by 60 judged queries: RR@10 0.595 → 0.492 compared with BM25, lower, not certain; "),
    ],
)
def test_a_gain_is_said_with_its_certainty_and_a_loss_is_not_called_a_gain(change, certain, said):
    rows = Row("BM25", 0.595), Row("recommended", 0.595 + change, change, (change - 0.05, change + 0.05), certain)
    verdict = Verdict({"BM25F": 1.0, "vectors": 2.0}, "BM25", "", "labels", "RR@10", 60, rows)
    assert verdict.words().startswith(f"Use: BM25F + 2 × vectors\n{said}")
    assert ("not certain" in verdict.line()) != certain
