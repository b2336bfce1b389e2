"""The verdict on a ranker: what is better is used, what is not is not, and no query chooses the weight of its own figure."""

import json

import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import Ranking
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.experiments.verdict import BETTER, SAME, WORSE, decide
from tests.support.commands import command

QUERIES, DEPTH = 60, 8
QRELS = {f"q{i}": {f"d{i}.0": 1} for i in range(QUERIES)}
FOLDS = {f"q{i}": str(i % 2) for i in range(QUERIES)}


def run(signal: float, seed: str) -> dict[str, Ranking]:
    """Noise, plus `signal` for the relevant document."""
    found = {}
    for number in range(QUERIES):
        scores = generator(seed, number).normal(size=DEPTH)
        scores[0] += signal
        found[f"q{number}"] = Ranking.of([f"d{number}.{i}" for i in range(DEPTH)], scores.tolist())
    return found


FIRST_STAGE = run(1.0, "first")


def test_a_part_that_adds_evidence_is_used_with_a_weight():
    found = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "ranker": run(2.0, "ranker")})
    (rung,) = found.rungs
    assert rung.verdict == BETTER and found.weights["BM25"] == 1 and found.weights["ranker"] > 0
    assert rung.inside > found.mean and rung.interval[0] > 0
    assert "use BM25 + ranker (weights" in found.words() and not found.remark
    assert found.mean == evaluate(QRELS, {"x": FIRST_STAGE}, "RR@10").mean["x"]["RR@10"]


@pytest.mark.parametrize("signal", [0.0, -3.0])
def test_a_part_that_adds_nothing_is_not_used(signal):
    found = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "ranker": run(signal, "noise")})
    assert found.rungs[0].verdict in (SAME, WORSE) and found.weights == {"BM25": 1.0}
    assert "use BM25 alone" in found.words()


def test_each_part_has_to_improve_what_is_kept_before_it():
    """A copy of a part that was kept adds nothing; a part after one that was left out is added to the others."""
    strong, good = run(3.0, "strong"), run(1.5, "good")
    found = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "noise": run(0.0, "noise"), "strong": strong, "again": strong})
    assert [rung.verdict for rung in found.rungs] == [SAME, BETTER, SAME] and [*found.weights] == ["BM25", "strong"]
    both = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "good": good, "best": run(4.0, "best")})
    assert [*both.weights] == ["BM25", "good", "best"]
    assert both.rungs[1].difference == pytest.approx(both.rungs[1].inside - both.rungs[0].inside)


def test_the_tests_are_corrected_for_the_number_of_parts():
    """Of 40 verdicts on four true nulls each, few keep any; uncorrected, about seven would."""
    kept = 0
    for draw in range(40):
        parts = {"BM25": FIRST_STAGE} | {f"{n}": run(0.0, f"null {draw} {n}") for n in range(4)}
        kept += len(decide(QRELS, FOLDS, parts).weights) > 1
    assert kept <= 5  # of 40, at .05: more than 5 with a probability of .014


def test_the_verdict_on_questions_about_a_few_pages_says_that_its_tests_are_too_sure():
    qrels = {qid: {"d0.0": 1} | judged for qid, judged in QRELS.items()}
    found = decide(qrels, FOLDS, {"BM25": FIRST_STAGE, "again": FIRST_STAGE})
    assert "Note: queries that share relevant documents form" in found.words()


def test_the_figure_of_a_query_does_not_depend_on_weights_that_it_chose():
    """The ranker is right in fold 0 and wrong in fold 1: fitted on the other fold, each figure is the worse one."""
    right, wrong = run(6.0, "right"), run(-6.0, "wrong")
    ranker = {qid: (right if FOLDS[qid] == "0" else wrong)[qid] for qid in right}
    found = decide(QRELS, FOLDS, {"BM25": FIRST_STAGE, "ranker": ranker})
    half = {qid: QRELS[qid] for qid in QRELS if FOLDS[qid] == "1"}
    alone = evaluate(half, {"x": {qid: FIRST_STAGE[qid] for qid in half}}, "RR@10").mean["x"]["RR@10"]
    spoiled = evaluate(half, {"x": {qid: ranker[qid] for qid in half}}, "RR@10").mean["x"]["RR@10"]
    assert spoiled < alone and found.rungs[0].inside < found.mean and found.weights == {"BM25": 1.0}


def test_the_command_writes_the_decision(tmp_path, capsys):
    def write(name, lines):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
        return str(tmp_path / name)

    def lines(found):
        return [f"{q} Q0 {d} 1 {s} x" for q, r in found.items() for d, s in zip(r.docids, r.scores)]

    words = [
        "--qrels=" + write("qrels", [f"{q} 0 {d} 1" for q, judged in QRELS.items() for d in judged]),
        "--folds=" + write("folds", [f"{q}\t{fold}" for q, fold in FOLDS.items()]),
        "--part=BM25=" + write("a.trec", lines(FIRST_STAGE)), "--part=HARP=" + write("b.trec", lines(run(2.0, "ranker"))),
    ]  # fmt: skip
    command("verdict", *words, f"--output={tmp_path / 'verdict.json'}")
    found = json.loads((tmp_path / "verdict.json").read_text())
    assert found["use"] == "BM25 + HARP" and found["queries"] == QUERIES and [*found["weights"]] == ["BM25", "HARP"]
    printed = capsys.readouterr()
    assert found["words"] == printed.out.strip() and not printed.err
    few = write("few.trec", lines(dict(list(run(2.0, "ranker").items())[2:])))
    command("verdict", *words[:-1], f"--part=HARP={few}", f"--output={tmp_path / 'few.json'}")
    assert "note: HARP: 2 queries are missing and count as zero" in capsys.readouterr().err
    with pytest.raises(InputError, match="two parts or more"):
        command("verdict", *words[:-1], f"--output={tmp_path / 'few.json'}")
