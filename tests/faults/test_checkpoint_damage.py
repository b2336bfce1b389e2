"""Every file of a checkpoint damaged in turn, and a disk that fills up: the same values or an older checkpoint, never others."""

import os
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from harp_jax.checkpoints import checkpoint
from harp_jax.checkpoints.checkpoint import Checkpoints
from tests.support import ROOT
from tests.support.checkpoint_states import abstract, save_two, state
from tests.support.training_processes import launch, losses, same_parameters

pytestmark = pytest.mark.faults
# What every restore reads, however the arrays happen to be laid out: a flip there is always noticed. Some of the other files are
# never read, and their number differs between runs.
ALWAYS_READ = ("/meta/metadata", "/state/manifest.ocdbt", "/state/d/")


def test_a_flipped_byte_in_any_file_gives_the_same_values_or_the_checkpoint_before(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "RETRY_SECONDS", 0.0)
    save_two(tmp_path / "whole").close()
    newest = tmp_path / "whole" / "checkpoints" / "2"
    files = sorted(path for path in newest.rglob("*") if path.is_file() and path.stat().st_size)
    files = [str(path.relative_to(tmp_path / "whole")) for path in files]
    assert len(files) > 8
    rng = np.random.default_rng(0)
    assert all(any(part in name for name in files) for part in ALWAYS_READ)
    for number, name in enumerate(files):
        for trial in range(3):
            place = tmp_path / f"{number}_{trial}"
            shutil.copytree(tmp_path / "whole", place)
            content = bytearray((place / name).read_bytes())
            at = int(rng.integers(len(content)))
            content[at] ^= int(rng.integers(1, 256))
            (place / name).write_bytes(content)
            damaged = Checkpoints(str(place))
            step, found, meta = damaged.restore(abstract(state()))
            damaged.close()
            assert step == 1 or not any(part in name for part in ALWAYS_READ), (name, at)
            assert meta["cursors"] == {"0": {"window": step}}, (name, at)
            jax.tree.map(np.testing.assert_array_equal, found, state(step))
            shutil.rmtree(place)


def test_a_full_disk_stops_the_run_and_keeps_the_checkpoint_before(tmp_path):
    options = ("steps=300", "checkpoint_every=20")
    workdir = str(tmp_path / "full" / "run")
    for name in ("whole", "full"):
        (tmp_path / name).mkdir()
    started = launch(tmp_path / "full", *options)
    while started.poll() is None and len(losses(workdir)) < 30:
        time.sleep(0.02)
    started.send_signal(signal.SIGTERM)
    assert started.wait(timeout=60) == 0
    before = Checkpoints(workdir).steps()
    # No file may grow beyond 16 KiB from here on: what a full disk does to a checkpoint's arrays.
    run = [sys.executable, "-m", "tests.support.tiny_run", str(tmp_path / "full"), *options]
    command = ["bash", "-c", 'ulimit -f 16 && exec "$0" "$@"', *run]
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "1", "PYTHONPATH": str(ROOT)}
    limited = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert limited.returncode == 2, limited.stderr[-2000:]
    errors = [line for line in limited.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and f"resumes from step {before[-1]}" in errors[0], limited.stderr[-2000:]
    assert Checkpoints(workdir).steps() == before
    assert not [name for name in os.listdir(workdir + "/checkpoints") if "tmp" in name]
    assert launch(tmp_path / "full", *options).wait(timeout=300) == 0
    assert launch(tmp_path / "whole", *options).wait(timeout=300) == 0
    assert same_parameters(workdir, str(tmp_path / "whole" / "run"))
