"""The work directory of a command that keeps nothing of it: OUTPUT.work, claimed by one process, removed in the end."""

import os
import shutil
from typing import IO

from harp_jax.base import files
from harp_jax.base.errors import InputError

LOCK = "lock"  # in the work directory


def claim(work: str, output: str) -> IO[str]:
    """The lock of the work directory, emptied of what a killed command left, whose options may have been others.

    Raises InputError for a directory of this name that the command did not make, and while another process works there.
    """
    if os.path.isdir(work) and os.listdir(work) and not os.path.exists(os.path.join(work, LOCK)):
        raise InputError(
            f"{work} is needed as a work directory and holds other files; move it, or choose another --output"
        )
    busy = f"another process is writing to {output}; wait for it, or choose another --output"
    lock = files.locked(os.path.join(work, LOCK), busy)
    for name in os.listdir(work):
        if name != LOCK:
            path = os.path.join(work, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    return lock
