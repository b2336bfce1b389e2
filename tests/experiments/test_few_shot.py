"""Few-shot curves: nothing that is tested is trained on, and draws are of queries that can be trained on."""

import pytest

from harp_jax.base.errors import InputError
from harp_jax.commands import queries
from tests.support.judged_queries import QRELS, planned, planned_text


def test_shared_relevant_documents_are_reported_and_left_out_on_demand(files, capsys):
    """What was relevant in training is known to be asked about: on few documents that alone ranks them."""
    with open(files / "qrels", "a") as file:
        file.write("q1 0 d5 1\nq7 0 d8 2\n")
    given = ["few-shot", f"--test_queries={files / 'test'}", "--sizes=5", "--draws=1", "--set", "steps=30"]
    shown = planned_text(files, capsys, *given)
    assert "note: 1 of 38 training queries share a relevant document with a test query, q5 for example" in shown
    assert "q5\n" in (files / "out" / "train.txt").read_text()
    assert "note" not in planned_text(files, capsys, *given, "--disjoint")
    assert "q5\n" not in (files / "out" / "train.txt").read_text()


def test_few_shot_draws_only_what_can_be_trained_on(files, capsys):
    """A subset of five that loses queries without text or without a document would be reported as five."""
    (files / "queries").write_text("".join(f"q{i}\ttext {i}\n" for i in range(20)))
    given = ["few-shot", f"--test_queries={files / 'test'}", "--sizes=5", "--draws=1", "--set", "steps=30"]
    steps = planned(files, capsys, *given)
    assert set((files / "out" / "train.txt").read_text().split()) == {f"q{i}" for i in range(20)} - {"q1", "q2"}
    assert f"--docs={files / 'docs'}" in steps["subsets"]
    (files / "docs.tsv").write_text("".join(f"d{i}\t\t\ttext\n" for i in range(10)))
    drawn = [f"--qrels={files / 'qrels'}", f"--docs={files / 'docs.tsv'}", "--draws=1", f"--output={files / 'out'}"]
    queries.main(queries.arguments_parser().parse_args(["subsets", *drawn, "--sizes=10"]))
    assert set((files / "out" / "draw-00" / "10.txt").read_text().split()) == {f"q{i}" for i in range(10)}
    with pytest.raises(InputError, match="10 queries can be trained on, fewer than 11"):
        queries.main(queries.arguments_parser().parse_args(["subsets", *drawn, "--sizes=11"]))


def test_few_shot_never_draws_a_test_query(files, capsys):
    steps = planned(
        files, capsys, "few-shot", f"--test_queries={files / 'test'}", "--sizes=5,10", "--draws=2", "--seeds=0,1",
        "--set", "steps=30",
    )  # fmt: skip
    assert len(steps) == 1 + 2 * 2 * 2 * 3 + 1
    assert set((files / "out" / "train.txt").read_text().split()) == {q for q in QRELS} - {"q1", "q2", "none"}
    assert "draw-01/5.txt" in steps["train_n5_d1_s0"] and f"--only={files / 'test'}" in steps["run_n5_d1_s0"]
    assert "--runs_per_draw=2" in steps["evaluate"] and "--chance=fine_tuned_5" in steps["evaluate"]
    assert steps["evaluate"].count("run_n10_") == 4 and "fine_tuned_5=" in steps["evaluate"]
    given = ("few-shot", f"--test_queries={files / 'test'}", "--sizes=5", "--draws=2", "--set", "steps=30", "--blank")
    table = planned(files, capsys, *given)["evaluate"]
    assert table.count("blank_n5_") == 2 and "--blank=fine_tuned_5=fine_tuned_5_blank" in table
    (files / "train").write_text("q1\nq3\n")
    with pytest.raises(InputError, match="query q1 is in --train_queries and in --test_queries"):
        both = [f"--test_queries={files / 'test'}", f"--train_queries={files / 'train'}", "--set", "steps=30"]
        planned(files, capsys, "few-shot", *both)
    with pytest.raises(InputError, match="one number of updates"):
        planned(files, capsys, "few-shot", f"--test_queries={files / 'test'}")
