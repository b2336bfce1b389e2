"""Plans: run once for what is read, resumable, and clear about what is wrong."""

import os
import subprocess
import sys
import time

import pytest

from harp_jax.errors import InputError
from harp_jax.experiments import plan as plans
from harp_jax.experiments.execution import execute
from harp_jax.experiments.plan import HASHED, Command, identity, resolve
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


def test_a_failure_stops_the_plan_and_rerunning_resumes_it(tool):
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
    with pytest.raises(InputError, match=r"a ended with status 1; its message is at the end of out/\.plan/a-"):
        execute(steps, "out", jobs=2)
    assert steps[1].done and not steps[0].done


def test_wrong_plans_are_named(tool):
    with pytest.raises(InputError, match="needs 'z'"):
        resolve([tool("a", "{z}", "{out}")], "out")
    with pytest.raises(InputError, match="used twice"):
        resolve([tool("a", "{out}"), tool("a", "{out}")], "out")
    with pytest.raises(InputError, match=r"reads nothing\.txt"):
        resolve([tool("a", "{out}", reads=["nothing.txt"])], "out")


def test_the_fields_of_a_config_count_wherever_they_are_written(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import os\ndef get_config(): return os.environ['FIELDS']\n")
    argument = f"--config={tmp_path / 'mine.py'}:option"
    found = []
    for fields in ("steps: 1", "steps: 2", "steps: 1"):
        monkeypatch.setenv("FIELDS", fields)
        found.append(identity(argument))
    assert found[0] == found[2] != found[1]


def test_large_files_count_by_size_and_time_and_folders_by_what_lies_in_them(tmp_path):
    path = tmp_path / "docs.tsv"
    path.write_bytes(bytes(HASHED + 1))
    first = identity(f"--docs={path}")
    os.utime(path, ns=(1, 1))
    second = identity(f"--docs={path}")
    assert first != second == identity(f"--config.docs=('{path}',)")
    inside = identity(f"--docs={tmp_path}")
    (tmp_path / "more.tsv").write_text("")
    assert identity(f"--docs={tmp_path}") != inside and identity("--fields=title,body") == ""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("q1 d1 1")
    before = identity(f"--qrels={tmp_path}")
    (tmp_path / "qrels" / "test.tsv").write_text("q1 d2 1\n")
    assert identity(f"--qrels={tmp_path}") != before
    odd = tmp_path / "k1=0.9,b=0.4.trec"
    odd.write_text("one")
    before = identity(f"--run={odd}")
    odd.write_text("two")
    assert identity(f"--run={odd}") != before


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_sigterm_ends_the_running_steps_and_starts_no_more(tool, tmp_path):
    (tmp_path / "wait.py").write_text("import sys, time\nopen(sys.argv[1] + '.began', 'w').close()\ntime.sleep(60)")
    (tmp_path / "plan.py").write_text(
        "import sys\n"
        "from harp_jax.experiments import plan\n"
        "from harp_jax.experiments.execution import run_plan\n"
        "plan.PROGRAM = [sys.executable, '-m']\n"
        "steps = [plan.Command('a', 'wait', ['{out}']), plan.Command('b', 'tool', ['b', '{out}'])]\n"
        "run_plan(steps, 'out')\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    running = subprocess.Popen([sys.executable, "plan.py"], env=environment, stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("out/a-*.began")):
        assert running.poll() is None
        time.sleep(0.05)
    running.terminate()
    _, error = running.communicate(timeout=30)
    assert "terminated; run the plan again to resume it" in error and not ran()
