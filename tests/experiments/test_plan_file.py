"""Plan files: options, help, cost, and that the project's own plans match its commands."""

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
    "tables": [],
    "tables of two runs": [
        "candidates=ANCE=ance.trec,bm25.trec", "pairs=enwiki", "target_pairs=marco", "seeds=0,1", "tested=0,1",
        "blank=harp,prop_target", "settings=epochs=1.0,negatives=3", "rerank=max_length=256", "init=minilm",
    ],
    "tables with ablations": ["scale=full", "pretrain=steps=10,batch_tokens=500", "transformers=harp,no_mlm,no_rqp"],
    "figure4": ["seeds=0,1", "draws=2"],
    "recipe": [
        "init=three", "scale=small", "rows=links,k3,k7,titles,four,second,distilled,taught_alone,taught_by_whole", "teacher=minilm",
        "seeds=0,1",
    ],
    "recipe of two query sets": [
        "init=minilm", "rows=adp_qdm", "pairs=enwiki", "queries=a.tsv,b.tsv", "qrels=a.qrels,b.qrels", "only=some.txt,more.txt",
        "candidates=A=a.trec,B=b.trec", "seeds=0,1", "rerank=k=20",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_the_project_hold_together(name, monkeypatch):
    """Names, braces and command options are valid, and plan options are documented."""
    monkeypatch.chdir(ROOT)
    plan = load_plan(name.split()[0])
    assert plan.meanings.keys() == plan.defaults.keys()
    commands = plan.commands(PLANS[name])
    names = {command.name for command in commands} | {"out", "output"}
    assert len(names) == len(commands) + 2
    parsers = {used: load(used)[1] for used in {c.command for c in commands}}
    for step in commands:
        assert set(step.needs()) <= names
        if step.command in BY_FLAGS:
            overrides = [word for word in step.arguments if word.startswith("--config.")]
            read_config(step.arguments[0].removeprefix("--config="), overrides)
        else:
            parsers[step.command].parse_args(step.arguments)


def test_given_pairs_are_refused_for_rows_with_pairs_of_their_own():
    given = ["init=m", "scale=small", "pairs=p", "rows=links,mixed,taught", "teacher=t"]
    with pytest.raises(InputError, match="the rows mixed, taught have pairs of their own"):
        load_plan("recipe").commands(given)


def test_a_table_has_its_systems_and_what_was_trained_for_them():
    commands = {c.name: c.arguments for c in load_plan("tables").commands(PLANS["tables of two runs"])}
    assert {"--blank=harp=harp_blank", "--fold=0,1", "ANCE=ance.trec"} <= {*commands["table_ance"]}
    assert "harp={joined_ance_harp_s0},{joined_ance_harp_s1}" in commands["table_ance"]
    assert {"--config.init=minilm", "--config.seed=1"} <= {*commands["pre_harp_s1"]}
    assert "--config.train_folds=('1', '2', '3', '4')" in commands["train_bm25_harp_s0_f0"]


def test_a_step_alone_needs_what_it_reads(tmp_path, monkeypatch, capsys):
    """Also through the command line, with its checks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.tsv").write_text("gate\td1\t1\nlock\td2\t1\n")
    labels = "Command('labels', 'queries', ['labels', '--labels=labels.tsv', '--output={out}'])"
    folds = "Command('folds', 'queries', ['folds', '--queries={labels}/queries.tsv', '--count=2', '--output={out}'])"
    (tmp_path / "plan.py").write_text(f"{COMMAND}[{labels}, {folds}]")
    with pytest.raises(InputError, match="it reads labels, which are not done"):
        run("plan.py", "--output=out", "--only=folds")
    harp(["plan", "plan.py", "--output=out", "--only=labels"])
    assert [path.name[:6] for path in (tmp_path / "out").iterdir() if path.name[0] != "."] == ["labels"]
    run("plan.py", "--output=out", "--dry_run")
    printed = capsys.readouterr().out
    assert "done  labels" in printed and "to do  folds" in printed and "1 steps to do, 1 done" in printed
