"""Plan files: their options, their help, and that the project's own plans fit its commands."""

import os
import runpy
from ast import literal_eval
from functools import reduce

import pytest

from harp_jax.base.errors import InputError
from harp_jax.commands.plan import arguments_parser, main
from harp_jax.commands.table import load
from harp_jax.config import config_file, read_config
from harp_jax.experiments.plan import load_plan, parsed, shipped_plans
from tests.support import ROOT

PLAN = '''"""A plan for tests.

More about it.
"""

from harp_jax.experiments.plan import Command




def get_plan(seeds: tuple[int, ...] = (0, 1), steps: int = 600, name: str = "a", rate: float = 0.1, fast: bool = False):
    """Options:

    seeds: of every training
    steps: updates
    """
    return [Command(name, "words", [str(seeds), str(steps), str(rate), str(fast), "--output={out}"])]
'''


@pytest.fixture
def plan(tmp_path, monkeypatch):
    (tmp_path / "plan.py").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return "plan.py"


def run(*arguments):
    main(arguments_parser().parse_args(list(arguments)))


def test_options_are_parsed_by_the_type_of_their_defaults(plan):
    (command,) = load_plan(plan).commands()
    assert command.arguments[:-1] == ["(0, 1)", "600", "0.1", "False"]
    (command,) = load_plan(plan).commands(["seeds=3", "steps=5", "name=b", "rate=1", "fast=true"])
    assert (command.name, command.arguments[:-1]) == ("b", ["(3,)", "5", "1.0", "True"])
    assert parsed("epochs=1.0,fields=('title','body')", ("",)) == ("epochs=1.0", "fields=('title','body')")
    assert parsed("", (0,)) == () and parsed("a, b", ()) == ("a", "b")


@pytest.mark.parametrize("wrong", ["speed=1", "steps", "steps=many", "seeds=0,x", "fast=perhaps"])
def test_wrong_options_are_refused_with_the_list_of_options(plan, wrong):
    with pytest.raises(InputError, match=r"--set .*options of plan\.py: seeds \(0,1\), steps \(600\), name \(a\)"):
        load_plan(plan).commands([wrong])


def test_the_fields_of_a_dataclass_are_options():
    plan = load_plan("tables")
    commands = {c.name: c.arguments for c in plan.commands(["seeds=3,4", "docs=d.tsv", "transformers=none"])}
    assert "train_bm25_none_s4_f0" in commands and "--docs=d.tsv" in commands["bm25"]
    assert plan.meanings["seeds"] == "of pre-training and fine-tuning" and "qrels" in plan.help()
    with pytest.raises(InputError, match=r"--set seeds=x: 'x' is not an integer"):
        plan.commands(["seeds=x"])


def test_help_describes_the_plan_and_its_options(plan, capsys):
    for words in ([plan, "--help"], ["--jobs=2", plan, "-h"]):
        with pytest.raises(SystemExit) as stopped:
            run(*words)
        printed = capsys.readouterr().out
        assert stopped.value.code == 0 and "A plan for tests.\n\nMore about it." in printed
        assert "seeds  of every training (0,1)" in printed and "fast" in printed and "usage: harp plan" in printed
    with pytest.raises(SystemExit):
        run("--help")
    assert "--dry_run" in capsys.readouterr().out


