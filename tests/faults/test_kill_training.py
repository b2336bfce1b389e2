"""Kills at random moments of a run, in one process and in two: the parameters end with the bits of the uninterrupted run."""

import signal
import socket
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


def two_processes(directory, *options: str) -> list:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = (f"coordinator=127.0.0.1:{port}", "processes=2", *options)
    return [launch(directory, *common, f"process={i}", devices=2) for i in range(2)]


def test_kills_of_two_processes(tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    options = ("steps=40", "checkpoint_every=4", "mesh.data=4", "lanes=4")
    assert [p.wait(timeout=300) for p in two_processes(tmp_path / "whole", *options)] == [0, 0]
    rng = np.random.default_rng(7)
    workdir = str(tmp_path / "killed" / "run")
    for kill in range(4):
        both = two_processes(tmp_path / "killed", *options)
        goal = len(losses(workdir)) + int(rng.integers(3, 9))
        while all(p.poll() is None for p in both) and len(losses(workdir)) < goal:
            time.sleep(0.005)
        # One dies at once; the other would wait for it in vain, and is ended as a supervisor does.
        for victim in (both[kill % 2], both[1 - kill % 2]):
            victim.send_signal(signal.SIGKILL)
            victim.wait()
    assert len(losses(workdir)) < 40
    assert [p.wait(timeout=300) for p in two_processes(tmp_path / "killed", *options)] == [0, 0]
    assert same_parameters(workdir, str(tmp_path / "whole" / "run"))
    assert losses(workdir) == losses(str(tmp_path / "whole" / "run"))
