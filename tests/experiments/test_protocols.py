"""Cross-validation and few-shot plans: who trains on what, nested draws, and that nothing tested is trained on."""

import importlib
import os
import runpy
import shlex
from functools import reduce

import pytest

from harp_jax.commands.table import COMMANDS
from harp_jax.errors import InputError
from harp_jax.experiments import protocols, subsets
from harp_jax.experiments.plan import HASHED, load_plan, read_by
from harp_jax.experiments.subsets import draws
from tests.support import ROOT

QRELS = {f"q{i}": {f"d{i}": 1} for i in range(40)} | {"none": {"d1": 0}}


def test_draws_are_nested_and_their_own():
    drawn = draws(QRELS, [5, 20, 10], 6, 0)
    for one in drawn:
        assert one[5] == one[10][:5] and one[10] == one[20][:10] and len(set(one[20])) == 20
        assert "none" not in one[20]
    assert len({tuple(one[10]) for one in drawn}) == 6
    assert draws(dict(reversed(QRELS.items())), [10], 2, 0) == [{10: one[10]} for one in drawn[:2]]
    assert draws(QRELS, [10], 1, 1) != draws(QRELS, [10], 1, 0)
    with pytest.raises(InputError, match="40 queries can be trained on, fewer than 41"):
        draws(QRELS, [41], 1, 0)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "qrels").write_text("".join(f"{q} 0 {d} {level}\n" for q, j in QRELS.items() for d, level in j.items()))
    (tmp_path / "run").write_text("".join(f"q{i} d{i} 1\n" for i in range(40)))
    (tmp_path / "folds").write_text("".join(f"q{i}\t{'abc'[i % 3]}\n" for i in range(40)))
    (tmp_path / "test").write_text("q1\tits text\nq2\n")
    (tmp_path / "queries").write_text("".join(f"q{i}\ttext {i}\n" for i in range(40)))
    (tmp_path / "docs").write_text("")
    (tmp_path / "config.py").write_text("from harp_jax.defaults import finetune as get_config\n")
    return tmp_path


def test_the_command_writes_lists(files):
    given = [f"--qrels={files / 'qrels'}", "--sizes=2,4", "--draws=2", f"--output={files / 'out'}"]
    given += [f"--folds={files / 'folds'}", "--train_folds=a,b", f"--run={files / 'run'}"]
    subsets.main(subsets.arguments_parser().parse_args(given))
    four = (files / "out" / "draw-01" / "4.txt").read_text().split()
    assert (files / "out" / "draw-01" / "2.txt").read_text().split() == four[:2]
    assert all(int(q[1:]) % 3 < 2 for q in four)
    with pytest.raises(InputError, match="--sizes=0"):
        subsets.main(subsets.arguments_parser().parse_args([*given, "--sizes=0"]))


def planned(files, capsys, *options) -> dict[str, str]:
    """Name of a command → the command."""
    rows = [line.split("  ", 1)[1].split(": ", 1) for line in planned_text(files, capsys, *options).splitlines()]
    return dict(rows)


def planned_text(files, capsys, *options) -> str:
    given = [f"--{name}={files / name}" for name in ("docs", "queries", "qrels", "run")]
    given += [f"--config={files / 'config.py'}", f"--output={files / 'out'}", "--dry_run"]
    protocols.main(protocols.arguments_parser().parse_args([options[0], *given, *options[1:]]))
    return capsys.readouterr().out


def test_each_fold_is_ranked_by_the_others(files, capsys):
    steps = planned(
        files, capsys, "cross_validate", f"--folds={files / 'folds'}", "--seeds=3,4", "--set", "rank_loss=lce"
    )
    assert len(steps) == 2 * (3 * 3 + 1) + 1
    assert "--config.train_folds=('a', 'c')" in shlex.split(steps["train_s4_f1"])
    assert "--config.seed=4" in steps["train_s4_f1"] and "--config.rank_loss=lce" in steps["train_s4_f1"]
    assert f"--folds={files / 'folds'} --fold=b" in steps["run_s4_f1"]
    assert f"--queries={files / 'out' / 'evaluated.txt'}" in steps["evaluate"]
    assert steps["joined_s3"].count("run_s3_f") == 3
    assert "fine_tuned=" in steps["evaluate"] and steps["evaluate"].count("joined_s") == 2
    assert "--baseline=first_stage" in steps["evaluate"]
    (files / "folds").write_text("q1\ta\n")
    with pytest.raises(InputError, match="one fold only"):
        planned(files, capsys, "cross_validate", f"--folds={files / 'folds'}")
    with pytest.raises(InputError, match="--seeds=x"):
        planned(files, capsys, "cross_validate", f"--folds={files / 'folds'}", "--seeds=x")


