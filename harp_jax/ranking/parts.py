"""What a long re-ranking has finished so far: chunks of its run on disk, kept until all are there."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from harp_jax.base.errors import InputError
from harp_jax.base.files import locked, replacing
from harp_jax.base.randomness import hash64
from harp_jax.corpus.trec import ScoredQuery, run_lines

KEY = "key"
LOCK = "lock"
OURS = re.compile(r"(\d{6,}\.trec|key(\.json)?)(\.tmp\.\w+)?|lock")  # with what a kill leaves of a half-written file


class Parts:
    """OUTPUT.parts: chunk n of the run as n.trec, and a key that identifies the inputs.

    Parts of other inputs (another model, run or option), or without a key, are removed. InputError where the directory holds
    anything else, and while another process writes to it.
    """

    def __init__(self, output: str, key: str, count: int) -> None:
        self.output, self.directory, self.count = output, f"{output}.parts", count
        held = sorted(os.listdir(self.directory)) if os.path.isdir(self.directory) else []
        if foreign := [name for name in held if not OURS.fullmatch(name)]:
            raise InputError(f"{self.directory} holds {foreign[0]}, no part of a run; move it away")
        busy = f"another process is writing to {output}; wait for it, or choose another --output"
        self._lock = locked(os.path.join(self.directory, LOCK), busy)
        path = os.path.join(self.directory, KEY)
        if not (os.path.exists(path) and Path(path).read_bytes() == key.encode()):
            self._remove()
            with replacing(path) as file:
                file.write(key)
        self.done = next(n for n in range(count + 1) if n == count or not os.path.exists(self._part(n)))

    def _part(self, number: int) -> str:
        return os.path.join(self.directory, f"{number:06d}.trec")

    def add(self, rankings: Iterable[ScoredQuery]) -> None:
        """Writes the next chunk."""
        with replacing(self._part(self.done)) as file:
            file.writelines(run_lines(rankings))
        self.done += 1

    def finish(self) -> None:
        """Joins the chunks to the run and removes them."""
        with replacing(self.output) as whole:
            for number in range(self.count):
                with open(self._part(number), encoding="utf-8") as part:
                    shutil.copyfileobj(part, whole)
        self._remove()
        os.remove(os.path.join(self.directory, LOCK))
        os.rmdir(self.directory)
        self._lock.close()

    def _remove(self) -> None:
        """Removes the chunks and then the key: what a kill leaves of this is still recognised as ours."""
        for name in sorted(os.listdir(self.directory), key=lambda name: (name == KEY, name)):
            if name != LOCK:
                os.remove(os.path.join(self.directory, name))


def fingerprint(options: Mapping[str, object], model: str, inputs: Iterable[str]) -> str:
    """Identifies everything that scores depend on: options, and sizes and times of change of the files they name.

    The time of the inode's last change too, which tools that restore modification times cannot set. `model` is a directory,
    `inputs` are files; absent ones are skipped.
    """
    weights = [os.path.join(folder, name) for folder, _, names in sorted(os.walk(model)) for name in sorted(names)]
    found = [os.stat(path) for path in (*weights, *inputs) if os.path.exists(path)]
    state = [dict(options), [(about.st_size, about.st_mtime_ns, about.st_ctime_ns) for about in found]]
    return f"{hash64(json.dumps(state, sort_keys=True, default=str)):016x}"
