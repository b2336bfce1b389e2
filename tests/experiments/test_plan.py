"""Plans: each step runs once per content of its inputs; plans resume, and errors name the cause."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.files import locked
from harp_jax.experiments import plan as plans
from harp_jax.experiments.execution import execute
from harp_jax.experiments.plan import SMALL, Command, Contents, identity, resolve
from tests.support import ROOT

WRITE = "import sys; open(sys.argv[2], 'w').write(sys.argv[1]); open('log.txt', 'a').write(sys.argv[1])"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A command that writes its first argument to its second and appends it to a log."""
    (tmp_path / "tool.py").write_text(WRITE)
    (tmp_path / "input.txt").write_text("one")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(plans, "PROGRAM", [sys.executable, "-P", "-m"])
    return lambda name, *arguments: Command(name, "tool", [*arguments])


def ran() -> str:
    return open("log.txt").read() if os.path.exists("log.txt") else ""


def test_commands_run_once_and_again_only_where_something_they_read_changed(tool):
    plan = [tool("a", "a", "{out}", "input.txt"), tool("b", "b", "{out}", "{a}"), tool("c", "c", "{out}")]
    steps = resolve(plan, "out")
    for _ in range(2):
        execute(steps, "out")
        assert ran() == "abc"
    record = json.loads(open(steps[0].record).read())
    assert record["memory_bytes"] > 1 << 20 and record["seconds"] >= 0
    open("input.txt", "w").write("two")
    execute(resolve(plan, "out"), "out")
    assert ran() == "abcab"


def test_jobs_run_side_by_side_each_on_its_cores_and_after_what_they_read(tool, tmp_path):
    """a and b wait for each other, so they end only if both run; c reads both."""
    meet = (
        "import os, sys, time\nopen(sys.argv[1], 'w').close()\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
        "print('met', sys.argv[1]); open(sys.argv[3], 'w').write(repr(sorted(os.sched_getaffinity(0))))"
    )
    (tmp_path / "meet.py").write_text(meet)
    plan = [Command("a", "meet", ["a", "b", "{out}"]), Command("b", "meet", ["b", "a", "{out}"])]
    steps = resolve([*plan, tool("c", "c", "{out}", "{a}", "{b}")], "out")
    execute(steps, "out", jobs=2)
    assert all(step.done for step in steps) and ran() == "c"
    cores = [eval(open(step.place).read()) for step in steps[:2]]
    mine = sorted(os.sched_getaffinity(0))
    assert sorted(cores[0] + cores[1]) == mine if len(mine) > 1 else cores == [mine, mine]
    assert "met a" in open(steps[0].record.replace(".json", ".log")).read()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_starts_no_more_steps_and_rerunning_resumes_the_plan(tool, jobs):
    plan = [tool("a", "a", "{out}"), tool("b", "b", "/nowhere/at/all", "{a}"), tool("c", "c", "{out}", "{b}")]
    log = r"; its message is at the end of out/\.plan/b-" if jobs == 2 else ""
    for _ in range(2):
        with pytest.raises(InputError, match="b ended with status 1" + log):
            execute(resolve(plan, "out"), "out", jobs=jobs)
        assert ran() == "a"


def test_large_files_count_by_content_time_and_size_are_not_enough(tmp_path):
    path = tmp_path / "docs.tsv"
    contents = Contents()
    path.write_bytes(bytes(SMALL + 1))
    first, before = identity(f"--docs={path}", contents), os.stat(path)
    os.utime(path, ns=(1, 1))
    assert first == identity(f"--config.docs=('{path}',)", contents)
    path.write_bytes(b"x" + bytes(SMALL))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_mtime_ns == before.st_mtime_ns and first != identity(f"--docs={path}", contents)
    assert identity("--fields=title,body", contents) == ""


