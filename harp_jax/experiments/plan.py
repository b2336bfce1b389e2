"""A plan: an experiment as a list of `harp` commands, each run once for everything it reads.

In a command's arguments {out} is its own output path, {NAME} that of an earlier command, and {output} the plan's directory.
An output path contains the hash of everything the command reads: its arguments, the files and folders that they name, the
fields of its config, and the hashes of the earlier commands. Files above 1 MiB count by size and time of change instead of
their content. So a finished command is never repeated, a killed plan resumes, and changing one part of a plan keeps the
results of the others.
"""

import hashlib
import os
import re
import runpy
import shlex
import string
import sys
from dataclasses import dataclass, field

from harp_jax.cli import config_file
from harp_jax.errors import InputError
from harp_jax.files import sha256_file
from harp_jax.version import __version__

HASHED = 1 << 20  # bytes up to which a file is identified by its content
PROGRAM = [sys.executable, "-m", "harp_jax"]


@dataclass(frozen=True)
class Command:
    """A step of a plan: `harp COMMAND ARGUMENTS`. `name` identifies the step within the plan.

    `reads` are files that no argument names. `suffix`, such as ".trec", makes {out} a file of that kind; by default it is
    a directory.
    """

    name: str
    command: str
    arguments: list[str]
    reads: list[str] = field(default_factory=list)
    suffix: str = ""

    def needs(self) -> list[str]:
        """The names in braces: earlier steps, "out" and "output"."""
        found = [name for text in self.arguments for _, name, _, _ in string.Formatter().parse(text) if name]
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Step:
    """A command with its braces filled in: `key` is the hash of what it reads, `place` its output path."""

    command: Command
    key: str
    place: str
    argv: list[str]

    @property
    def record(self) -> str:
        """The file that marks the step as done."""
        return os.path.join(os.path.dirname(self.place), ".plan", f"{self.command.name}-{self.key}.json")

    @property
    def done(self) -> bool:
        return os.path.exists(self.record) and os.path.exists(self.place)

    def __str__(self) -> str:
        """The command line to type."""
        return " ".join(["python", *map(shlex.quote, self.argv[1:])])


def resolve(commands: list[Command], output: str) -> list[Step]:
    """The steps of a plan that writes to the directory `output`, in order.

    Raises InputError for duplicate names, unknown names in braces and missing files.
    """
    steps: dict[str, Step] = {}
    for command in commands:
        if command.name in steps or not re.fullmatch(r"[a-z0-9_]+", command.name) or command.name in ("out", "output"):
            raise InputError(f"step name {command.name!r} is used twice or is not of [a-z0-9_]; rename it in the plan")
        unknown = [n for n in command.needs() if n not in steps and n not in ("out", "output")]
        if unknown:
            raise InputError(
                f"step {command.name} needs {unknown[0]!r}, which no earlier step makes; correct the name in the plan"
            )
        state = hashlib.sha256(repr((command.command, command.arguments, __version__)).encode())
        for name in command.needs():
            state.update(steps[name].key.encode() if name in steps else b"-")
        for path in command.reads:
            if not os.path.isfile(path):
                raise InputError(f"step {command.name} reads {path}, which is missing; check the plan's options")
            state.update(sha256_file(path).encode())
        for argument in command.arguments:
            state.update(identity(argument).encode())
        key = state.hexdigest()[:10]
        place = os.path.join(output, f"{command.name}-{key}{command.suffix}")
        names = {n: s.place for n, s in steps.items()} | {"out": place, "output": output}
        argv = [*PROGRAM, command.command, *(text.format(**names) for text in command.arguments)]
        steps[command.name] = Step(command, key, place, argv)
    return list(steps.values())


def identity(argument: str) -> str:
    """Identity of what an argument names: files, folders, and the fields of a config."""
    # The whole value too: paths may contain a comma or "=".
    words = [argument, argument.partition("=")[2], *re.split(r"[=,'\"()\s]+", argument)]
    if argument.startswith("--config="):
        path = config_file(argument.removeprefix("--config=")).partition(":")[0]
        if os.path.isfile(path):
            # The fields too: a config may import them from another file.
            get_config = runpy.run_path(path).get("get_config")
            return stamp(path) + (str(get_config()) if get_config else "")
    return "".join(stamp(word) for word in dict.fromkeys(words) if word and os.path.exists(word))


def stamp(path: str) -> str:
    """SHA-256 of a small file, size and time of change of a larger one; for a folder, sizes and times of all files in it."""
    if os.path.isdir(path):
        inside = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        return repr(
            [(name, os.stat(name).st_size, os.stat(name).st_mtime_ns) for name in inside if os.path.exists(name)]
        )
    about = os.stat(path)
    return sha256_file(path) if about.st_size <= HASHED else repr((about.st_size, about.st_mtime_ns))


def listing(steps: list[Step]) -> str:
    """What a dry run prints: one line a step, its state and its command line."""
    return "\n".join(f"{'done' if step.done else 'to do'}  {step.command.name}: {step}" for step in steps)
