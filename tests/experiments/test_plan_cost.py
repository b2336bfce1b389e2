"""The cost of a plan, one of its steps alone, and the plan as a Snakemake file."""

import json
import os
import re
import shutil
import subprocess

import pytest

from harp_jax.__main__ import main as harp
from harp_jax.base.errors import InputError
from harp_jax.commands.plan import arguments_parser, main
from harp_jax.experiments.execution import duration, kinds, snakefile, summary
from harp_jax.experiments.plan import Command, resolve
from tests.support import ROOT

PLAN = """
from harp_jax.experiments.plan import Command


def get_plan(count: int = 2) -> list[Command]:
    \"\"\"Options:

    count: folds
    \"\"\"
    folds = ["--queries=queries.tsv", f"--count={count}", "--output={out}"]
    rows = ["--qrels=qrels.txt", "--folds={folds}", "--train_folds=0", "--sizes=1", "--draws=1", "--output={out}"]
    return [Command("folds", "queries", ["folds", *folds], suffix=".tsv"), Command("subsets", "queries", ["subsets", *rows])]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "plan.py").write_text(PLAN)
    (tmp_path / "queries.tsv").write_text("".join(f"q{i}\ttext\n" for i in range(6)))
    (tmp_path / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(6)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def run(*arguments: str) -> None:
    main(arguments_parser().parse_args(list(arguments)))


def test_trainings_are_counted_by_updates(folder):
    config = "configs/baselines/harp.py"
    steps = [
        Command(name, "train", [f"--config={config}", "--workdir={out}", f"--config.seed={seed}", "--config.steps=50"])
        for seed, name in enumerate("ab")
    ]
    kind = kinds(resolve(steps, "out"), "out")[f"train {config}"]
    assert (kind.to_do, kind.updates) == (2, 100)
    assert f"train {config}: 2 to do, 100 updates, time unknown" in summary(resolve(steps, "out"), "out")


def test_times_are_those_of_finished_steps_and_never_guessed(folder, capsys):
    run("plan.py", "--output=out", "--dry_run")
    printed = capsys.readouterr().out
    assert "to do  folds: python -m harp_jax queries folds --queries=queries.tsv --count=2 --output=out/" in printed
    assert "cost: 2 steps to do, 0 done" in printed and "queries: 2 to do, time unknown: none is done" in printed
    assert not os.path.exists("out")
    os.makedirs("out/.plan")
    record = {"name": "folds", "command": "python -m harp_jax queries folds --count=9 --output=x", "seconds": 90.0}
    for number, seconds in enumerate((90.0, 150.0)):
        (folder / "out" / ".plan" / f"folds-{number}.json").write_text(json.dumps({**record, "seconds": seconds}))
    run("plan.py", "--output=out", "--dry_run", "--jobs=2")
    printed = capsys.readouterr().out
    assert "queries: 2 to do, 4 min (the mean of 2 done)" in printed
    assert "together 4 min, one after the other; --jobs=2" in printed
    assert [duration(s) for s in (4, 100, 7200)] == ["4 s", "2 min", "2.0 h"]


def test_a_step_alone_needs_what_it_reads(folder, capsys):
    for only, message in (
        ("subsets", "it reads folds, which are not done"),
        ("subset", "its steps are folds, subsets"),
    ):
        with pytest.raises(InputError, match=message):
            run("plan.py", "--output=out", f"--only={only}")
    harp(["plan", "plan.py", "--output=out", "--only=folds"])  # with the checks of the command line
    assert [path.name[:5] for path in (folder / "out").glob("*") if path.is_file()] == ["folds"]
    run("plan.py", "--output=out", "--dry_run")
    printed = capsys.readouterr().out
    assert "done  folds" in printed and "to do  subsets" in printed and "1 steps to do, 1 done" in printed


def plan_commands(count: int) -> list[Command]:
    contents: dict = {}
    exec(PLAN, contents)
    return contents["get_plan"](count)


def test_a_plan_as_a_snakemake_file_has_a_rule_a_step(folder, capsys):
    run("plan.py", "--output=out dir", "--set", "count=3", "--snakefile=Snakefile")
    assert "2 rules" in capsys.readouterr().out and not os.path.exists("out dir")
    blocks = re.split(r"^rule ", (folder / "Snakefile").read_text(), flags=re.MULTILINE)[1:]
    found = {name: body for name, _, body in (block.partition(":\n") for block in blocks)}
    steps = {s.command.name: s.record for s in resolve(plan_commands(3), "out dir")}
    assert found.keys() == {"all_steps", "folds", "subsets"}
    assert steps["folds"] in found["subsets"].partition("output:")[0] and "input:" not in found["folds"]
    assert steps["subsets"] in found["all_steps"]
    assert "--only=folds" in found["folds"] and "--set=count=3" in found["folds"]


def test_braces_of_arguments_are_not_filled_in_by_snakemake(folder):
    steps = resolve([Command("a", "words", ["--output={out}"])], "out{x}\nimport os")
    text = snakefile(steps, ["plan.py", "--set=name={a}", "--output=out{x}\nimport os"])
    assert "{{a}}" in text and "out{{x}}" in text
    assert not any(line.startswith("import") for line in text.splitlines())  # a newline in a path is no line of Python


@pytest.mark.real
def test_snakemake_runs_the_plan(folder):
    """The dry run, the run, and that harp and Snakemake agree on what is done."""
    program = os.environ.get("HARP_SNAKEMAKE") or shutil.which("snakemake")
    if not program:
        pytest.skip("snakemake is not installed; `make real` installs it, or set HARP_SNAKEMAKE")
    run("plan.py", "--output=out", "--snakefile=Snakefile")

    def snakemake(*arguments: str) -> str:
        words = [program, "--snakefile", "Snakefile", "--cores", "1", *arguments]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stderr + done.stdout

    dry = snakemake("--dry-run")
    assert re.search(r"^subsets +1$", dry, re.M) and re.search(r"^total +3$", dry, re.M)
    snakemake()
    steps = resolve(plan_commands(2), "out")
    assert all(step.done for step in steps)
    assert "Nothing to be done" in snakemake("--dry-run")
