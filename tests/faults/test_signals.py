"""INT, TERM and KILL during long commands: a clear end, no process left, and the next run completes the work."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harp_jax.checkpoints.huggingface import save_hf
from tests.support.processes import none_left
from tests.support.tiny_bert import CONFIG, WORDS, random_params, small_tokenizer

pytestmark = pytest.mark.faults

ENDS = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM, signal.SIGKILL: -signal.SIGKILL}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """20,000 documents, 60 queries with 50 candidates each, 300 linked pages, an encoder."""
    path, draw, words = tmp_path_factory.mktemp("signals"), random.Random(0), WORDS.split()
    texts = [" ".join(draw.choices(words, k=40)) + f" x{i}" for i in range(20_000)]
    pages = [
        {"id": f"p{i}", "title": "", "text": texts[i], "links": [{"start": 0, "end": 3, "target": f"p{i // 2}"}]}
        for i in range(300)
    ]
    for name, lines in {
        "docs.tsv": (f"d{i}\t{text}" for i, text in enumerate(texts)),
        "queries.tsv": (f"q{i}\t{' '.join(draw.choices(words, k=4))}" for i in range(60)),
        "run.trec": (f"q{q} Q0 d{300 * q + d} {d} {50 - d} x" for q in range(60) for d in range(50)),
        "qrels.txt": (f"q{q} 0 d{300 * q + 7} 1" for q in range(60)),
        "pages.jsonl": map(json.dumps, pages),
    }.items():
        (path / name).write_text("".join(f"{line}\n" for line in lines))
    save_hf(str(path / "model"), CONFIG, random_params(CONFIG), small_tokenizer(), "")
    return path


DOCS, QUERIES = "--docs={data}/docs.tsv", "--queries={data}/queries.tsv"
PAGES = "--config=data/linked_jsonl --config.source.paths=('{data}/pages.jsonl',)"
RANKER, JUDGED = "--run={data}/run.trec --model={data}/model", "--qrels={data}/qrels.txt"
COMMANDS = {
    "words": DOCS,
    "first-stage": f"{DOCS} {QUERIES}",
    "rerank": f"{DOCS} {QUERIES} {RANKER}",
    "anchors": PAGES,
    "tune-first-stage": f"{DOCS} {QUERIES} {JUDGED}",
    "linklearn-train": "--config=baselines/linklearn --config.docs=('{data}/pages.jsonl',) --config.steps=60 "
    "--config.hidden=(10,) --config.learning_rates=(0.003,)",
}


def start(name: str, data: Path, output: Path) -> subprocess.Popen:
    option = "--workdir" if name == "linklearn-train" else "--output"
    command = [sys.executable, "-m", "harp_jax", name, *COMMANDS[name].format(data=data).split(), f"{option}={output}"]
    environment = os.environ | {"XDG_CACHE_HOME": str(output.parent / "cache")}
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, start_new_session=True, **streams)


def content(output: Path) -> dict[str, bytes]:
    """Name, after that of the output, → bytes of the output files, except logs and records, which contain times, and what a killed
    process could not finish or remove."""
    files = [file for file in (output, *output.rglob("*")) if file.is_file()]
    unlike = re.compile(r"metrics.jsonl|made.json$|tfevents|\.tmp\.[0-9a-f]{8}$")
    return {str(file).removeprefix(str(output)): file.read_bytes() for file in files if not unlike.search(file.name)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_ends_the_command_clearly_and_the_next_run_completes_it(name, data, tmp_path):
    began = time.monotonic()
    assert start(name, data, tmp_path / "whole").wait() == 0
    duration = time.monotonic() - began
    expected, output = content(tmp_path / "whole"), tmp_path / "output"
    for how, moment in zip(ENDS, (0.5, 0.75, 0.9)):
        running = start(name, data, output)
        time.sleep(moment * duration)
        # Ctrl-C reaches every process of a terminal, other signals only one.
        os.killpg(running.pid, how) if how == signal.SIGINT else running.send_signal(how)
        _, said = running.communicate()
        # Python reports and drops exceptions in garbage collector callbacks (JAX has one); the command then continues.
        ended = "Traceback" not in said or (running.returncode == 0 and "Exception ignored in" in said)
        assert running.returncode in (ENDS[how], -how, 0) and ended, (how, running.returncode, said)
        assert running.returncode != 130 or "interrupted" in said
        assert none_left(running.pid)
        if output.is_file():
            assert content(output) == expected
    assert start(name, data, output).wait() == 0
    assert content(output) == expected
