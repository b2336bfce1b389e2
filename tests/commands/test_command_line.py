"""All commands: each has an example that parses; what it says and refuses."""

import os
import shlex
import subprocess
import sys

import pytest

from harp_jax.base.cli import Parser, ending_well, paths_in
from harp_jax.base.errors import InputError
from harp_jax.commands.table import COMMANDS, load
from tests.support import ROOT
from tests.support.commands import python


def parser_of(name: str) -> Parser:
    return load(name)[1]


def shell(line: str) -> subprocess.CompletedProcess:
    """Runs a line of bash in which `python` is this interpreter."""
    line = line.replace("python", sys.executable)
    return subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_help_parses(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    parser = parser_of(name)
    text = parser.format_help()
    assert "example:" in text and parser.description, name
    examples = text.partition("example:\n")[2].replace("\\\n", " ").strip().splitlines()
    fixed = (name, "harp_jax.main", "data_pipeline.main", "harp_jax.export")
    for words in map(shlex.split, examples):
        start = next(i for i, word in enumerate(words) if word in fixed)
        if "--help" not in words:
            assert vars(parser.parse_args(words[start + 1 :]))


def test_a_wrong_command_is_one_line_with_the_nearest_name():
    said = "error: no command 'rernk'; did you mean rerank? `harp --help --all` lists them\n"
    assert python("-m", "harp_jax", "rernk", status=2).stderr == said


def test_an_empty_output_is_refused(capsys):
    """As from `--output=$UNSET`: the export would replace the current folder."""
    with pytest.raises(SystemExit) as ended:
        parser_of("export").parse_args(["--workdir=x", "--output="])
    assert ended.value.code == 2 and "is empty (unset variable?)" in capsys.readouterr().err


def test_a_tilde_after_an_equals_sign_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    given = ["--docs=~/d.tsv", "--queries=a~/b", "--output=~"]
    arguments = parser_of("first-stage").parse_args(given)
    assert (arguments.docs, arguments.queries, arguments.output) == ("/home/me/d.tsv", "a~/b", "/home/me")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # neither HOME nor an entry in passwd
    with pytest.raises(InputError, match="~/d.tsv: no home directory"):
        parser_of("first-stage").parse_args(given)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("numpy failed\n  libopenblas.so: failed to map segment from shared object\nsee https://x"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes"),
    ],
)
def test_too_little_memory_is_one_line(error, capsys):
    with pytest.raises(SystemExit) as ended, ending_well():
        raise error
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.startswith("error: out of memory (") and "https" not in said
    with pytest.raises(RuntimeError, match="x"), ending_well():
        raise RuntimeError("x")


def test_closed_streams_are_no_crash(tmp_path):
    result = shell("python -m harp_jax plan | head -n 1")
    assert len(result.stdout.splitlines()) == 1 and not result.stderr
    (tmp_path / "queries.tsv").write_text("a\tfish\nb\tcat\n")
    for file, status in (("queries.tsv", 0), ("absent", 2)):
        given = f"--queries={tmp_path}/{file} --count=2 --output={tmp_path}/folds.tsv"
        assert shell(f"python -m harp_jax queries folds {given} >&- 2>&- <&-").returncode == status
    assert len((tmp_path / "folds.tsv").read_text().splitlines()) == 2


def test_a_path_of_an_option_may_hold_what_separates_names_and_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("lr=1e-4/a.trec", "x,y/a.trec", "b.trec"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    assert paths_in(["A=lr=1e-4/a.trec", "lr=1e-4/a.trec", "B=x,y/a.trec", "C=b.trec,lr=1e-4/a.trec"]) == [
        "lr=1e-4/a.trec", "lr=1e-4/a.trec", "x,y/a.trec", "b.trec", "lr=1e-4/a.trec",
    ]  # fmt: skip
