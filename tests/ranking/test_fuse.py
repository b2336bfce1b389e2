"""Fusion: runs and priors against slow versions, no fold fits its own weights."""

import json

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.made import forget
from harp_jax.corpus.trec import Ranking, ordered, read_run, write_run
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.ranking.first_stage import prior_files
from harp_jax.ranking.fuse import joined, pooled, reciprocal_ranks, weighted
from tests.support.commands import command

FIRST = {"q1": Ranking.of(["a", "b", "c"], [9.0, 5.0, 1.0]), "q2": Ranking.of(["x"], [3.0])}
SECOND = {"q1": Ranking.of(["c", "d", "a"], [0.2, 0.6, 0.4]), "q3": Ranking.of(["y", "z"], [1.0, 2.0])}


def scores(rankings) -> dict[str, dict[str, float]]:
    return {qid: dict(zip(docids, map(float, values))) for qid, docids, values in rankings}


def test_mean_of_normalised_scores():
    mean = scores(weighted(pooled([FIRST, SECOND], "minmax"), [0.5, 0.5]))
    # a: (1 + .5)/2, b: (.5 + 0)/2 (missing counts as the lowest), c: 0, d: (0 + 1)/2
    assert mean["q1"] == pytest.approx({"a": 0.75, "b": 0.25, "c": 0.0, "d": 0.5})
    assert mean["q2"] == {"x": 0.5} and mean["q3"] == {"z": 0.5, "y": 0.0}
    for tied in (0.0, 0.3, -7.0):  # in written runs no two scores are equal
        run = dict(ordered([("q", list("abcde"), np.full(5, tied))]))
        assert pooled([run], "minmax")["q"][1].tolist() == [[1] * 5]


def test_reciprocal_rank_fusion_and_joins():
    fused = scores(reciprocal_ranks([FIRST, SECOND]))
    assert fused["q1"] == pytest.approx({"a": 1 / 61 + 1 / 62, "b": 1 / 62, "c": 1 / 63 + 1 / 63, "d": 1 / 61})
    assert fused["q3"] == pytest.approx({"z": 1 / 61, "y": 1 / 62})
    assert list(scores(joined([FIRST, {"q9": SECOND["q3"]}]))) == ["q1", "q2", "q9"]
    with pytest.raises(InputError, match="query q1 is in two"):
        list(joined([FIRST, SECOND]))


@pytest.fixture
def files(tmp_path):
    """Queries of fold a are answered by the first run, those of fold b by the second."""
    qids = [f"{fold}{i}" for fold in "ab" for i in range(6)]
    for name, good in (("first", "a"), ("second", "b")):
        scores = {qid: [3.0, 2.0, 1.0] if qid[0] == good else [1.0, 3.0, 2.0] for qid in qids}
        write_run(str(tmp_path / f"{name}.trec"), [(qid, ["x", "y", "z"], scores[qid]) for qid in qids])
    (tmp_path / "qrels").write_text("".join(f"{qid} 0 x 1\n" for qid in qids))
    (tmp_path / "folds").write_text("".join(f"{qid}\t{qid[0]}\n" for qid in qids))
    return tmp_path


def fused(files, *options):
    forget(str(files / "out.trec"))
    command("fuse", files / "first.trec", files / "second.trec", *options, output=files / "out.trec")
    return {qid: ranking.ranked()[0] for qid, ranking in read_run(str(files / "out.trec")).items()}


def test_weights_of_a_fold_come_from_the_others(files):
    given = ["--method=weights", f"--qrels={files / 'qrels'}", f"--folds={files / 'folds'}"]
    best = fused(files, *given, "--measure=RR@10")
    # Fold a uses the run that is best for b, the second, which ranks a's documents wrongly; and vice versa.
    assert best == {f"{fold}{i}": "y" for fold in "ab" for i in range(6)}
    (files / "qrels").write_text("a0 0 x 0\nb0 0 x -1\n")
    with pytest.raises(InputError, match="none of the 1 judged queries has a relevant document"):
        fused(files, *given)
    (files / "folds").write_text("a0\ta\nb0\tb\n")
    with pytest.raises(InputError, match="query a1 of the runs is in no fold"):
        fused(files, *given)


def test_given_weights_are_applied_to_the_runs_in_their_order(files):
    best = fused(files, "--method=weights", "--weights=1,0.35")
    assert best == {f"{fold}{i}": "x" if fold == "a" else "y" for fold in "ab" for i in range(6)}
    verdict = {"rows": [{"system": name} for name in ("A", "B", "recommended")], "weights": {"B": 1.0}}  # A is left out
    (files / "verdict.json").write_text(json.dumps(verdict))
    decided = fused(files, "--method=weights", f"--verdict={files / 'verdict.json'}")
    assert decided == fused(files, "--method=weights", "--weights=0,1") != best
    for weights in ("1", "0,0"):
        with pytest.raises(InputError, match="one number for each of the 2 runs, not all of them 0"):
            fused(files, "--method=weights", f"--weights={weights}")


def test_priors_are_counts_of_anchors_and_of_words(files):
    (files / "anchors").write_text("y\twhy\t2\nelsewhere\tthere\t7\nz\tzed\t1\ny\tyes\t1\n")
    (files / "docs").write_text("x\t\t\t\ny\t\t\tone two three\nz\t\t\tone\n")
    for feature, option in (("inlinks", "anchors"), ("length", "docs")):
        output, given = str(files / f"{feature}.trec"), {option: str(files / option)}
        prior_files(run=str(files / "first.trec"), feature=feature, output=output, **given)
        ranking = read_run(output)["a0"]
        assert ranking.ranked() == ["y", "z", "x"]
        np.testing.assert_allclose(ranking.scores, np.log1p([3, 1, 0]), atol=1e-6)


def test_a_run_with_ties_is_no_better_than_itself(tmp_path):
    """Sums break ties as evaluation does. Ties in file order, which has relevant documents first, would look perfect."""
    qrels = {f"q{n}": {f"d{n}a": 1} for n in range(40)}
    lines = [f"q{n} Q0 d{n}{c} 1 7.5 t\n" for n in range(40) for c in "abcdef"]
    (tmp_path / "tie.trec").write_text("".join(lines))
    run = read_run(str(tmp_path / "tie.trec"))
    expected = evaluate(qrels, {"": [run]}, "RR@10").mean[""]["RR@10"]
    assert expected == pytest.approx(1 / 6)
    sums = weighted(pooled([run], "minmax"), (1.0,)), weighted(pooled([run, run], "none"), (1.0, 1.0))
    for fused_run in (*sums, reciprocal_ranks([run]), joined([run])):
        assert evaluate(qrels, {"": [dict(ordered(fused_run))]}, "RR@10").mean[""]["RR@10"] == pytest.approx(expected)
