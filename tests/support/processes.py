"""Processes of a command that a test started in a new session, and kills."""

import random
import subprocess
import time
from pathlib import Path


def none_left(session: int) -> bool:
    """Whether all processes of a session end within two minutes; zombies have ended."""
    deadline, found = time.monotonic() + 120, 0
    while found == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
        found = subprocess.run(
            ["pgrep", "--session", str(session), "--runstates", "DRST"], capture_output=True
        ).returncode
    assert found in (0, 1)  # otherwise pgrep was misused
    return found == 1


def wait_for(path: Path, process: subprocess.Popen, most: float) -> None:
    """Waits until a process has written `path`, and up to `most` seconds longer."""
    while not path.exists():
        assert process.poll() is None, f"the process ended before {path.name}"
        time.sleep(0.002)
    time.sleep(random.Random(path.name).uniform(0, most))