def test_shared_relevant_documents_are_said_and_left_out_on_demand(files, capsys):
    """What was relevant in training is known to be asked about: on few documents that alone ranks them."""
    with open(files / "qrels", "a") as file:
        file.write("q1 0 d5 1\nq7 0 d8 2\n")
    given = ["few_shot", f"--test_queries={files / 'test'}", "--sizes=5", "--draws=1", "--set", "steps=30"]
    shown = planned_text(files, capsys, *given)
    assert "note: 1 of 38 training queries share a relevant document with a test query, q5 for example" in shown
    assert "q5\n" in (files / "out" / "train.txt").read_text()
    assert "note" not in planned_text(files, capsys, *given, "--disjoint")
    assert "q5\n" not in (files / "out" / "train.txt").read_text()
    shown = planned_text(files, capsys, "cross_validate", f"--folds={files / 'folds'}")
    assert "note: 2 of 40 relevant documents are relevant to queries of several folds" in shown


def test_few_shot_draws_only_what_can_be_trained_on(files, capsys):
    """A subset of five that loses queries without text or without a document would be shown as five."""
    (files / "queries").write_text("".join(f"q{i}\ttext {i}\n" for i in range(20)))
    given = ["few_shot", f"--test_queries={files / 'test'}", "--sizes=5", "--draws=1", "--set", "steps=30"]
    steps = planned(files, capsys, *given)
    assert set((files / "out" / "train.txt").read_text().split()) == {f"q{i}" for i in range(20)} - {"q1", "q2"}
    assert f"--docs={files / 'docs'}" in steps["subsets"]
    (files / "docs.tsv").write_text("".join(f"d{i}\t\t\ttext\n" for i in range(10)))
    drawn = [f"--qrels={files / 'qrels'}", f"--docs={files / 'docs.tsv'}", "--draws=1", f"--output={files / 'out'}"]
    subsets.main(subsets.arguments_parser().parse_args([*drawn, "--sizes=10"]))
    assert set((files / "out" / "draw-00" / "10.txt").read_text().split()) == {f"q{i}" for i in range(10)}
    with pytest.raises(InputError, match="10 queries can be trained on, fewer than 11"):
        subsets.main(subsets.arguments_parser().parse_args([*drawn, "--sizes=11"]))


def test_few_shot_never_draws_a_test_query(files, capsys):
    steps = planned(
        files, capsys, "few_shot", f"--test_queries={files / 'test'}", "--sizes=5,10", "--draws=2", "--seeds=0,1",
        "--set", "steps=30",
    )  # fmt: skip
    assert len(steps) == 1 + 2 * 2 * 2 * 3 + 1
    assert set((files / "out" / "train.txt").read_text().split()) == {q for q in QRELS} - {"q1", "q2", "none"}
    assert "draw-01/5.txt" in steps["train_n5_d1_s0"] and f"--only={files / 'test'}" in steps["run_n5_d1_s0"]
    assert "--runs_per_draw=2" in steps["evaluate"]
    assert steps["evaluate"].count("run_n10_") == 4 and "fine_tuned_5=" in steps["evaluate"]
    (files / "train").write_text("q1\nq3\n")
    with pytest.raises(InputError, match="query q1 is in --train_queries and in --test_queries"):
        both = [f"--test_queries={files / 'test'}", f"--train_queries={files / 'train'}", "--set", "steps=30"]
        planned(files, capsys, "few_shot", *both)
    with pytest.raises(InputError, match="one number of updates"):
        planned(files, capsys, "few_shot", f"--test_queries={files / 'test'}")