@pytest.mark.parametrize(
    ("file", "argument"),
    [
        ("qrels/test.tsv", "--qrels={0}/qrels"),
        ("k1=0.9,b=0.4.trec", "--config.source.paths=('{0}/k1=0.9,b=0.4.trec',)"),
        ("k1=0.9,b=0.4.trec", "--run=my row={0}/k1=0.9,b=0.4.trec"),
        ("my run.trec", "HARP={0}/my run.trec,other.trec"),
        ("pages/a/x.html", "--config.source.paths=('{0}/pages/**/*.html',)"),
        ("pages/a/x.html", "--docs=~/pages/a/x.html"),
        ("pages/a/x.html", "--config={0}/mine.py"),
        ("elsewhere/y.html", "--pages={0}/pages"),
    ],
)
def test_an_argument_counts_by_the_content_of_the_files_that_it_names(tmp_path, monkeypatch, file, argument):
    """Also through patterns, home directories, links (one of them a loop) and configs."""
    for folder in ("qrels", "pages/a", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "pages" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "pages" / "loop").symlink_to(tmp_path / "pages")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.py").write_text(
        "from harp_jax.configs.data import html\n"
        "def get_config():\n    c = html.get_config()\n"
        f"    c.source.paths = ('{tmp_path}/pages/a/*.html',)\n    return c\n"
    )
    found = {identity(argument.format(tmp_path), Contents())}
    for text in ("one", "two"):
        (tmp_path / file).write_text(text)
        found.add(identity(argument.format(tmp_path), Contents()))
    assert len(found) == 3


@pytest.mark.parametrize(
    ("argument", "folder", "counts"),
    [
        ("--remark=of the site", "site", False),
        ("--run=site={a}", "site", False),
        ("--run=row={a},site", "site", True),
        ("--language=out", "out", False),
        ("--docs=.", "out", False),
        ("--labels=out/labels.tsv", "out", True),
    ],
)
def test_words_of_titles_names_of_rows_and_the_output_are_no_input(tool, argument, folder, counts):
    """A file in the output directory that an argument names, such as the labels of `harp look`, is an input."""
    os.mkdir(folder)
    keys = set()
    for text in ("one", "two"):
        open(f"{folder}/labels.tsv", "w").write(text)
        keys.add(resolve([tool("a", "{out}"), tool("b", argument)], "out")[1].key)
    assert len(keys) == 1 + counts


@pytest.mark.parametrize("damage", [lambda path: os.remove(path), lambda path: open(path, "w").write("x")])
def test_a_damaged_output_is_made_again(tool, damage):
    """Also inside an output directory."""
    plan = [tool("a", "a", "{out}"), tool("b", "b", "{output}/b/inner", "{a}")]
    steps = resolve(plan, "out")
    os.makedirs("out/b")
    os.symlink("b", steps[1].place)
    execute(steps, "out")
    assert ran() == "ab" and all(step.done for step in steps)
    damage("out/b/inner")
    assert [step.done for step in resolve(plan, "out")] == [True, False]
    damage(steps[0].place)
    execute(resolve(plan, "out"), "out")
    assert ran() == "abab" and open(steps[0].place).read() == "a"


def test_one_process_at_a_time_runs_a_step(tool):
    steps = resolve([tool("a", "a", "{out}")], "out")
    lock = steps[0].record.removesuffix(".json") + ".lock"
    with locked(lock, "busy"), pytest.raises(InputError, match="another process runs a of this plan"):
        execute(steps, "out")
    execute(steps, "out")
    assert ran() == "a"


@pytest.mark.parametrize(
    ("how", "status", "message"),
    [
        (signal.SIGTERM, 143, "terminated; run the plan again to resume it"),
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_a_signal_to_the_plan_alone_ends_the_running_step_and_starts_no_more(tool, tmp_path, how, status, message):
    (tmp_path / "wait.py").write_text(
        "import sys, time; from harp_jax.base import cli\n"
        "def main(_): open(sys.argv[1] + '.began', 'w').close(); time.sleep(120)\n"
        "cli.run(main, cli.Parser(prog='x', description='x'), [])\n"
    )
    (tmp_path / "plan.py").write_text(
        "import sys\n"
        "from harp_jax.experiments import plan\n"
        "from harp_jax.experiments.execution import execute\n"
        "from harp_jax.base.cli import ending_well\n"
        "plan.PROGRAM = [sys.executable, '-m']\n"
        "steps = [plan.Command('a', 'wait', ['{out}']), plan.Command('b', 'tool', ['b', '{out}'])]\n"
        "with ending_well(): execute(plan.resolve(steps, 'out'), 'out')\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    running = subprocess.Popen([sys.executable, "plan.py"], env=environment, stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("out/a-*.began")):
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(how)
    _, error = running.communicate(timeout=300)  # returns when the step has ended too, since it shares the pipe
    assert message in error and "Traceback" not in error and running.returncode == status and not ran()
