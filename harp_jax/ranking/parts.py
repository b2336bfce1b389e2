"""What a long re-ranking has done so far: finished portions of its run, kept until all are there."""

import argparse
import json
import os
import re
import shutil

from harp_jax.corpus.paths import document_files, is_irds, query_file
from harp_jax.corpus.trec import Rankings, write_run
from harp_jax.errors import InputError
from harp_jax.files import replacing
from harp_jax.randomness import hash64

KEY = "key.json"
OURS = re.compile(r"(\d{6,}\.trec|key\.json)(\.tmp\.\d+)?")  # with what a kill leaves of a file half written
FREE = ("output",)  # arguments that do not change a score


class Parts:
    """OUTPUT.parts: portion n of the run as n.trec, and a key that says of which inputs.

    Parts of other inputs (another model, run or option), or without a key, are thrown away. Each portion appears complete
    or not at all. InputError where the directory holds anything else.
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

    def add(self, rankings: Rankings) -> None:
        """Writes the next portion."""
        write_run(self._part(self.done), rankings)
        self.done += 1

    def finish(self) -> None:
        """Makes the run of the portions and removes them."""
        with replacing(self.output) as whole:
            for number in range(self.count):
                with open(self._part(number), encoding="utf-8") as part:
                    shutil.copyfileobj(part, whole)
        self._remove()

    def _remove(self) -> None:
        """Removes the portions and at last the key, so that what a kill leaves behind is still known as ours."""
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


def fingerprint(arguments: argparse.Namespace, backend: str) -> str:
    """Names everything that scores depend on: the options, and size and time of change of the model's files and the inputs."""
    options = {name: value for name, value in vars(arguments).items() if name not in FREE}
    model = [
        os.path.join(where, name) for where, _, names in sorted(os.walk(arguments.model)) for name in sorted(names)
    ]
    docs, queries = arguments.docs, arguments.queries
    files = [] if is_irds(docs) else document_files(docs)
    inputs = (
        *files,
        queries if is_irds(queries) else query_file(queries),
        arguments.run,
        arguments.only,
        arguments.folds,
    )
    found = [os.stat(path) for path in (*model, *inputs) if os.path.exists(path)]
    state = [options, [(about.st_size, about.st_mtime_ns) for about in found], backend]
    return f"{hash64(json.dumps(state, sort_keys=True, default=str)):016x}"
