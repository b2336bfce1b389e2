"""Processes of a command that a test started in a new session, and kills."""

import random
import subprocess
import time
from pathlib import Path


def none_left(session: int) -> bool:
    """Waits until all processes of a session have ended, also as zombies, and returns True; after ten minutes False."""
    running = ["pgrep", "--session", str(session), "--runstates", "DRST"]
    for _ in range(6000):
        status = subprocess.run(running, capture_output=True).returncode
        assert status in (0, 1)  # otherwise pgrep was misused
        if status == 1:
            return True
        time.sleep(0.1)
    return False


def wait_for(path: Path, process: subprocess.Popen, most: float) -> None:
    """Waits until a process has written `path`, and up to `most` seconds longer."""
    while not path.exists():
        assert process.poll() is None, f"the process ended before {path.name}"
        time.sleep(0.002)
    time.sleep(random.Random(path.name).uniform(0, most))
