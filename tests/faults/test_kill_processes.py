"""Kills of a run of two processes: the next two end with the bits of the uninterrupted run, and one process can take over."""

import signal
import socket
import time

import numpy as np
import pytest

from tests.support.training_processes import launch, losses, same_parameters

pytestmark = pytest.mark.faults


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def two_processes(directory, *options: str) -> list:
    common = (f"coordinator=127.0.0.1:{free_port()}", "processes=2", *options)
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


def test_one_process_compiles_for_longer_than_the_other_may_wait(tmp_path):
    def options(process):
        return [*common, f"process={process}", *(["compile_delay=40"] if process else [])]

    common = (f"coordinator=127.0.0.1:{free_port()}", "processes=2", "steps=4", "mesh.data=4", "lanes=4")
    both = [launch(tmp_path, *options(process), devices=2) for process in range(2)]
    assert [p.wait(timeout=300) for p in both] == [0, 0]


def test_a_run_of_two_processes_is_resumed_by_one(tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    options = ("steps=24", "checkpoint_every=4", "mesh.data=4", "lanes=4")
    assert launch(tmp_path / "whole", *options, devices=4).wait(timeout=300) == 0
    both = two_processes(tmp_path / "killed", *options)
    workdir = str(tmp_path / "killed" / "run")
    while all(p.poll() is None for p in both) and len(losses(workdir)) < 10:
        time.sleep(0.005)
    for victim in both:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    begun = len(losses(workdir))
    assert 0 < begun < 24
    assert launch(tmp_path / "killed", *options, devices=4).wait(timeout=300) == 0
    np.testing.assert_allclose(losses(workdir), losses(str(tmp_path / "whole" / "run")), rtol=1e-4)
