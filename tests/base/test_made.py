"""A decorated function runs once per call; other options, other inputs and a changed output are told apart."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from harp_jax.base.errors import InputError, Terminated
from harp_jax.base.made import AGAIN, KEPT, InputPath, InputPaths, Made, NamedInputs, Speed, forget, once
from harp_jax.base.steps import Steps


@dataclass(frozen=True)
class Options:
    k: int = 3
    stopwords: InputPath = ""
    workers: Speed[int] = 1


@dataclass(frozen=True)
class Counted:
    words: int
    kept: tuple[str, ...]


@once
def count(docs: InputPath, options: Options, more: InputPaths = (), output: str = "") -> Counted:
    text = Path(docs).read_text() + "".join(Path(path).read_text() for path in more)
    kept = tuple(text.split()[: options.k])
    Path(output).write_text(" ".join(kept))
    with open(f"{output}.calls", "a") as file:
        file.write("x")
    return Counted(len(text.split()), kept)


@once(inputs=lambda given: {"config.data": given["config"]["data"]}, speed=("config.workers",))
def folder(config: dict, runs: NamedInputs, output: str, engine: Speed[type] = dict) -> None:
    os.makedirs(output, exist_ok=True)
    Path(output, "shard").write_text(str(config["seed"]))


def fail(output: str) -> None:
    raise InputError(f"{output}: nothing to count; name documents")


def crash(output: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(output: str) -> None:
    Path(output).write_text(str(os.getpid()))
    time.sleep(60)


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "docs").write_text("a b c d")
    return str(tmp_path / "docs")


def test_a_finished_call_returns_its_result_at_once(tmp_path, docs):
    output = str(tmp_path / "out")
    first = count(docs, Options(), output=output)
    assert first == count(docs, Options(workers=8), output=output) == Counted(4, ("a", "b", "c"))
    # The same content at another path, later, is the same input.
    (tmp_path / "copy").write_text("a b c d")
    assert count(str(tmp_path / "copy"), Options(), (), output) == first
    assert (tmp_path / "out.calls").read_text() == "x"
    assert Made.read(output).options == {"options.k": 3, "options.stopwords": "", "more": []}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: count("docs", Options(k=2), output="out"), "options.k=3, now 2; choose another output, or --force"),
        (lambda: count("docs", Options(), ("docs",), "out"), "without more.0"),
        (lambda: count("docs", Options(stopwords="docs"), output="out"), "without options.stopwords"),
        (lambda: count("other", Options(), output="out"), r"from another content of docs \(other\)"),
        (lambda: folder({"data": (), "seed": 1}, {}, output="out"), "by count, not folder"),
    ],
)
def test_another_call_is_refused_with_the_difference(tmp_path, docs, monkeypatch, call, said):
    monkeypatch.chdir(tmp_path)
    Path("other").write_text("e f g h")
    count("docs", Options(), output="out")
    with pytest.raises(InputError, match=f"out was made .*{said}"):
        call()
    forget("out")
    call()


@dataclass(frozen=True)
class Read:
    first: Counted | None
    size: float | None = None


def read_first(docs: InputPath, k: int, output: str) -> Read:
    words = Path(docs).read_text().split()
    Path(output).write_text(" ".join(words))
    return Read(Counted(len(words), tuple(words[:k])))


@pytest.mark.parametrize(("changed", "expected"), [(AGAIN, "e"), (KEPT, "a")])
def test_what_changed_content_of_an_input_means_is_a_choice(tmp_path, docs, changed, expected):
    function, output = once(changed=changed)(read_first), str(tmp_path / "out")
    assert function(docs, 1, output) == function(docs, 1, output) == Read(Counted(4, ("a",)))
    Path(docs).write_text("e f")
    assert (function.already(docs, 1, output) is None) == (changed == AGAIN)
    assert function(docs, 1, output).first.kept == (expected,) and Path(output).read_text()[0] == expected
    with pytest.raises(InputError, match="out was made with k=1, now 2"):
        function(docs, 2, output)


def test_a_changed_output_and_a_damaged_record_are_named_and_a_missing_output_is_made_again(tmp_path, docs):
    output = str(tmp_path / "out")
    count(docs, Options(), output=output)
    Path(output).write_text("edited")
    with pytest.raises(InputError, match="was changed after count made it"):
        count(docs, Options(), output=output)
    os.remove(output)
    count(docs, Options(), output=output)
    assert os.path.exists(output)
    for damage in ("{", "[]", '{"inputs": 3}', json.dumps({"inputs": {}, "output": [1], "function": 2})):
        Path(f"{output}.made.json").write_text(damage)
        with pytest.raises(InputError, match="made.json"):
            count(docs, Options(), output=output)


def test_folders_and_what_a_config_names_are_inputs(tmp_path, docs):
    output, given = str(tmp_path / "out"), {"data": (docs,), "seed": 1, "workers": 2}
    folder(given, {"BM25": docs, "ours": (docs, docs)}, output=output)
    folder(given | {"workers": 4}, {"BM25": docs, "ours": (docs, docs)}, output=output)
    assert set(Made.read(output).inputs) == {"config.data.0", "runs.BM25", "runs.ours.0", "runs.ours.1"}
    Path(docs).write_text("changed")
    with pytest.raises(InputError, match="another content"):
        folder(given, {"BM25": docs, "ours": (docs, docs)}, output=output)


PROGRAM = """
import sys
from harp_jax.base.processes import in_process
from tests.base.test_made import sleep
if __name__ == "__main__":
    in_process(sleep)(sys.argv[1])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_process_ends_with_its_parent(tmp_path, number):
    pid, program = tmp_path / "pid", tmp_path / "program.py"
    program.write_text(PROGRAM)
    parent = subprocess.Popen([sys.executable, program, pid], stderr=subprocess.PIPE, text=True)
    while not (pid.exists() and pid.read_text()):
        time.sleep(0.1)
    parent.send_signal(number)
    assert (Terminated.__name__ in parent.communicate()[1]) == (number == signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int(pid.read_text()), 0)
            time.sleep(0.1)


def test_steps_say_what_they_do_and_where_a_failure_is_told(tmp_path, docs, capsys):
    steps, output = Steps(str(tmp_path / "x"), 3), str(tmp_path / "out")
    steps("Count the words", count, docs, Options(), output=output)
    assert "1 of 3 · Count the words · 0:0" in capsys.readouterr().out
    log = tmp_path / "x" / "logs" / "fail_at_once.log"
    with pytest.raises(InputError, match=f"Fail at once: .* nothing to count; .*{log}"):
        steps("Fail at once", fail, output)
    assert "nothing to count" in log.read_text()
    with pytest.raises(InputError, match="Crash: crash was killed, .* last lines are in .*crash.log"):
        steps("Crash", crash, output)
    with pytest.raises(InputError, match="another process works in"):
        Steps(str(tmp_path / "x"))
    steps.close()
    assert Steps(str(tmp_path / "x"), 1)("Count the words", count, docs, Options(), output=output).words == 4
    assert "1 of 1 · Count the words · already done" in capsys.readouterr().out
