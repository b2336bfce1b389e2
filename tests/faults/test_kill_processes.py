"""Kills of a run of two processes: the next two end with the bits of the uninterrupted run, and one process can take over."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.support.training_processes import kill, launch, losses, same_parameters, two_processes

pytestmark = pytest.mark.faults


def ended(processes) -> list[int]:
    return [process.wait(timeout=300) for process in processes]


def wait_for(processes, workdir: str, lines: int) -> None:
    while all(p.poll() is None for p in processes) and len(losses(workdir)) < lines:
        time.sleep(0.005)


def test_kills_of_two_processes(tmp_path):
    options = ("steps=40", "checkpoint_every=4", "mesh.data=4", "lanes=4")
    assert ended(two_processes(tmp_path / "whole", *options)) == [0, 0]
    rng = np.random.default_rng(7)
    workdir = str(tmp_path / "killed" / "run")
    for number in range(4):
        both = two_processes(tmp_path / "killed", *options)
        wait_for(both, workdir, len(losses(workdir)) + int(rng.integers(3, 9)))
        # One dies at once; the other would wait for it forever, and is ended as a supervisor does.
        kill(both[number % 2], both[1 - number % 2])
    assert len(losses(workdir)) < 40
    assert ended(two_processes(tmp_path / "killed", *options)) == [0, 0]
    assert same_parameters(workdir, str(tmp_path / "whole" / "run"))
    assert losses(workdir) == losses(str(tmp_path / "whole" / "run"))


def test_one_process_compiles_for_longer_than_the_other_may_wait(tmp_path):
    options = ("steps=4", "mesh.data=4", "lanes=4", "1:compile_delay=40")
    assert ended(two_processes(tmp_path, *options)) == [0, 0]


def test_a_run_of_two_processes_is_resumed_by_one(tmp_path):
    options = ("steps=24", "checkpoint_every=4", "mesh.data=4", "lanes=4")
    assert launch(tmp_path / "whole", *options, devices=4).wait(timeout=300) == 0
    both = two_processes(tmp_path / "killed", *options)
    workdir = str(tmp_path / "killed" / "run")
    wait_for(both, workdir, 10)
    kill(*both)
    assert 0 < len(losses(workdir)) < 24
    assert launch(tmp_path / "killed", *options, devices=4).wait(timeout=300) == 0
    np.testing.assert_allclose(losses(workdir), losses(str(tmp_path / "whole" / "run")), rtol=1e-4)


def test_processes_that_read_survive_a_signal_to_all_and_end_with_a_killed_training(tmp_path):
    options = ("steps=40", "checkpoint_every=4")
    assert launch(tmp_path / "whole", *options).wait(timeout=300) == 0
    workdir = str(tmp_path / "killed" / "run")
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = launch(tmp_path / "killed", *options, "workers=2")
        wait_for([process], workdir, len(losses(workdir)) + 6)
        found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        assert len(found) == 2
        for child in map(int, found if number == signal.SIGTERM else ()):
            os.kill(child, number)
        process.send_signal(number)
        assert process.wait(timeout=60) == (0 if number == signal.SIGTERM else -number), process.stderr.read()
        until = time.monotonic() + 30
        while any(os.path.exists(f"/proc/{child}") for child in found):
            assert time.monotonic() < until
            time.sleep(0.1)
    assert launch(tmp_path / "killed", *options, "workers=3").wait(timeout=300) == 0
    assert losses(workdir) == losses(str(tmp_path / "whole" / "run")) and same_parameters(
        workdir, str(tmp_path / "whole" / "run")
    )
