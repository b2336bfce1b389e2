"""Workdir and data in a bucket (`tests/support/store.py`) without rename, append or lock."""

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import jax
import pytest

from harp_jax.base import bucket
from harp_jax.base.errors import InputError
from harp_jax.input.tfrecords import RecordReader
from harp_jax.training.train import train
from tests.support import ROOT
from tests.support.shards_fixture import write_job
from tests.support.synthetic import TEMPLATE
from tests.support.tiny_run import end, kill, losses, same_parameters, tiny_config, tiny_stage, two_processes

BUCKET = "gs://bucket"


@pytest.fixture
def store(monkeypatch):
    """An empty bucket."""
    pytest.importorskip("gcsfs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    for name in ("STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL"):
        monkeypatch.setenv(name, url)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "test")
    monkeypatch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "none")
    server = subprocess.Popen([sys.executable, "-m", "tests.support.store", str(port)], cwd=ROOT)
    until = time.monotonic() + 300
    while True:
        try:
            urllib.request.urlopen(f"{url}/storage/v1/b/bucket")
            break
        except OSError:
            assert time.monotonic() < until and server.poll() is None
            time.sleep(0.1)
    yield
    kill(server)


def test_shards_are_read_from_a_bucket_and_compared_with_the_manifest(store, tmp_path):
    write_job(str(tmp_path), {"rqp": [9, 7]})
    for path in tmp_path.iterdir():
        bucket.write(f"{BUCKET}/job/{path.name}", path.read_bytes())
    read = lambda place: RecordReader((place,), ("rqp",), "train", 2, 128, "document", 0, TEMPLATE)  # noqa: E731
    ids = lambda groups: [[s.query.tolist() for s in group.sequences] for group in groups]  # noqa: E731
    assert ids(read(f"{BUCKET}/job").read(1, "rqp", 0, 20)) == ids(read(str(tmp_path)).read(1, "rqp", 0, 20))
    shard = "harp-rqp_train.tfrecord-00000-of-00002"
    bucket.write(f"{BUCKET}/job/{shard}", b"other")
    with pytest.raises(InputError, match=f"shard {BUCKET}/job/{shard} is missing or damaged: sha256"):
        read(f"{BUCKET}/job").read(1, "rqp", 0, 20)


def test_an_interrupted_training_resumes_in_a_bucket_with_the_same_bits(store, tmp_path):
    config = tiny_config(str(tmp_path), steps=6, checkpoint_every=2, learning_rate=1e-2)
    stage = tiny_stage(config)
    terminate = lambda step, _: os.kill(os.getpid(), signal.SIGTERM) if step == 3 else None  # noqa: E731
    workdir, whole = f"{BUCKET}/run", str(tmp_path / "whole")
    assert train(config, workdir, dataclasses.replace(stage, check=terminate), jax.devices()[:1]).interrupted
    for place in (workdir, whole):
        train(config, place, stage, jax.devices()[:1])
    with bucket.fetched(workdir) as local:
        assert losses(local) == losses(whole) and len(losses(local)) == 6
        assert same_parameters(local, whole)


@pytest.mark.faults
def test_a_killed_and_ended_training_of_processes_in_a_bucket_ends_with_the_same_bits(store, tmp_path):
    def start(name: str, *more: str) -> list[subprocess.Popen]:
        options = ("steps=24", "checkpoint_every=4", "lanes=2", "mesh.data=2", f"workdir={BUCKET}/{name}", *more)
        return two_processes(tmp_path / name, *options, devices=1)

    def saved() -> int:
        with contextlib.suppress(FileNotFoundError):
            return bucket.read(f"{BUCKET}/killed/metrics.jsonl").count(b"\n")
        return 0

    end(start("whole"))
    for number, lines in ((signal.SIGKILL, 4), (signal.SIGTERM, 12)):
        processes = start("killed")
        while all(process.poll() is None for process in processes) and saved() < lines:
            time.sleep(0.05)
        # SIGTERM to one process: all save the same step. SIGKILL to all: survivors would wait in XLA for a killed process.
        for process in processes if number == signal.SIGKILL else processes[-1:]:
            process.send_signal(number)
        end(processes, 0 if number == signal.SIGTERM else -number)
        assert 0 < saved() < 24
    with bucket.fetched(f"{BUCKET}/killed") as local:
        assert max(map(int, os.listdir(f"{local}/checkpoints"))) == len(losses(local))
    end(start("killed"))
    with bucket.fetched(f"{BUCKET}/whole") as one, bucket.fetched(f"{BUCKET}/killed") as other:
        assert losses(one) == losses(other) and len(losses(one)) == 24
        assert same_parameters(one, other)
    assert all("belongs to another config" in error for error in end(start("killed", "learning_rate=0.5"), status=2))