def test_a_changed_input_makes_another_plan_even_at_the_same_path(files, capsys, monkeypatch):
    """A killed cross-validation whose folds were mended meanwhile must not go on with models of the old ones."""
    options = ("cross_validate", f"--folds={files / 'folds'}")
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
    (files / "other_config.py").write_text("from harp_jax.defaults import finetune as get_config\n")
    monkeypatch.syspath_prepend(files)
    assert planned(files, capsys, *options)["train_s0_f0"] != before["train_s0_f0"]


def test_the_fields_of_a_config_count_wherever_they_are_written(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import os\ndef get_config(): return os.environ['FIELDS']\n")
    argument = f"--config={tmp_path / 'mine.py'}:option"
    found = []
    for fields in ("steps: 1", "steps: 2", "steps: 1"):
        monkeypatch.setenv("FIELDS", fields)
        found.append(read_by(argument))
    assert found[0] == found[2] != found[1]


def test_large_files_count_by_size_and_time_and_folders_by_what_lies_in_them(tmp_path):
    path = tmp_path / "docs.tsv"
    path.write_bytes(bytes(HASHED + 1))
    first = read_by(f"--docs={path}")
    os.utime(path, ns=(1, 1))
    second = read_by(f"--docs={path}")
    assert first != second == read_by(f"--config.docs=('{path}',)")
    inside = read_by(f"--docs={tmp_path}")
    (tmp_path / "more.tsv").write_text("")
    assert read_by(f"--docs={tmp_path}") != inside and read_by("--fields=title,body") == ""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("q1 d1 1")
    before = read_by(f"--qrels={tmp_path}")
    (tmp_path / "qrels" / "test.tsv").write_text("q1 d2 1\n")
    assert read_by(f"--qrels={tmp_path}") != before
    odd = tmp_path / "k1=0.9,b=0.4.trec"
    odd.write_text("one")
    before = read_by(f"--run={odd}")
    odd.write_text("two")
    assert read_by(f"--run={odd}") != before


def test_queries_that_cannot_be_shown_are_named_before_anything_is_trained(files, capsys):
    options = ("cross_validate", f"--folds={files / 'folds'}")
    (files / "qrels").write_text((files / "qrels").read_text().replace("q7 0", "q77 0"))
    protocols_said = planned_text(files, capsys, *options)
    assert "note: 1 queries of" in protocols_said and "q7 first" in protocols_said
    assert "q7" not in (files / "out" / "evaluated.txt").read_text().split()
    (files / "queries").write_text("q1\ttext\n")
    with pytest.raises(InputError, match="39 queries have no text"):
        planned(files, capsys, *options)


BY_FLAGS = ("harp_jax.main", "harp_jax.linklearn.train", "data_pipeline.main")
PLANS = [
    "coarse_tuning",
    "controls",
    "linklearn",
    "neural_ir",
    "neural_ir of wiki",
    "../../tests/real/wiki_losses_plan",
]


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_the_project_hold_together(name, monkeypatch):
    """Names, braces and the files of the project that they read; data that is not at hand stands as empty files."""
    monkeypatch.chdir(ROOT)
    name, _, collection = name.partition(" of ")
    if collection:
        monkeypatch.setenv("HARP_COLLECTION", collection)
    monkeypatch.setenv("HARP_REGIMES", "linked all")
    commands = load_plan(f"configs/experiments/{name}.py")
    names = {command.name for command in commands} | {"out", "output"}
    assert len(names) == len(commands) + 2
    parsers = {
        name: importlib.import_module(COMMANDS[name].module if name in COMMANDS else name).arguments_parser()
        for name in {c.module for c in commands}.difference(BY_FLAGS)
    }
    for command in commands:
        assert set(command.needs()) <= names
        if command.module not in BY_FLAGS:
            parsers[command.module].parse_args(command.arguments)
            continue
        config = runpy.run_path(command.arguments[0].removeprefix("--config="))["get_config"]()
        for argument in command.arguments:
            if argument.startswith("--config."):
                field = argument.removeprefix("--config.").split("=", 1)[0]
                reduce(lambda part, key: part[key], field.split("."), config)  # KeyError where there is none
