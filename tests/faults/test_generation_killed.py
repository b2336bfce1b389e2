"""The generation job killed with SIGKILL at many moments, and run again: the same bytes, no worker left behind."""

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import corpus
from tests.support.generation_job import hashes, start

pytestmark = pytest.mark.faults


STAGES = (
    "documents.marks",
    "resolved",
    "sentences.marks",
    "requests of sentences.marks",
    "pairs.marks",
    "shards.marks",
)


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(child) for child in found]


def kill_in(stage: str, process: subprocess.Popen, output: Path) -> list[int]:
    """Kills the job at a random moment after the stage has begun; returns its workers."""
    begun = output / ".work" / stage
    while not begun.exists():
        assert process.poll() is None, f"the job ended before {stage}"
        time.sleep(0.002)
    time.sleep(random.Random(stage).uniform(0, 0.1))
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return workers


def test_killed_and_rerun_writes_the_same_bytes(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=6)
    config = corpus.write_config(tmp_path / "config.py", folder, encoder="idf", workers=2)
    assert start(config, tmp_path / "whole").wait(timeout=300) == 0
    output = tmp_path / "killed"
    for stage in STAGES:
        workers = kill_in(stage, start(config, output), output)
        assert not (output / "manifest.json").exists()
        deadline = time.monotonic() + 120
        while set(workers) & _python_workers():
            assert time.monotonic() < deadline, "a worker outlives its parent"
            time.sleep(0.05)
    assert start(config, output).wait(timeout=300) == 0
    assert hashes(output) == hashes(tmp_path / "whole")
    assert not list(output.glob("*.tmp.*")) and not (output / ".work").exists()


def test_ctrl_c_is_one_line_and_the_job_resumes(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=6)
    config = corpus.write_config(tmp_path / "config.py", folder, tasks=("mlm",), workers=2)
    output = tmp_path / "out"
    # In its own process group: Ctrl-C reaches the workers too.
    job = start(config, output, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list((output / ".work").glob("documents.marks/0*")):
        assert job.poll() is None
        time.sleep(0.005)
    os.killpg(job.pid, signal.SIGINT)
    said = job.communicate(timeout=60)[1]
    assert job.returncode == 130 and "interrupted" in said and "Traceback" not in said, said
    assert start(config, output).wait(timeout=300) == 0 and (output / "manifest.json").exists()


def test_killed_while_weighing_terms_the_finished_files_are_kept(tmp_path):
    """With a BERT of its own: the files of the term weights are the unit of resuming."""
    import jax

    from harp_jax.checkpoints.huggingface import save_hf
    from harp_jax.model.cross_encoder import init_params
    from harp_jax.model.encoders.bert import BertShape
    from harp_jax.text.tokenizer import load_tokenizer

    folder = corpus.write(tmp_path / "corpus", files=6)
    tokenizer = load_tokenizer(str(folder / "vocab.txt"))
    shape = BertShape(vocab_size=tokenizer.size, layers=2, hidden=32, heads=2, intermediate=64)
    save_hf(str(folder / "hf"), shape, init_params(shape, jax.random.key(0)), tokenizer, "test")
    config = corpus.write_config(tmp_path / "config.py", folder, encoder=str(folder / "hf"), workers=2)
    assert start(config, tmp_path / "whole").wait(timeout=300) == 0
    output = tmp_path / "killed"
    marks = output / ".work" / "term_weights.marks"
    process = start(config, output)
    while len(_finished(marks)) < 2:
        assert process.poll() is None, "the job ended before the term weights"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = _finished(marks)
    assert 2 <= len(finished) < 12
    weights = output / "term_weights"
    files = [next(weights.glob(f"{table[:-1]}_weights/bucket={bucket}/*.parquet")) for table, bucket in finished]
    before = [file.stat().st_mtime_ns for file in files]
    assert start(config, output).wait(timeout=300) == 0
    assert [file.stat().st_mtime_ns for file in files] == before
    assert hashes(output) == hashes(tmp_path / "whole")


def _finished(marks: Path) -> list[list[str]]:
    """[table, bucket] of each mark; those being written have longer names."""
    return [mark.name.split("-") for mark in marks.glob("*") if re.fullmatch(r"[a-z]+-[0-9]+", mark.name)]


def _python_workers() -> set[int]:
    """Processes of this kind that still run (a zombie has no command line)."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                command = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if b"multiprocessing" in command:
                found.add(int(entry))
    return found
