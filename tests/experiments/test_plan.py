"""Plans: run once for what is read, resumable, and clear about what is wrong."""

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
    """A command that writes its first argument to its second, and leaves a trace of having run."""
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
    with pytest.raises(InputError, match="step a has {z} in its arguments, and no earlier step has this name"):
        resolve([tool("a", "{z}", "{out}")], "out")
    with pytest.raises(InputError, match="used twice"):
        resolve([tool("a", "{out}"), tool("a", "{out}")], "out")


def test_the_fields_of_a_config_count_wherever_they_are_written(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import os\ndef get_config(): return os.environ['FIELDS']\n")
    argument = f"--config={tmp_path / 'mine.py'}:option"
    found = []
    for fields in ("steps: 1", "steps: 2", "steps: 1"):
        monkeypatch.setenv("FIELDS", fields)
        found.append(identity(argument, Contents()))
    assert found[0] == found[2] != found[1]


def test_files_and_folders_count_by_their_content(tmp_path):
    path = tmp_path / "docs.tsv"
    contents = Contents()
    path.write_bytes(bytes(SMALL + 1))
    first, before = identity(f"--docs={path}", contents), os.stat(path)
    os.utime(path, ns=(1, 1))
    assert first == identity(f"--config.docs=('{path}',)", contents)
    path.write_bytes(b"x" + bytes(SMALL))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_mtime_ns == before.st_mtime_ns and first != identity(f"--docs={path}", contents)
    inside = identity(f"--docs={tmp_path}", contents)
    (tmp_path / "more.tsv").write_text("")
    assert identity(f"--docs={tmp_path}", contents) != inside and identity("--fields=title,body", contents) == ""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("q1 d1 1")
    before = identity(f"--qrels={tmp_path}", contents)
    (tmp_path / "qrels" / "test.tsv").write_text("q1 d2 1\n")
    assert identity(f"--qrels={tmp_path}", contents) != before
    for name in ("k1=0.9,b=0.4.trec", "my run.trec", "it's.trec"):
        odd = tmp_path / name
        listed = [f"HARP={odd},other.trec"] if "," not in name else []
        for argument in (f"--run={odd}", f"--config.source.paths={(str(odd),)!r}", f"--run=my row={odd}", *listed):
            odd.write_text("one")
            before = identity(argument, contents)
            odd.write_text("two")
            assert identity(argument, contents) != before, argument


def test_patterns_home_directories_links_and_configs_name_files_too(tmp_path, monkeypatch):
    """Each of them leads to a file whose content counts: a changed page would otherwise be done before."""
    pages, elsewhere = tmp_path / "pages", tmp_path / "elsewhere"
    (pages / "a").mkdir(parents=True), elsewhere.mkdir()
    (pages / "linked").symlink_to(elsewhere)
    (pages / "loop").symlink_to(pages)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.py").write_text(
        "from harp_jax.configs.data import html\n"
        "def get_config():\n    c = html.get_config()\n"
        f"    c.source.paths = ({str(pages / 'a' / '*.html')!r},)\n    return c\n"
    )
    for file, argument in (
        (pages / "a" / "x.html", f"--config.source.paths=('{pages}/**/*.html',)"),
        (pages / "a" / "x.html", "--docs=~/pages/a/x.html"),
        (elsewhere / "y.html", f"--pages={pages}"),
        (pages / "a" / "x.html", f"--config={tmp_path / 'mine.py'}"),
    ):
        found = set()
        for text in ("one", "two"):
            file.write_text(text)
            found.add(identity(argument, Contents()))
        assert len(found) == 2, argument


def test_remembered_digests_are_used_and_survive_damage(tmp_path):
    (tmp_path / "large").write_bytes(bytes(SMALL + 1))
    contents = Contents(str(tmp_path / "cache.json"))
    found = contents(str(tmp_path / "large"))
    contents.save()
    text = (tmp_path / "cache.json").read_text()
    (tmp_path / "cache.json").write_text(text.replace(found, "remembered"))
    assert Contents(str(tmp_path / "cache.json"))(str(tmp_path / "large")) == "remembered"
    for damage in ("", "{", "[]", text.replace('"', "", 2)):
        (tmp_path / "cache.json").write_text(damage)
        assert Contents(str(tmp_path / "cache.json"))(str(tmp_path / "large")) == found


@pytest.mark.parametrize("damage", [lambda path: os.remove(path), lambda path: open(path, "w").write("x")])
def test_a_damaged_output_is_made_again(tool, damage):
    """Also inside of an output directory."""
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


@pytest.mark.parametrize("text", ["{", "}", "{}", "a {-} {", "{out.x!}", "{A}", "{out[}"])
def test_braces_without_a_name_of_a_step_are_text(tool, text):
    assert resolve([tool("a", text, "{out}")], "out")[0].argv[-2] == text


def test_one_process_at_a_time_runs_a_step(tool):
    steps = resolve([tool("a", "a", "{out}")], "out")
    lock = steps[0].record.removesuffix(".json") + ".lock"
    with locked(lock, "busy"), pytest.raises(InputError, match="another process runs a of this plan"):
        execute(steps, "out")
    execute(steps, "out")
    assert ran() == "a"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_command_outlives_its_plan(tmp_path, how):
    waits = (
        "import os, sys, time; from harp_jax.base import cli\n"
        "def main(_): open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(120)\n"
        "cli.run(main, cli.Parser(prog='x', description='x'), [])\n"
    )
    runs = (
        "import sys; from harp_jax.experiments.execution import Children\n"
        "children = Children()\n"
        f"with children.terminated(): children.run([sys.executable, '-c', {waits!r}, sys.argv[1]])\n"
    )
    plan = subprocess.Popen([sys.executable, "-c", runs, str(tmp_path / "pid")], cwd=ROOT)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert plan.poll() is None
        time.sleep(0.05)
    plan.send_signal(how)
    plan.wait()
    child = f"/proc/{(tmp_path / 'pid').read_text()}/stat"
    for _ in range(600):
        # A process that nobody waits for stays as a zombie where nothing reaps it.
        if not os.path.exists(child) or open(child).read().split()[2] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError("the command still runs")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    ("how", "status", "message"),
    [(signal.SIGTERM, 143, "terminated; run the plan again to resume it"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_signal_to_the_plan_ends_the_running_steps_and_starts_no_more(tool, tmp_path, how, status, message):
    (tmp_path / "wait.py").write_text("import sys, time\nopen(sys.argv[1] + '.began', 'w').close()\ntime.sleep(60)")
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
    running.send_signal(how)  # to the plan alone: the commands do not get it
    _, error = running.communicate(timeout=50)
    assert message in error and "Traceback" not in error and running.returncode == status and not ran()
