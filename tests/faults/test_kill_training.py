"""Kills at random moments of a run: the parameters end with the bits of the uninterrupted run."""

import signal
import time

import numpy as np
import pytest

from tests.support.training_processes import launch, losses, same_parameters

pytestmark = pytest.mark.faults


def test_twenty_kills(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    options = ("steps=60", "checkpoint_every=3")
    assert launch(tmp_path / "whole", *options).wait(timeout=300) == 0
    rng = np.random.default_rng(11)
    workdir = str(tmp_path / "killed" / "run")
    kills = 0
    while kills < 20:
        victim = launch(tmp_path / "killed", *options)
        # Any moment counts: starting up, compiling, stepping, saving.
        deadline = time.monotonic() + float(rng.uniform(1, 9))
        goal = len(losses(workdir)) + int(rng.integers(1, 7))
        while victim.poll() is None and time.monotonic() < deadline and len(losses(workdir)) < goal:
            time.sleep(0.005)
        if victim.poll() is not None:
            assert victim.returncode == 0  # it finished before its kill
            break
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        kills += 1
    assert launch(tmp_path / "killed", *options).wait(timeout=300) == 0
    assert kills >= 10
    assert same_parameters(workdir, str(tmp_path / "whole" / "run"))
    assert losses(workdir) == losses(str(tmp_path / "whole" / "run"))
