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
from harp_jax.base.made import AGAIN, KEPT, InputPath, Made, NamedInputs, Speed, forget, once
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
def count(docs: InputPath, options: Options, output: str) -> Counted:
    words = Path(docs).read_text().split()
    kept = tuple(words[: options.k])
    Path(output).write_text(" ".join(kept))
    with open(f"{output}.calls", "a") as file:
        file.write("x")
    return Counted(len(words), kept)


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
    assert count(str(tmp_path / "copy"), Options(), output) == first
    assert (tmp_path / "out.calls").read_text() == "x"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: count("docs", Options(k=2), output="out"), "options.k=3, now 2; choose another output, or --force"),
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


@pytest.mark.parametrize(("changed", "expected"), [(AGAIN, "e"), (KEPT, "a")])
def test_what_changed_content_of_an_input_means_is_a_choice(tmp_path, docs, changed, expected):
    function, output = once(changed=changed)(count.__wrapped__), str(tmp_path / "out")
    function(docs, Options(), output)
    Path(docs).write_text("e f")
    assert (function.already(docs, Options(), output) is None) == (changed == AGAIN)
    assert function(docs, Options(), output).kept[0] == expected == Path(output).read_text()[0]
    with pytest.raises(InputError, match="out was made with options.k=3, now 2"):
        function(docs, Options(k=2), output)


def test_a_changed_output_is_refused_and_a_missing_one_made_again(tmp_path, docs):
    output = tmp_path / "out"
    count(docs, Options(), output=str(output))
    output.write_text("edited")
    with pytest.raises(InputError, match="was changed after count made it"):
        count(docs, Options(), output=str(output))
    output.unlink()
    count(docs, Options(), output=str(output))
    assert output.exists()
    record = Path(f"{output}.made.json")
    for damaged, said in (({"result": {"words": None}}, "made.json is damaged: "), ({"inputs": 3}, "made.json")):
        record.write_text(json.dumps(json.loads(record.read_text()) | damaged))
        with pytest.raises(InputError, match=said):
            count(docs, Options(), output=str(output))


def test_folders_and_what_a_config_names_are_inputs(tmp_path, docs):
    output, given = str(tmp_path / "out"), {"data": (docs,), "seed": 1, "workers": 2}
    runs = {"BM25": docs, "ours": (docs, docs)}
    folder(given, runs, output=output)
    folder(given | {"workers": 4}, runs, output=output)
    assert set(Made.read(output).inputs) == {"config.data.0", "runs.BM25", "runs.ours.0", "runs.ours.1"}


PROGRAM = """
import sys
from harp_jax.base.steps import in_process
from tests.base.test_made import sleep
if __name__ == "__main__":
    in_process(sleep, sys.argv[1] + ".log")(sys.argv[1])
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


def test_steps_run_once_and_a_failure_names_its_log(tmp_path, docs):
    steps, output = Steps(str(tmp_path / "x"), 3), str(tmp_path / "out")
    assert steps("Count the words", count, docs, Options(), output=output).words == 4
    log = tmp_path / "x" / "logs" / "fail_at_once.log"
    with pytest.raises(InputError, match=f"Fail at once: .* nothing to count; .*{log}"):
        steps("Fail at once", fail, output)
    assert "nothing to count" in log.read_text()
    with pytest.raises(InputError, match="Crash: crash was killed, .* last lines are in .*crash.log"):
        steps("Crash", crash, output)
    with pytest.raises(InputError, match="another process works in"):
        Steps(str(tmp_path / "x"))
    steps.close()
    Steps(str(tmp_path / "x"))("Count the words", count, docs, Options(), output=output)
    assert Path(f"{output}.calls").read_text() == "x"
