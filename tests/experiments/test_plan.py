"""Plans: run once for what is read, resumable, and clear about what is wrong."""

import os
import sys

import pytest

from harp_jax.errors import InputError
from harp_jax.experiments import plan as plans
from harp_jax.experiments.plan import Command, execute, load_plan, main, resolve
from tests.support import ROOT

WRITE = "import sys; open(sys.argv[2], 'w').write(sys.argv[1]); open('log.txt', 'a').write(sys.argv[1])"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A command that writes its first argument to its second, and leaves a trace of having run."""
    (tmp_path / "tool.py").write_text(WRITE)
    (tmp_path / "input.txt").write_text("one")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(plans, "PROGRAM", [sys.executable, "-m"])
    return lambda name, *arguments, reads=(): Command(name, "tool", [*arguments], list(reads))


def ran() -> str:
    return open("log.txt").read() if os.path.exists("log.txt") else ""


def test_commands_run_once_and_again_only_where_something_they_read_changed(tool):
    plan = [tool("a", "a", "{out}", reads=["input.txt"]), tool("b", "b", "{out}", "{a}"), tool("c", "c", "{out}")]
    execute(resolve(plan, "out"), "out")
    assert ran() == "abc"
    execute(resolve(plan, "out"), "out")
    assert ran() == "abc"
    open("input.txt", "w").write("two")
    execute(resolve(plan, "out"), "out")
    assert ran() == "abcab"


def test_a_failure_stops_and_rerunning_goes_on_there(tool):
    plan = [tool("a", "a", "{out}"), tool("b", "b", "/nowhere/at/all", "{a}")]
    with pytest.raises(InputError, match="b ended with status 1"):
        execute(resolve(plan, "out"), "out")
    with pytest.raises(InputError):
        execute(resolve(plan, "out"), "out")
    assert ran() == "a"


def test_jobs_run_side_by_side_each_on_its_cores_and_after_what_they_read(tool, tmp_path):
    """a and b wait for each other, so they end only if both run; c reads both."""
    meet = (
        "import os, sys, time\nopen(sys.argv[1], 'w').close()\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
        "print('met', sys.argv[1]); open(sys.argv[3], 'w').write(repr(sorted(os.sched_getaffinity(0))))"
    )
    (tmp_path / "meet.py").write_text(meet)
    plan = [
        Command("a", "meet", ["a", "b", "{out}"]),
        Command("b", "meet", ["b", "a", "{out}"]),
        tool("c", "c", "{out}", "{a}", "{b}"),
    ]
    steps = resolve(plan, "out")
    execute(steps, "out", jobs=2)
    assert all(step.done for step in steps) and ran() == "c"
    cores = [eval(open(step.place).read()) for step in steps[:2]]
    mine = sorted(os.sched_getaffinity(0))
    assert sorted(cores[0] + cores[1]) == mine if len(mine) > 1 else cores == [mine, mine]
    assert "met a" in open(steps[0].record.replace(".json", ".log")).read()


def test_a_failed_job_lets_the_others_end_and_starts_no_more(tool):
    plan = [tool("a", "a", "/nowhere/at/all"), tool("b", "b", "{out}"), tool("c", "c", "{out}", "{b}")]
    steps = resolve(plan, "out")
    with pytest.raises(InputError, match=r"a ended with status 1; its message ends out/\.plan/a-"):
        execute(steps, "out", jobs=2)
    assert steps[1].done and not steps[0].done


def test_wrong_plans_are_named(tool):
    with pytest.raises(InputError, match="needs 'z'"):
        resolve([tool("a", "{z}", "{out}")], "out")
    with pytest.raises(InputError, match="used twice"):
        resolve([tool("a", "{out}"), tool("a", "{out}")], "out")
    with pytest.raises(InputError, match=r"reads nothing\.txt"):
        resolve([tool("a", "{out}", reads=["nothing.txt"])], "out")
    with pytest.raises(InputError, match="no plan at"):
        load_plan("nothing.py")


def test_a_dry_run_runs_nothing(tool, capsys):
    open("plan.py", "w").write(
        "from harp_jax.experiments.plan import Command\ndef get_plan(): return [Command('a', 'tool', ['x', '{out}'])]"
    )
    from harp_jax.experiments.plan import arguments_parser

    main(arguments_parser().parse_args(["--plan=plan.py", "--output=out", "--dry_run"]))
    assert "to do  a: python -m tool x out/a-" in capsys.readouterr().out
    assert not os.path.exists("out")


def test_the_demo_plan_resolves():
    here = os.getcwd()
    os.chdir(ROOT)
    try:
        steps = resolve(load_plan("configs/experiments/demo.py"), "demo")
    finally:
        os.chdir(here)
    assert steps[-1].command.name == "report" and not any("{" in a for s in steps for a in s.argv)
