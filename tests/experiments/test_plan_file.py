"""Plan files: options, help, cost, and that the project's own plans match its commands."""

import json
import os
from functools import partial

import pytest

from harp_jax.__main__ import main as harp
from harp_jax.base.errors import InputError
from harp_jax.commands.table import load
from harp_jax.config import read_config
from harp_jax.experiments.plan import load_plan, parsed
from tests.support import ROOT
from tests.support.commands import command

PLAN = '''"""A plan for tests."""
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


run = partial(command, "plan")


def test_options_are_parsed_by_the_type_of_their_defaults(plan):
    (command,) = load_plan(plan).commands()
    assert command.arguments[:-1] == ["(0, 1)", "600", "0.1", "False"]
    (command,) = load_plan(plan).commands(["seeds=3", "steps=5", "name=b", "rate=1", "fast=true"])
    assert (command.name, command.arguments[:-1]) == ("b", ["(3,)", "5", "1.0", "True"])
    assert parsed("epochs=1.0,fields=('title','body')", ("",)) == ("epochs=1.0", "fields=('title','body')")
    assert parsed("", (0,)) == () and parsed("a, b", ()) == ("a", "b")


@pytest.mark.parametrize("wrong", ["speed=1", "steps", "seeds=0,x", "fast=perhaps"])
def test_wrong_options_are_refused_with_the_list_of_options(plan, wrong):
    with pytest.raises(InputError, match=r"--set .*options of plan\.py: seeds \(0,1\), steps \(600\), name \(a\)"):
        load_plan(plan).commands([wrong])


COMMAND = "from harp_jax.experiments.plan import Command\ndef get_plan(): return "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def get_plan(:", "line 1: invalid syntax; correct the file"),
        ("import sys; sys.exit(3)", "line 1: SystemExit: 3"),
        ("def get_plan(steps): return []", "TypeError: .*missing 1 required positional argument: 'steps'"),
        ("def get_plan(): return [1]", r"get_plan\(\) returned 1; return a list of Command"),
        (COMMAND + "[Command('a', 'word', [])]", "runs 'word', which is not a command"),
        (COMMAND + "[Command('a', 'words', ['{b}'])]", "step a has {b} in its arguments, and no earlier step has"),
        (COMMAND + "[Command('a', 'words', ['{out}'])] * 2", "used twice"),
        ("", r"no plan 'wrong\.py'; name a Python file with get_plan\(\), or one of .*demo"),
    ],
)
def test_what_is_wrong_in_a_plan_file_is_one_line(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    if text:
        (tmp_path / "wrong.py").write_text(text)
    with pytest.raises(InputError, match=message):
        run("wrong.py", "--output=out")


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
    "tables with ensembles": ["seeds=0,1", "ensembles=true", "transformers=none,sjtf,harp"],
    "tables with ablations": ["scale=full", "pretrain=steps=10,batch_tokens=500", "transformers=harp,no_mlm,no_rqp"],
    "tables with another mixture": ["transformers=none,mlm,recommended"],
    "figure4": ["seeds=0,1", "draws=2"],
    "figure4 with another mixture": ["transformers=none,mlm,recommended"],
    "recipe": [
        "init=three", "scale=small", "rows=links,k3,k7,titles,four,second,distilled,taught_alone,taught_by_whole", "teacher=minilm",
        "seeds=0,1",
    ],
    "recipe of every task": ["init=minilm", "rows=slower", "candidates=runs/bm25.trec"],
    "recipe of two query sets": [
        "init=minilm", "rows=adp_qdm", "pairs=enwiki", "queries=a.tsv,b.tsv", "qrels=a.qrels,b.qrels", "only=some.txt,more.txt",
        "candidates=A=a.trec,B=b.trec", "seeds=0,1", "rerank=k=20",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_the_project_hold_together(name, monkeypatch):
    """Names, braces and command options are valid, plan options are documented, and every trained task is generated."""
    monkeypatch.chdir(ROOT)
    plan = load_plan(name.split()[0])
    assert plan.meanings.keys() == plan.defaults.keys()
    commands = plan.commands(PLANS[name])
    names = {command.name for command in commands} | {"out", "output"}
    assert len(names) == len(commands) + 2
    parsers = {used: load(used)[1] for used in {c.command for c in commands}}
    made, trained = {}, 0
    for step in commands:
        assert set(step.needs()) <= names
        if step.command not in BY_FLAGS:
            parsers[step.command].parse_args(step.arguments)
            continue
        overrides = [word for word in step.arguments if word.startswith("--config.")]
        config = read_config(step.arguments[0].removeprefix("--config="), overrides)
        if step.command == "generate":
            made[f"{{{step.name}}}"] = set(config.tasks)
        elif step.command == "train" and (config.get("data") or [""])[0] in made:
            assert set(config.tasks) <= made[config.data[0]], step.name
            trained += 1
    assert trained or name not in ("tables", "figure4", "recipe of every task")


@pytest.mark.parametrize(
    ("plan", "options", "named"),
    [
        ("tables", ["transformers=bert"], "transformers"),
        ("tables", ["candidates=a/x.trec,b/x.trec"], "candidates"),
        ("tables", ["tested=7"], "tested"),
        ("recipe", ["init=minilm", "rows=taught"], "teacher"),  # not set
        ("recipe", ["init=minilm", "candidates=BM25="], "candidates=BM25=: write NAME=RUN"),
    ],
)
def test_wrong_options_of_a_plan_are_named(plan, options, named):
    with pytest.raises(InputError, match=named):
        load_plan(plan).commands(options)


def test_a_table_has_its_systems_their_ensembles_and_what_was_trained_for_them():
    commands = {c.name: {*c.arguments} for c in load_plan("tables").commands(PLANS["tables of two runs"])}
    assert {"--blank=harp=harp_blank", "--fold=0,1", "ANCE=ance.trec"} <= commands["table_ance"]
    assert "harp={joined_ance_harp_s0},{joined_ance_harp_s1}" in commands["table_ance"]
    assert {"--config.init=minilm", "--config.seed=1"} <= commands["pre_harp_s1"]
    assert "--config.train_folds=('1', '2', '3', '4')" in commands["train_bm25_harp_s0_f0"]
    options = ["transformers=mlm,harp", "lexical=", "neural_rankers=", "ensembles=true", "seeds=0,1"]
    commands = {c.name: c.arguments for c in load_plan("tables").commands(options)}
    rows = [row.split("=")[0] for row in commands["table_bm25"] if not row.startswith("--")]
    systems = ["mlm", "mlm+BM25", "mlm ensemble", "harp", "harp_blank", "harp+BM25", "harp ensemble"]
    assert rows == ["BM25", *systems, "all"] and "--baseline=harp+BM25" in commands["table_bm25"]
    assert commands["all_bm25"][:3] == ["{bm25}", "{joined_bm25_mlm_s0}", "{joined_bm25_harp_s0}"]


FOLDS = """
from harp_jax.experiments.plan import Command
def get_plan():
    folds = ["--queries=queries.tsv", "--count=2", "--output={out}"]
    rows = ["--qrels=qrels.txt", "--folds={folds}", "--train_folds=0", "--sizes=1", "--draws=1", "--output={out}"]
    return [Command("folds", "queries", ["folds", *folds], suffix=".tsv"), Command("subsets", "queries", ["subsets", *rows])]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "plan.py").write_text(FOLDS)
    (tmp_path / "queries.tsv").write_text("".join(f"q{i}\ttext\n" for i in range(6)))
    (tmp_path / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(6)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_times_are_those_of_finished_steps_and_never_guessed(folder, capsys):
    run("plan.py", "--output=out", "--dry_run")
    assert "queries: 2 to do, time unknown: none is done" in capsys.readouterr().out and not os.path.exists("out")
    (folder / "out" / ".plan").mkdir(parents=True)
    record = {"name": "folds", "command": "python -m harp_jax queries folds --count=9 --output=x"}
    for seconds in (90.0, 150.0):
        path = folder / "out" / ".plan" / f"folds-{seconds}.json"
        path.write_text(json.dumps({**record, "seconds": seconds}))
    run("plan.py", "--output=out", "--dry_run", "--jobs=2")
    printed = capsys.readouterr().out
    assert "queries: 2 to do, 4 min (the mean of 2 done)" in printed
    assert "together 4 min, one after the other; --jobs=2" in printed


def test_a_step_alone_needs_what_it_reads(folder, capsys):
    with pytest.raises(InputError, match="it reads folds, which are not done"):
        run("plan.py", "--output=out", "--only=subsets")
    harp(["plan", "plan.py", "--output=out", "--only=folds"])  # through the command line, with its checks
    assert [path.name[:5] for path in (folder / "out").glob("*") if path.is_file()] == ["folds"]
    run("plan.py", "--output=out", "--dry_run")
    printed = capsys.readouterr().out
    assert "done  folds" in printed and "to do  subsets" in printed and "1 steps to do, 1 done" in printed
