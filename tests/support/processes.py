"""Processes of a command that a test started in a new session, and kills."""

import os
import random
import subprocess
import time
from pathlib import Path


def processes_of(session: int) -> list[int]:
    """Running processes of a session."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == session and words[0] != "Z":
            found.append(int(entry))
    return found


def none_left(session: int) -> bool:
    """Whether all processes of a session end within two minutes."""
    deadline = time.monotonic() + 120
    while processes_of(session) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not processes_of(session)


def wait_for(path: Path, process: subprocess.Popen, most: float) -> None:
    """Waits until a process has written `path`, and up to `most` seconds longer."""
    while not path.exists():
        assert process.poll() is None, f"the process ended before {path.name}"
        time.sleep(0.002)
    time.sleep(random.Random(path.name).uniform(0, most))
