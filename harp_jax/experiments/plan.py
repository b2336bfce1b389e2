"""A plan: an experiment as a list of `harp` commands, each run once for everything it reads.

In a command's arguments {out} is its own output path, {NAME} that of an earlier command, and {output} the plan's directory.
An output path contains the hash of everything the command reads: its arguments, the files and folders that they name, the
fields of its config, and the hashes of the earlier commands. So a finished command is never repeated, a killed plan resumes,
and changing one part of a plan keeps the results of the others. A finished command runs again if its output was changed since.

Plans and configs are Python files: running one runs its code.
"""

import ast
import contextlib
import glob
import hashlib
import json
import os
import re
import runpy
import shlex
import string
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harp_jax.base.cli import child
from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json, replacing, sha256_file
from harp_jax.base.version import __version__
from harp_jax.config import config_file

SMALL = 1 << 16  # bytes up to which a file is read again each time


class Contents:
    """Called with a path: the digest of a file, or of the names and contents of a folder's files.

    `cache` is the file of remembered digests, "" for none; `save` writes it.
    """

    def __init__(self, cache: str = "") -> None:
        self.cache = cache
        self._known: dict[str, list[object]] = {}
        if cache and os.path.exists(cache):
            try:
                self._known = read_json(cache)
            except InputError:
                os.remove(cache)  # everything is read again

    def __call__(self, path: str) -> str:
        if not os.path.isdir(path):
            return self._file(path)
        digest = hashlib.sha256()
        seen = set()
        for folder, folders, names in os.walk(path, followlinks=True):  # as readers of pages do
            seen.add(os.path.realpath(folder))
            folders[:] = sorted(name for name in folders if os.path.realpath(os.path.join(folder, name)) not in seen)
            for name in sorted(names):
                inner = os.path.join(folder, name)
                if os.path.isfile(inner):
                    digest.update(
                        f"{os.path.relpath(inner, path)}\0{self._file(inner)}\n".encode(errors="surrogateescape")
                    )
        return digest.hexdigest()

    def _file(self, path: str) -> str:
        about = os.stat(path)
        if about.st_size <= SMALL:
            return sha256_file(path)
        key, state = os.path.realpath(path), [about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns]
        found = self._known.get(key)
        if not isinstance(found, list) or len(found) != 2 or found[0] != state or not isinstance(found[1], str):
            found = self._known[key] = [state, sha256_file(path)]
        return str(found[1])

    def save(self) -> None:
        """Writes the remembered digests."""
        if self.cache:
            with replacing(self.cache) as file:
                json.dump(self._known, file)


BRACKETS = 20  # of a pattern at most; the time of matching grows with their square
PROGRAM = child()


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

    def of_texts(self) -> bool:
        """Whether the fields have their types, which a plan file may get wrong."""
        if not isinstance(self.arguments, list | tuple) or not isinstance(self.reads, list | tuple):
            return False
        return all(isinstance(t, str) for t in (self.name, self.command, self.suffix, *self.arguments, *self.reads))

    def needs(self) -> list[str]:
        """The names in braces: earlier steps, "out" and "output". Raises InputError for braces without a name."""
        found: list[str] = []
        for text in self.arguments:
            try:
                names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
                unnamed = "" in names
            except ValueError:
                unnamed = True
            if unnamed:
                raise InputError(
                    f"step {self.name}: braces without a name in the argument {text!r}; name a step, or double the braces"
                )
            found += names
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Step:
    """A command with its braces filled in: `key` is the hash of what it reads, `place` its output path."""

    command: Command
    key: str
    place: str
    argv: list[str]
    contents: Contents = field(default_factory=Contents, compare=False, repr=False)

    @property
    def record(self) -> str:
        """The file that marks the step as done."""
        return os.path.join(os.path.dirname(self.place), ".plan", f"{self.command.name}-{self.key}.json")

    @property
    def done(self) -> bool:
        """Whether the step has ended and its output is what it was then."""
        if not (os.path.exists(self.record) and os.path.exists(self.place)):
            return False
        try:
            found = read_json(self.record)
        except InputError:
            return False
        return bool(found.get("sha256") == self.contents(self.place))

    def __str__(self) -> str:
        """The command line to type."""
        return shlex.join(["python", *self.argv[2:]])  # without -P


