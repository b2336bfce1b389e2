"""All commands: each can be imported, has an example that parses, and spells options like the others."""

import argparse
import os
import shlex
import subprocess
import sys

import pytest

from harp_jax.__main__ import overview
from harp_jax.base.cli import Parser, child_environment, ending_well, paths_in
from harp_jax.base.errors import InputError
from harp_jax.commands.table import COMMANDS, NEXT, OPENING, TYPED, load, next_command, opening
from harp_jax.ranking.lexical import MODELS
from tests.support import ROOT
from tests.support.commands import python
from tests.support.ranking_collection import write_collection

LEXICAL = {parameter for parameters in MODELS.values() for parameter in parameters}


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


@pytest.mark.parametrize("name", NEXT)
def test_the_command_that_comes_next_parses(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    options = {action.dest: next(iter(action.choices or ["x"])) for action in parser_of(name)._actions}
    _, following, *words = shlex.split(next_command(name, argparse.Namespace(**options | {"dry_run": False})))
    assert vars(parser_of(following).parse_args(words))


@pytest.mark.parametrize("name", OPENING)
def test_what_a_command_is_about_to_do_names_its_options(name):
    options = {action.dest: "x" for action in parser_of(name)._actions}
    assert "{" not in opening(name, argparse.Namespace(**options))


def test_a_terminal_shows_what_a_command_does_and_what_comes_next(tmp_path, monkeypatch):
    write_collection(tmp_path)
    monkeypatch.chdir(tmp_path)
    command = "harp tune-first-stage --docs=docs.tsv --queries=queries.tsv --qrels=qrels.txt --k1=0.9 --b=0.4 --output=bm25.json"
    line = [sys.executable, "-m", "harp_jax", *shlex.split(command)[1:]]
    master, slave = os.openpty()
    subprocess.run(line, stdout=subprocess.DEVNULL, stderr=slave, check=True, timeout=120, env=child_environment())
    os.close(slave)
    with open(master, "rb", closefd=True) as terminal:
        said = terminal.read1(1 << 16).decode().replace("\r\n", "\n")
    assert said.startswith("Indexes docs.tsv, then ranks the judged queries")
    following = said.partition("next: ")[2]
    # Neither --folds nor --anchors.
    given = "--parameters=bm25.json --docs=docs.tsv --fields=title,url,body --language='en'"
    assert following == f"harp first-stage --model=bm25 {given} --queries=QUERIES --output=bm25.trec\n"
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120, env=child_environment())
    assert "next: " not in done.stderr and "Indexes" not in done.stderr


def test_an_option_means_the_same_everywhere():
    """Options are spelled with underscores, have one type per name, and have a help text."""
    types: dict[str, dict[object, list[str]]] = {}
    for name in COMMANDS:
        for action in parser_of(name)._actions:
            for option in action.option_strings:
                assert option == "-h" or "-" not in option.removeprefix("--"), f"{name} {option}"
            assert action.help, f"{name} {action.dest}: no help"
            # Parameters of lexical models are numbers for ranking, lists of numbers for tuning.
            if action.option_strings and action.nargs != 0 and action.dest not in LEXICAL:
                types.setdefault(action.dest, {}).setdefault(action.type, []).append(name)
    assert not {dest: found for dest, found in types.items() if len(found) > 1}


def test_the_overview_names_every_command_and_needs_no_jax():
    everything = overview(every=True)
    assert all(f"  {name} " in everything and entry.summary in everything for name, entry in COMMANDS.items())
    assert len(overview().splitlines()) <= 24 and max(map(len, overview().splitlines())) <= 80
    assert all(f"  {name} " in overview() for name in TYPED)
    code = "import sys; import harp_jax.__main__ as m; m.main(['--help']); print('jax' in sys.modules, 'numpy' in sys.modules)"
    assert python("-c", code).stdout.endswith("False False\n")


def test_a_wrong_command_is_one_line_with_the_nearest_name():
    said = "error: no command 'rernk'; did you mean rerank? `harp --help --all` lists them\n"
    assert python("-m", "harp_jax", "rernk", status=2).stderr == said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("rerank --k=0", "argument --k: "),
        ("plan --jobs=x", "argument --jobs: "),
        ("site --layers=-1", "argument --layers: "),
        # As from `--output=$UNSET`: the export would replace the current folder.
        ("export --workdir=x --output=", "is empty (unset variable?)"),
        ("evaluate a --qrels=", "is empty (unset variable?)"),
    ],
)
def test_values_that_an_option_does_not_take_are_refused(command, said, capsys):
    name, *words = shlex.split(command)
    with pytest.raises(SystemExit) as ended:
        parser_of(name).parse_args(words)
    error = capsys.readouterr().err
    assert ended.value.code == 2 and "error: " in error and said in error


def test_a_tilde_after_an_equals_sign_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    given = ["--docs=~/d.tsv", "--queries=a~/b", "--output=~"]
    arguments = parser_of("first-stage").parse_args(given)
    assert (arguments.docs, arguments.queries, arguments.output) == ("/home/me/d.tsv", "a~/b", "/home/me")
    assert parser_of("plan").parse_args(["demo", "--output=o", "--dry-run"]).dry_run  # dashes are accepted too
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
    (tmp_path / "labels.tsv").write_text("fish\td1\t1\n")
    for file, status in (("labels.tsv", 0), ("absent", 2)):
        given = f"--labels={tmp_path}/{file} --output={tmp_path}/out"
        result = shell(f"python -m harp_jax queries labels {given} >&- 2>&- <&-")
        assert result.returncode == status
    assert (tmp_path / "out" / "queries.tsv").read_text() == "l1\tfish\n"


def test_a_path_of_an_option_may_hold_what_separates_names_and_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("lr=1e-4/a.trec", "x,y/a.trec", "b.trec"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    assert paths_in(["A=lr=1e-4/a.trec", "lr=1e-4/a.trec", "B=x,y/a.trec", "C=b.trec,lr=1e-4/a.trec"]) == [
        "lr=1e-4/a.trec", "lr=1e-4/a.trec", "x,y/a.trec", "b.trec", "lr=1e-4/a.trec",
    ]  # fmt: skip
