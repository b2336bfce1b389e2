"""The verdict on a ranker: what is better is used, what is not is not, and no query chooses the weight of its own figure."""

import json

import pytest

from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import Ranking
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.experiments.verdict import BETTER, BOTH, FIRST, SAME, WORSE, decide
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


def test_a_ranker_that_adds_evidence_is_used_with_a_weight():
    found = decide(QRELS, FOLDS, FIRST_STAGE, run(2.0, "ranker"))
    assert found.verdict == BETTER and found.use == BOTH and found.weight == found.fitted_weight > 0
    assert found.both.mean > found.first and found.both.interval[0] > 0
    assert "use it, with weight" in found.words() and found.words().count("One run of the ranker") == 1
    assert not found.remark
    assert found.first == evaluate(QRELS, {"x": FIRST_STAGE}, "RR@10").mean["x"]["RR@10"]


@pytest.mark.parametrize("signal", [0.0, -3.0])
def test_a_ranker_that_adds_nothing_is_not_used(signal):
    found = decide(QRELS, FOLDS, FIRST_STAGE, run(signal, "noise"))
    assert found.verdict in (SAME, WORSE) and found.use == FIRST and found.weight == 0
    assert "use BM25 alone" in found.words()
    assert found.ranker.verdict == (WORSE if signal < 0 else found.ranker.verdict)


def test_the_verdict_on_questions_about_a_few_pages_says_that_its_tests_are_too_sure():
    qrels = {qid: {"d0.0": 1} | judged for qid, judged in QRELS.items()}
    assert "Note: queries that share relevant documents form" in decide(qrels, FOLDS, FIRST_STAGE, FIRST_STAGE).words()


def test_what_the_training_adds_is_told_from_what_the_start_had():
    strong, weak = run(3.0, "ranker"), run(0.5, "start")
    found = decide(QRELS, FOLDS, FIRST_STAGE, strong, before=weak)
    assert found.training.verdict == BETTER and "training improves it (+" in found.words()
    assert found.training.difference == pytest.approx(found.both.mean - found.before.mean)
    spoiled = decide(QRELS, FOLDS, FIRST_STAGE, weak, before=strong)
    assert "made it worse: rank with the initial embeddings" in spoiled.words()


def test_a_ranker_is_also_compared_with_links_used_without_a_model():
    """Better than BM25, it may add nothing to BM25F with in-links; the verdict says which."""
    ranker, links = run(2.0, "ranker"), run(6.0, "links")
    found = decide(QRELS, FOLDS, FIRST_STAGE, ranker, links=links)
    assert found.verdict == BETTER and found.links.mean == evaluate(QRELS, {"x": links}, "RR@10").mean["x"]["RR@10"]
    assert found.beside_links.verdict == SAME and "no significant gain from the ranker" in found.words()
    added = decide(QRELS, FOLDS, FIRST_STAGE, run(3.0, "ranker"), links=run(0.5, "links"))
    assert added.beside_links.verdict == BETTER and "the ranker improves it (+" in added.words()


def test_the_figure_of_a_query_does_not_depend_on_weights_that_it_chose():
    """The ranker is right in fold 0 and wrong in fold 1: fitted on the other fold, each figure is the worse one."""
    right, wrong = run(6.0, "right"), run(-6.0, "wrong")
    ranker = {qid: (right if FOLDS[qid] == "0" else wrong)[qid] for qid in right}
    found = decide(QRELS, FOLDS, FIRST_STAGE, ranker)
    half = {qid: QRELS[qid] for qid in QRELS if FOLDS[qid] == "1"}
    alone = evaluate(half, {"x": {qid: FIRST_STAGE[qid] for qid in half}}, "RR@10").mean["x"]["RR@10"]
    spoiled = evaluate(half, {"x": {qid: ranker[qid] for qid in half}}, "RR@10").mean["x"]["RR@10"]
    assert spoiled < alone and found.both.mean < found.first
    assert found.use == FIRST


def test_the_command_writes_the_decision(tmp_path, capsys):
    def write(name, lines):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
        return str(tmp_path / name)

    def lines(found):
        return [f"{q} Q0 {d} 1 {s} x" for q, r in found.items() for d, s in zip(r.docids, r.scores)]

    words = [
        "--qrels=" + write("qrels", [f"{q} 0 {d} 1" for q, judged in QRELS.items() for d in judged]),
        "--folds=" + write("folds", [f"{q}\t{fold}" for q, fold in FOLDS.items()]),
        "--first=" + write("a.trec", lines(FIRST_STAGE)), "--ranker=" + write("b.trec", lines(run(2.0, "ranker"))),
    ]  # fmt: skip
    command("verdict", *words, f"--output={tmp_path / 'verdict.json'}")
    found = json.loads((tmp_path / "verdict.json").read_text())
    assert found["verdict"] == BETTER and found["use"] == BOTH and found["queries"] == QUERIES
    printed = capsys.readouterr()
    assert found["words"] == printed.out.strip() and not printed.err
    few = write("few.trec", lines(dict(list(run(2.0, "ranker").items())[2:])))
    command("verdict", *words[:-1], f"--ranker={few}", f"--output={tmp_path / 'few.json'}")
    assert "note: --ranker: 2 queries are missing and count as zero" in capsys.readouterr().err
