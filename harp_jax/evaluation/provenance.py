"""Finds the commands that produced a report's inputs, with their options and cost; records truncated documents.

A plan records every step as OUTPUT/.plan/STEP.json. Starting from the step that wrote a file, this follows the steps that
wrote its inputs, so a report of a plan's runs finds their training data and cost without options.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json, replacing, sha256_file
from harp_jax.checkpoints.recorded import read_metrics

FOLDER = ".plan"


@dataclass(frozen=True)
class Step:
    """The cost of a command of the plan; 0: not recorded."""

    name: str
    command: str
    seconds: float
    memory: int = 0  # bytes of its largest process
    tokens: float = 0.0  # trained on


@dataclass(frozen=True)
class Record:
    """A finished step; `place` is its output."""

    name: str
    place: str
    words: tuple[str, ...]  # the command line, starting with the command's name
    seconds: float
    memory: int

    @property
    def command(self) -> str:
        return self.words[0] if self.words else ""

    @cached_property
    def options(self) -> dict[str, str]:
        """Options with values, names without dashes; the last one counts."""
        pairs = [word[2:].partition("=") for word in self.words if word.startswith("--") and "=" in word]
        return {name: value for name, _, value in pairs}

    def step(self) -> Step:
        """The cost; for training, including tokens."""
        tokens = trained_tokens(self.place) if self.command == "train" else 0.0
        return Step(self.name, self.command, self.seconds, self.memory, tokens)


def record_of(path: str) -> Record | None:
    """The record of the step that wrote a file or folder, if any."""
    path = os.path.abspath(path)
    stem = os.path.join(os.path.dirname(path), FOLDER, os.path.basename(path))
    # A file's record lacks its suffix, such as .trec.
    for name in (stem, os.path.splitext(stem)[0]):
        if os.path.isfile(name + ".json"):
            return _read(name + ".json", path)
    return None


def records_in(output: str) -> list[Record]:
    """The newest record of every step in a plan's directory, in order of completion."""
    folder = os.path.join(output, FOLDER)
    if not os.path.isdir(folder):
        raise InputError(
            f"{output} is not the output of `harp plan` (it has no {FOLDER}); name one, or use --qrels and --run"
        )
    found: dict[str, Record] = {}
    names = [name for name in os.listdir(folder) if name.endswith(".json")]
    # A file's record lacks its suffix, such as .trec.
    places = {stem: name for name in os.listdir(output) for stem in (os.path.splitext(name)[0], name)}
    for name in sorted(names, key=lambda name: os.path.getmtime(os.path.join(folder, name))):
        if place := places.get(name.removesuffix(".json")):
            record = _read(os.path.join(folder, name), os.path.abspath(os.path.join(output, place)))
            found.pop(record.name, None)
            found[record.name] = record
    return list(found.values())


def _read(path: str, place: str) -> Record:
    found = read_json(path)
    words = shlex.split(str(found["command"]))
    words = words[words.index("harp_jax") + 1 :] if "harp_jax" in words else words
    return Record(found["name"], place, tuple(words), float(found["seconds"]), int(found.get("memory_bytes") or 0))


def behind(paths: Iterable[str]) -> list[Record]:
    """The records of all steps that the files depend on, sources first, without duplicates."""
    found: dict[str, Record] = {}

    def visit(path: str) -> None:
        record = record_of(path)
        if record is None or record.place in found:
            return
        found[record.place] = record  # before its inputs: a damaged record may name itself
        for word in record.words[1:]:
            for part in _paths(word):
                visit(part)
        found[record.place] = found.pop(record.place)

    for path in paths:
        visit(path)
    return list(found.values())


def _paths(word: str) -> list[str]:
    """The existing paths in an argument, and their parent folders, which a step may have written."""
    found = []
    for text in re.split(r"[='(),\"]+", word):
        while os.sep in text and text.strip(os.sep):
            if os.path.exists(text):
                found.append(text)
            text = os.path.dirname(text)
    return found


def trained_tokens(workdir: str) -> float:
    """Tokens trained on, without padding; 0 if not recorded."""
    try:
        rows = [row for row in read_metrics(workdir) if row["split"] == "train"]
    except InputError:
        return 0.0
    return float(sum(row.get("tokens", 0.0) for row in rows))


TRUNCATED = ".truncated.json"  # a file next to a run: TREC runs cannot hold this, and only plans record their steps


def record_truncated(run: str, documents: int, pairs: int) -> None:
    """Records next to a run in how many of its pairs the document was truncated."""
    with replacing(run + TRUNCATED) as file:
        json.dump({"documents": documents, "pairs": pairs, "sha256": sha256_file(run)}, file)


def truncated_remark(paths: Mapping[str, Sequence[str]]) -> list[str]:
    """A sentence on the systems (name → its runs) whose re-ranking truncated documents; [] for none.

    Ignores records of runs that were rewritten later, and does not look up the runs behind a fused one.
    """
    said = []
    for name, runs in paths.items():
        records = [(run, read_json(run + TRUNCATED)) for run in runs if os.path.isfile(run + TRUNCATED)]
        found = [record for run, record in records if record["sha256"] == sha256_file(run)]
        if found:
            documents, pairs = (sum(record[key] for record in found) for key in ("documents", "pairs"))
            said.append(f"{name} in {documents} of {pairs} pairs")
    return [f"only the beginning of the document was read: {', '.join(said)}; --windows reads more"] if said else []