def resolve(commands: list[Command], output: str) -> list[Step]:
    """The steps of a plan that writes to the directory `output`, in order.

    Raises InputError for duplicate names, unknown names in braces and missing files.
    """
    steps: dict[str, Step] = {}
    contents = Contents(os.path.join(output, ".plan", "contents"))
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
            state.update(contents(path).encode())
        for argument in command.arguments:
            state.update(identity(argument, contents).encode())
        key = state.hexdigest()[:10]
        place = os.path.join(output, f"{command.name}-{key}{command.suffix}")
        names = {n: s.place for n, s in steps.items()} | {"out": place, "output": output}
        try:
            arguments = [text.format(**names) for text in command.arguments]
        except (ValueError, AttributeError, LookupError, TypeError) as error:
            raise InputError(f"step {command.name}: {error} in its arguments; write names alone in braces") from error
        steps[command.name] = Step(command, key, place, [*PROGRAM, command.command, *arguments], contents)
    return list(steps.values())


def identity(argument: str, contents: Contents) -> str:
    """Identity of what an argument names: files, folders, and the fields of a config with the files that they name."""
    # The whole value too: paths may contain a comma or "=".
    value = argument.partition("=")[2]
    words = [argument, value, value.partition("=")[2], *re.split(r"[=,'\"()\s]+", argument), *texts_in(value)]
    words += re.split("[=,]", argument)  # paths with spaces
    if argument.startswith("--config="):
        path = config_file(argument.removeprefix("--config=")).partition(":")[0]
        if os.path.isfile(path):
            # The fields too: a config may import them from another file.
            with reporting(path):
                get_config = runpy.run_path(path).get("get_config")
                if get_config is None:
                    return contents(path)
                config = get_config()
                return contents(path) + str(config) + "".join(map(contents, named(leaves(config))))
    return "".join(map(contents, named(words)))


def named(words: Iterable[str]) -> list[str]:
    """The files and folders that words name, as commands read them: with the home directory and patterns filled in."""
    found: list[str] = []
    for word in map(os.path.expanduser, words):
        if os.path.isfile(word) or os.path.isdir(word):
            found.append(word)
        elif glob.has_magic(word) and word.count("[") <= BRACKETS:
            found += sorted(glob.glob(word, recursive=True))
    return list(dict.fromkeys(found))


def leaves(value: Any) -> Iterator[str]:
    """The texts in the fields of a config."""
    if isinstance(value, str):
        yield value
    elif hasattr(value, "values"):  # a ConfigDict is no Mapping
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)


def texts_in(value: str) -> list[str]:
    """The texts of a tuple that is written as in Python: names of files may contain spaces, commas and quotes."""
    if not value.startswith("("):
        return []
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [text for text in found if isinstance(text, str)] if isinstance(found, tuple) else []


def check_braces(options: Mapping[str, object]) -> None:
    """Raises InputError for options with braces, which name steps in the arguments of a plan."""
    for name, value in options.items():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and re.search("[{}]", text):
                raise InputError(f"{name}: {text} has braces, which have a meaning in plans; rename it")


@contextlib.contextmanager
def reporting(path: str) -> Iterator[None]:
    """Raises InputError, with the line, for what the code of a plan or config raises."""
    try:
        yield
    except InputError:
        raise
    except SyntaxError as error:
        raise InputError(f"{error.filename or path}, line {error.lineno}: {error.msg}; correct the file") from error
    except (Exception, SystemExit) as error:
        frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        where = f"{path}, line {frames[-1]}" if frames else path
        raise InputError(f"{where}: {type(error).__name__}: {error}; correct the file") from error


def listing(steps: list[Step]) -> str:
    """What a dry run prints: one line a step, its state and its command line."""
    return "\n".join(f"{'done' if step.done else 'to do'}  {step.command.name}: {step}" for step in steps)
