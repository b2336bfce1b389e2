"""All commands: each has an example that parses; what it says and refuses."""

import shlex
import subprocess
import sys
from inspect import cleandoc

import pytest

from harp_jax.base.cli import ending_well
from harp_jax.commands.table import COMMANDS, load
from harp_jax.site.options import SiteOptions, Source, Training
from tests.support import ROOT


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_help_parses(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    for kind in (Source, SiteOptions, Training):
        monkeypatch.setattr(kind, "__doc__", cleandoc(kind.__doc__))  # as Python 3.13 stores docstrings
    parser = load(name)[1]
    text = parser.format_help()
    assert "example:" in text and parser.description, name
    examples = text.partition("example:\n")[2].replace("\\\n", " ").strip().splitlines()
    fixed = (name, "harp_jax.main", "data_pipeline.main", "harp_jax.export")
    for words in map(shlex.split, examples):
        start = next(i for i, word in enumerate(words) if word in fixed)
        if "--help" not in words:
            assert vars(parser.parse_args(words[start + 1 :]))


def test_a_tilde_after_an_equals_sign_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    arguments = load("first-stage")[1].parse_args(["--docs=~/d.tsv", "--queries=a~/b", "--output=~"])
    assert (arguments.docs, arguments.queries, arguments.output) == ("/home/me/d.tsv", "a~/b", "/home/me")


@pytest.mark.parametrize("error", [MemoryError(), ImportError("x\n  y.so: failed to map segment\nsee https://z")])
def test_too_little_memory_is_one_line(error, capsys):
    with pytest.raises(SystemExit) as ended, ending_well():
        raise error
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.startswith("error: out of memory (") and "https" not in said


def test_closed_streams_are_no_crash(tmp_path):
    (tmp_path / "queries.tsv").write_text("a\tfish\nb\tcat\n")
    folds = f"queries folds --count=2 --output={tmp_path}/folds.tsv --queries={tmp_path}/"
    for line in ("plan | head -n 1", f"{folds}queries.tsv >&- 2>&- <&-", f"{folds}absent >&- 2>&- <&-; test $? = 2"):
        command = f"{sys.executable} -m harp_jax {line}"
        result = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0 and not result.stderr
        assert len(result.stdout.splitlines()) == ("plan" in line)
    assert len((tmp_path / "folds.tsv").read_text().splitlines()) == 2
