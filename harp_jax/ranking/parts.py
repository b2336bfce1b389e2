"""What a long re-ranking has finished so far: chunks of its run on disk, kept until all are there."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping

from harp_jax.corpus.trec import ScoredQuery, write_run
from harp_jax.errors import InputError
from harp_jax.files import replacing
from harp_jax.randomness import hash64

KEY = "key.json"
OURS = re.compile(r"(\d{6,}\.trec|key\.json)(\.tmp\.\d+)?")  # with what a kill leaves of a half-written file


class Parts:
    """OUTPUT.parts: chunk n of the run as n.trec, and a key that identifies the inputs.

    Parts of other inputs (another model, run or option), or without a key, are removed. Each chunk appears complete or not
    at all. InputError where the directory holds anything else.
    """

    def __init__(self, output: str, key: str, count: int) -> None:
        self.output, self.directory, self.count = output, f"{output}.parts", count
        path = os.path.join(self.directory, KEY)
        held = sorted(os.listdir(self.directory)) if os.path.isdir(self.directory) else []
        foreign = [name for name in held if not OURS.fullmatch(name)]
        if foreign:
            raise InputError(f"{self.directory} holds {foreign[0]}, no part of a run; move it away")
        if not (KEY in held and _read(path) == key):
            self._remove()
            with replacing(path) as file:
                json.dump(key, file)
        self.done = next(n for n in range(count + 1) if n == count or not os.path.exists(self._part(n)))

    def _part(self, number: int) -> str:
        return os.path.join(self.directory, f"{number:06d}.trec")

    def add(self, rankings: Iterable[ScoredQuery]) -> None:
        """Writes the next chunk."""
        write_run(self._part(self.done), rankings)
        self.done += 1

    def finish(self) -> None:
        """Joins the chunks to the run and removes them."""
        with replacing(self.output) as whole:
            for number in range(self.count):
                with open(self._part(number), encoding="utf-8") as part:
                    shutil.copyfileobj(part, whole)
        self._remove()

    def _remove(self) -> None:
        """Removes the chunks and the key last: what a kill leaves of this is still recognised as ours."""
        if os.path.isdir(self.directory):
            for name in sorted(os.listdir(self.directory), key=lambda name: (name == KEY, name)):
                os.remove(os.path.join(self.directory, name))
            os.rmdir(self.directory)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError:
        return ""


def fingerprint(options: Mapping[str, object], model: str, inputs: Iterable[str]) -> str:
    """Identifies everything that scores depend on: options, and sizes and modification times of the files they name.

    `model` is a directory, `inputs` are files; absent ones are skipped.
    """
    weights = [os.path.join(folder, name) for folder, _, names in sorted(os.walk(model)) for name in sorted(names)]
    found = [os.stat(path) for path in (*weights, *inputs) if os.path.exists(path)]
    state = [dict(options), [(about.st_size, about.st_mtime_ns) for about in found]]
    return f"{hash64(json.dumps(state, sort_keys=True, default=str)):016x}"
