"""Cross-validation: who trains on what, what is tested, and what the reader is told."""

import shlex

import pytest

from harp_jax.base.errors import InputError
from harp_jax.experiments.steps import Collection, cross_validation
from tests.support.judged_queries import planned, planned_text


def test_each_fold_is_ranked_by_the_others(files, capsys):
    steps = planned(
        files, capsys, "cross-validate", f"--folds={files / 'folds'}", "--seeds=3,4", "--set", "rank_loss=lce"
    )
    assert len(steps) == 2 * (3 * 3 + 1) + 1
    assert "--config.train_folds=('a', 'c')" in shlex.split(steps["train_s4_f1"])
    assert "--config.seed=4" in steps["train_s4_f1"] and "--config.rank_loss=lce" in steps["train_s4_f1"]
    assert f"--folds={files / 'folds'} --fold=b" in steps["run_s4_f1"]
    assert f"--queries={files / 'out' / 'evaluated.txt'}" in steps["evaluate"]
    assert steps["joined_s3"].count("run_s3_f") == 3
    assert "fine_tuned=" in steps["evaluate"] and steps["evaluate"].count("joined_s") == 2
    assert "--baseline=first_stage" in steps["evaluate"] and "--chance=fine_tuned" in steps["evaluate"]
    blank = planned(files, capsys, "cross-validate", f"--folds={files / 'folds'}", "--blank")
    assert "--blank_query" in blank["blank_s0_f1"] and "--blank=fine_tuned=fine_tuned_blank" in blank["evaluate"]
    (files / "folds").write_text("q1\ta\n")
    with pytest.raises(InputError, match="one fold only"):
        planned(files, capsys, "cross-validate", f"--folds={files / 'folds'}")
    with pytest.raises(InputError, match="--seeds=x"):
        planned(files, capsys, "cross-validate", f"--folds={files / 'folds'}", "--seeds=x")
    with pytest.raises(InputError, match="name: {x} has braces"):
        planned(files, capsys, "cross-validate", f"--folds={files / 'folds'}", "--name={x}")


def test_relevant_documents_of_several_folds_are_reported(files, capsys):
    with open(files / "qrels", "a") as file:
        file.write("q1 0 d5 1\nq7 0 d8 2\n")
    shown = planned_text(files, capsys, "cross-validate", f"--folds={files / 'folds'}")
    assert "note: 2 of 40 relevant documents are relevant to queries of several folds" in shown


def test_a_changed_input_makes_another_plan_even_at_the_same_path(files, capsys, monkeypatch):
    """A cross-validation that is rerun with corrected folds must not use models of the old ones."""
    options = ("cross-validate", f"--folds={files / 'folds'}")
    before = planned(files, capsys, *options)
    assert planned(files, capsys, *options) == before
    changes = {
        "folds": ("q7\tb", "q7\tc"),
        "run": ("q7 d7", "q7 d8"),
        "queries": ("text 7", "words 7"),
        "qrels": ("d7 1", "d7 2"),
    }
    for name, (old, new) in changes.items():
        (files / name).write_text((files / name).read_text().replace(old, new))
        after = planned(files, capsys, *options)
        assert after["train_s0_f0"] != before["train_s0_f0"], name
        before = after
    (files / "config.py").write_text("from other_config import get_config\n")
    (files / "other_config.py").write_text("from harp_jax.config import finetune as get_config\n")
    monkeypatch.syspath_prepend(files)
    assert planned(files, capsys, *options)["train_s0_f0"] != before["train_s0_f0"]


def test_queries_that_cannot_be_evaluated_are_reported_before_training(files, capsys):
    options = ("cross-validate", f"--folds={files / 'folds'}")
    (files / "qrels").write_text((files / "qrels").read_text().replace("q7 0", "q77 0"))
    printed = planned_text(files, capsys, *options)
    assert "note: 1 queries of" in printed and "q7 first" in printed
    assert "q7" not in (files / "out" / "evaluated.txt").read_text().split()
    (files / "queries").write_text("q1\ttext\n")
    with pytest.raises(InputError, match="39 queries have no text"):
        planned(files, capsys, *options)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--set=epocs=1.0", "epocs"),
        ("--set=epochs=many", "epochs"),
        ("--rerank=max_lenght=64", "harp rerank has no such option"),
        ("--measures=RR@x", "RR@x"),
    ],
)
def test_slips_are_said_before_anything_runs(files, capsys, option, message):
    with pytest.raises(InputError, match=message):
        planned(files, capsys, "cross-validate", f"--folds={files / 'folds'}", option)


def test_some_folds_only_and_further_rerankings():
    """Models of the tested folds are trained on all others, and a variant re-ranks by the same models."""
    commands = cross_validation(
        "knrm", Collection("docs", "queries", "qrels", ("title", "body")), folds="{folds}", fold_names="abc", only="b",
        config="config.py", candidates="{bm25}", variants={"blank": ["blank_query"]}, export=False,
    )  # fmt: skip
    assert [command.name for command in commands] == [
        "train_knrm_f1", "run_knrm_f1", "blank_knrm_f1", "joined_knrm", "blank_knrm",
    ]  # fmt: skip
    training, ranking, blank, joined, _ = commands
    assert "--config.train_folds=('a', 'c')" in training.arguments and "--config.folds={folds}" in training.arguments
    assert {"--model={train_knrm_f1}", "--fold=b", "--fields=title,body"} <= set(ranking.arguments)
    assert set(blank.arguments) == {*ranking.arguments, "--blank_query"}
    assert joined.arguments == ["--method=join", "{run_knrm_f1}", "--output={out}"]