def test_without_a_plan_the_shipped_ones_are_listed(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run()
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == [name for name, _ in shipped_plans()]
    assert "demo" in printed and "invented wiki" in printed


def test_a_dry_run_runs_nothing(plan, capsys):
    run("--jobs=1", plan, "--output=out", "--dry_run", "--set", "steps=7")
    assert "to do  a: python -m harp_jax words '(0, 1)' 7 0.1 False --output=out/a-" in capsys.readouterr().out
    assert not os.path.exists("out")


COMMAND = "from harp_jax.experiments.plan import Command\ndef get_plan(): return "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def get_plan(:", "line 1: invalid syntax; correct the file"),
        ("import nothing_of_that_name", "line 1: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("import sys; sys.exit(3)", "line 1: SystemExit: 3"),
        ("get_plan = 3", "TypeError: 3 is not a callable object"),
        ("def get_plan(steps): return []", "TypeError: .*missing 1 required positional argument: 'steps'"),
        ("def get_plan():\n    return undefined", "line 2: NameError: name 'undefined' is not defined"),
        ("def get_plan(): return None", "TypeError: 'NoneType' object is not iterable"),
        ("def get_plan(): return [1]", r"get_plan\(\) returned 1; return a list of Command"),
        (COMMAND + "[Command('a', 'word', [])]", "runs 'word', which is no command"),
        (COMMAND + "[Command('a', 'words', ['{b}'])]", "step a has {b} in its arguments"),
        (COMMAND + "[Command('a', 'words', [])]", "no --output"),
    ],
)
def test_what_is_wrong_in_a_plan_file_is_one_line(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text(text)
    with pytest.raises(InputError, match=message):
        run("wrong.py", *([] if "--output" in message else ["--output=out"]))
    with pytest.raises(
        InputError, match=r"no plan 'nothing\.py'; name a Python file with get_plan\(\), or one of .*demo"
    ):
        run("nothing.py")


BY_FLAGS = ("train", "linklearn-train", "generate", "vocabulary", "survey", "rate")
PLANS: dict[str, list[str]] = {
    "demo": [],
    "coarse_tuning": [],
    "linklearn": ["steps=30"],
    "neural_ir": [],
    "neural_ir of wiki": ["collection=wiki"],
    "coarse_tuning of another collection": ["collection=mine", "folds=3", "fine_epochs=1.0"],
    "linklearn of another corpus": ["linked=a.jsonl", "docs=docs.tsv", "queries=queries.tsv", "qrels=qrels.txt"],
    "tables": [],
    "tables of two runs": [
        "candidates=ANCE=ance.trec,bm25.trec", "pairs=enwiki", "target_pairs=marco", "seeds=0,1", "tested=0,1",
        "blank=harp,prop_target", "settings=epochs=1.0,negatives=3", "rerank=max_length=256", "init=minilm",
    ],
    "tables with ensembles": ["seeds=0,1", "ensembles=true"],
    "tables with ablations": ["scale=full", "pretrain=steps=10,batch_tokens=500", "transformers=harp,no_mlm,no_rqp"],
    "figure4": ["seeds=0,1", "draws=2"],
    "zero_shot": ["init=minilm", "scale=small"],
    "zero_shot of all queries": ["init=minilm", "variants=adp_qdm", "sample=0", "tested=0"],
}  # fmt: skip


def test_every_shipped_plan_is_tested():
    assert {name for name, _ in shipped_plans()} <= PLANS.keys()


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_the_project_hold_together(name, monkeypatch):
    """Names, braces and options of commands; options of the plan are documented."""
    monkeypatch.chdir(ROOT)
    plan = load_plan(name.split()[0])
    assert plan.meanings.keys() == plan.defaults.keys()
    commands = plan.commands(PLANS[name])
    names = {command.name for command in commands} | {"out", "output"}
    assert len(names) == len(commands) + 2
    used = {c.command for c in commands}
    parsers = {name: load(name)[1] for name in used}
    for command in commands:
        assert set(command.needs()) <= names
        if command.command not in BY_FLAGS:
            parsers[command.command].parse_args(command.arguments)
            continue
        config = runpy.run_path(config_file(command.arguments[0].removeprefix("--config=")))["get_config"]()
        for argument in command.arguments:
            if argument.startswith("--config."):
                field = argument.removeprefix("--config.").split("=", 1)[0]
                reduce(lambda part, key: part[key], field.split("."), config)  # KeyError where there is none


WITH_RECOMMENDED = ["transformers=none,mlm,recommended"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("tables", []), ("tables", WITH_RECOMMENDED), ("tables", ["transformers=no_qdm"]),
        ("figure4", WITH_RECOMMENDED), ("zero_shot", ["init=minilm"]), ("zero_shot", ["init=minilm", "variants=slower"]),
    ],
)  # fmt: skip
def test_pairs_are_generated_of_every_task_that_is_trained_on(name, settings, monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = load_plan(name).commands(settings)
    (made,) = (
        word for c in commands if c.name == "pairs" for word in c.arguments if word.startswith("--config.tasks=")
    )
    trained = 0
    for command in commands:
        if command.command == "train" and "--config.data=('{pairs}',)" in command.arguments:
            overrides = [word for word in command.arguments if word.startswith("--config.")]
            config = read_config(command.arguments[0].removeprefix("--config="), overrides)
            assert set(config.tasks) <= set(literal_eval(made.removeprefix("--config.tasks="))), command.name
            trained += 1
    assert trained


def test_table_2_has_a_table_for_each_run_and_names_what_it_compares():
    commands = {c.name: c.arguments for c in load_plan("tables").commands(PLANS["tables of two runs"])}
    table = commands["table_ance"]
    assert {"--baseline=harp", "--blank=harp=harp_blank", "--blank=prop_target=prop_target_blank"} <= set(table)
    assert "--fold=0,1" in table and "--confirm=RR@10" in table and "ANCE=ance.trec" in table
    assert "harp={joined_ance_harp_s0},{joined_ance_harp_s1}" in table
    rows = [row.split("=")[0] for row in commands["table_bm25"] if not row.startswith("--")]
    assert (
        rows[0] == "bm25" and rows.count("bm25") == 1 and {"ql", "bm25f", "expanded", "inlinks", "length"} <= set(rows)
    )
    assert "--config.data=('marco',)" in commands["pre_prop_target_s0"] and "pairs" not in commands
    assert "--config.init=minilm" in commands["pre_harp_s1"] and "--config.seed=1" in commands["pre_harp_s1"]
    assert "--config.train_folds=('1', '2', '3', '4')" in commands["train_bm25_harp_s0_f0"]
    assert "train_bm25_harp_s0_f4" not in commands
    wrongs = ["transformers=bert", "lexical=tf", "scale=huge", "tested=7", "candidates=a/x.trec,b/x.trec"]
    for wrong in (*wrongs, "tested=0"):
        with pytest.raises(InputError, match=wrong.partition("=")[0]):
            load_plan("tables").commands([wrong, "ensembles=true"])


def test_ablations_leave_one_task_or_mlm_out():
    commands = {c.name: c.arguments for c in load_plan("tables").commands(["transformers=harp,no_qdm,no_mlm"])}
    assert "--config.tasks=('rqp', 'rdp', 'acm')" in commands["pre_no_qdm_s0"]
    assert "--config.mlm_weight=0.0" in commands["pre_no_mlm_s0"] and "--baseline=harp" in commands["table_bm25"]


def test_ensembles_are_of_seeds_and_of_all_systems():
    options = ["transformers=mlm,harp", "lexical=", "neural_rankers=", "ensembles=true", "seeds=0,1"]
    commands = {c.name: c.arguments for c in load_plan("tables").commands(options)}
    rows = [row.split("=")[0] for row in commands["table_bm25"] if not row.startswith("--")]
    systems = ["mlm", "mlm+BM25", "mlm ensemble", "harp", "harp_blank", "harp+BM25", "harp ensemble"]
    assert rows == ["BM25", *systems, "all"] and "--baseline=harp+BM25" in commands["table_bm25"]
    assert commands["all_bm25"][:3] == ["{bm25}", "{joined_bm25_mlm_s0}", "{joined_bm25_harp_s0}"]


def test_figure_4_draws_from_the_folds_that_are_not_tested():
    commands = {c.name: c.arguments for c in load_plan("figure4").commands(["seeds=0,1", "draws=2", "tested=3"])}
    assert {"--train_folds=0,1,2,4", "--sizes=10,50,200", "--draws=2"} <= set(commands["subsets_few"])
    assert {"--sizes=25%,50%,100%", "--draws=1"} <= set(commands["subsets_large"])
    assert "--config.train_queries={subsets_few}/draw-01/50.txt" in commands["train_few_harp_50_d1_s0"]
    assert (
        "--config.steps=100" in commands["train_few_harp_50_d1_s0"] and "--fold=3" in commands["run_few_harp_50_d1_s0"]
    )
    points = "harp@50=" + ",".join("{run_few_harp_50_" + f"d{d}_s{s}" + "}" for d in range(2) for s in range(2))
    assert {points, "--runs_per_draw=2", "--fold=3"} <= set(commands["few"]) and "BM25={bm25}" in commands["few"]
    assert not any("steps=" in argument for argument in commands["train_large_harp_50_d0_s0"])
