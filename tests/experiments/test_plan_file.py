"""Plan files: their options, their help, and that the project's own plans fit its commands."""

import importlib
import os
import runpy
from functools import reduce

import pytest

from harp_jax.commands.plan import arguments_parser, main
from harp_jax.commands.table import COMMANDS
from harp_jax.errors import InputError
from harp_jax.experiments.plan import resolve
from harp_jax.experiments.plan_file import load_plan, parsed, shipped_plans
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


def test_what_is_no_plan_is_named(plan, tmp_path):
    with pytest.raises(
        InputError, match=r"no plan 'nothing\.py'; give a Python file with get_plan\(\), or one of .*demo"
    ):
        load_plan("nothing.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(InputError, match=r"empty\.py has no get_plan"):
        load_plan("empty.py")
    (tmp_path / "required.py").write_text("def get_plan(steps): return []")
    with pytest.raises(InputError, match="the option 'steps' of get_plan"):
        load_plan("required.py")
    with pytest.raises(InputError, match="no --output"):
        run(plan)
    (tmp_path / "typo.py").write_text(PLAN.replace('"words"', '"word"'))
    with pytest.raises(InputError, match="step a of typo.py runs 'word', which is no command; did you mean words"):
        run("typo.py", "--output=out")


def test_the_demo_plan_resolves_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = resolve(load_plan("demo").commands(), "demo")
    assert steps[-1].command.name == "report" and not any("{" in a for s in steps for a in s.argv)


BY_FLAGS = ("train", "linklearn-train", "generate", "vocabulary")
PLANS = {
    "demo": [],
    "coarse_tuning": [],
    "controls": ["regimes=linked,all", "seeds=0,1"],
    "linklearn": ["steps=30"],
    "neural_ir": [],
    "neural_ir of wiki": ["collection=wiki"],
    "tests/real/wiki_losses_plan.py": [],
    "tests/real/wiki_plan.py": ["test_queries=test.tsv"],
}


def test_every_shipped_plan_is_tested():
    assert {name for name, _ in shipped_plans()} <= PLANS.keys()


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_the_project_hold_together(name, monkeypatch):
    """Names, braces and options of commands; options of the plan are documented."""
    monkeypatch.chdir(ROOT)
    plan = load_plan(name.partition(" of ")[0])
    assert plan.meanings.keys() == plan.defaults.keys()
    commands = plan.commands(PLANS[name])
    names = {command.name for command in commands} | {"out", "output"}
    assert len(names) == len(commands) + 2
    used = {c.command for c in commands}
    parsers = {name: importlib.import_module(COMMANDS[name].module).arguments_parser() for name in used}
    for command in commands:
        assert set(command.needs()) <= names
        if command.command not in BY_FLAGS:
            parsers[command.command].parse_args(command.arguments)
            continue
        config = runpy.run_path(command.arguments[0].removeprefix("--config="))["get_config"]()
        for argument in command.arguments:
            if argument.startswith("--config."):
                field = argument.removeprefix("--config.").split("=", 1)[0]
                reduce(lambda part, key: part[key], field.split("."), config)  # KeyError where there is none
