"""What made an output: a record beside it, so that finished work is not repeated and never mixed with that of other options.

A function that writes a file or folder is decorated with `once`:

    @once
    def rank(docs: InputPath, queries: InputPath, k: int, output: str) -> Ranked: …

    rank("docs.tsv", "queries.tsv", 100, "bm25.trec")  # works, and writes bm25.trec.made.json (in a folder: made.json)
    rank("docs.tsv", "queries.tsv", 100, "bm25.trec")  # returns the same result at once
    rank("docs.tsv", "queries.tsv", 50, "bm25.trec")   # InputError: bm25.trec was made with k=100, now k=50; …

The record has the function, its options, digests of its inputs and output, the seconds and the result. Inputs count by content:
another path with the same content is the same input. A file whose size and time have not changed is not hashed again.
"""

import dataclasses
import functools
import glob
import hashlib
import inspect
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from harp_jax.base.errors import InputError
from harp_jax.base.files import as_stored, json_fields, read_json_as, replacing, sha256_file, typed, walk
from harp_jax.base.progress import say
from harp_jax.base.version import __version__

P = ParamSpec("P")
T = TypeVar("T")

INPUT, SPEED = "input", "speed"
# Types of parameters, and of the fields of option dataclasses. The contents of inputs are part of the record; "" is no input.
InputPath = Annotated[str, INPUT]
InputPaths = Annotated[tuple[str, ...], INPUT]
NamedInputs = Annotated[Mapping[str, Any], INPUT]  # such as {"BM25": "bm25.trec", "HARP": ("s0.trec", "s1.trec")}
# Options that change only how long the work takes, such as a number of processes: not part of the record.
Speed = Annotated[T, SPEED]

RECORD = "made.json"
AGAIN_BOTH = "remove it and {} to make both again"
REFUSED, AGAIN, KEPT = "refused", "again", "kept"  # what `once` does about inputs whose content has changed
Inputs = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_hashed: dict[tuple[str, str], str] = {}  # path and stamp → SHA-256, of what this process has read
_replacing: list[bool] = []  # not empty: see `replace_outputs`


def replace_outputs() -> None:
    """From now on, what other options or inputs made is made again instead of refused, in this process (--force)."""
    _replacing.append(True)


class Digest(NamedTuple):
    """A file's or folder's SHA-256, and the stamp (sizes and times of its files) under which it was computed. `path`: where an
    input was, for those who follow the records; it does not count."""

    sha256: str
    stamp: str
    path: str = ""


@dataclass(frozen=True)
class Made:
    """The record of an output. `options`: name → value; `inputs`: name → digest. Names are those of parameters, such as "docs" or
    "options.docs"."""

    function: str
    options: dict[str, Any]
    inputs: dict[str, Digest]
    output: Digest
    seconds: float
    version: str
    result: Any

    @classmethod
    def read(cls, output: str) -> "Made | None":
        """The record of an output; None if it has none. Raises InputError for a damaged one."""
        path = record_path(output)
        return read_json_as(cls, path, AGAIN_BOTH.format(output)) if os.path.exists(path) else None


def record_path(output: str) -> str:
    """Where the record of an output is: in a folder, or beside a file."""
    return os.path.join(output, RECORD) if os.path.isdir(output) else f"{output.rstrip(os.sep)}.{RECORD}"


def forget(output: str) -> None:
    """Removes an output that has a record, and the record; leaves one without a record alone."""
    path = record_path(output)
    if os.path.exists(path):
        os.remove(path)
        if os.path.isdir(output):
            shutil.rmtree(output)
        elif os.path.exists(output):
            os.remove(output)


class OnceFunction(Generic[P, T]):
    """A function decorated with `once`."""

    def __init__(self, function: Callable[P, T], inputs: Inputs | None, speed: Collection[str], changed: str) -> None:
        functools.update_wrapper(self, function)
        self._function, self._inputs, self._speed, self._changed = function, inputs, speed, changed
        self._name = function.__qualname__

    def __reduce__(self) -> str:
        return self._name  # pickled by name, as functions are

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs the function, or returns the result of the same finished call."""
        output, options, paths = self._described(*args, **kwargs)
        if made := self._finished(output, options, paths):
            say(f"{output}: already made")
            return made.result
        inputs = {
            name: digest(path, without=output)._replace(path=os.path.abspath(path)) for name, path in paths.items()
        }
        began = time.monotonic()
        result = self._function(*args, **kwargs)
        seconds = round(time.monotonic() - began, 2)
        record = Made(self._name, options, inputs, digest(output), seconds, __version__, result)
        with replacing(record_path(output)) as file:
            json.dump(vars(record), file, indent=1, default=_plain)
        return result

    def already(self, *args: P.args, **kwargs: P.kwargs) -> Made | None:
        """The record of the same finished call, with its result; else None. InputError as a call would raise it."""
        return self._finished(*self._described(*args, **kwargs))

    def _described(self, *args: Any, **kwargs: Any) -> tuple[str, dict[str, Any], dict[str, str]]:
        """The output of a call, its options and the paths of its inputs. What names no file, such as irds:ID, is an option."""
        bound = inspect.signature(self._function).bind(*args, **kwargs)
        bound.apply_defaults()
        named = flat(self._inputs(bound.arguments)) if self._inputs else {}
        hints = get_type_hints(self._function, include_extras=True)
        options: dict[str, Any] = {}
        paths: dict[str, str] = {}
        for name, value, mark in _leaves({**bound.arguments, "output": {}}, hints):
            if name in self._speed:
                continue
            files: dict[str, str] = {}
            if value and (mark == INPUT or name in named):
                path = as_stored(value)
                matching = enumerate(sorted(glob.glob(path, recursive=True)))
                files = {name: path} if os.path.exists(path) else {f"{name}.{n}": each for n, each in matching}
            if files:
                paths |= files
            else:
                options[name] = value
        return os.fspath(bound.arguments["output"]), options, paths

    def _finished(self, output: str, options: dict[str, Any], paths: dict[str, str]) -> Made | None:
        """The record if this very call has finished and its output is unchanged; None if it has to run. Raises InputError if other
        options or inputs made the output, or if it was changed since."""
        made = Made.read(output)
        if made is None or not os.path.exists(output):
            return None

        # Options, names of inputs, and only then contents, which may take long to read.
        differences = [] if made.function == self._name else [f"by {made.function}, not {self._name}"]
        for name in {**options, **made.options}:
            then, now = ("none" if of.get(name) in (None, "", []) else of[name] for of in (made.options, options))
            differences += [f"with {name}={then}, now {now}"] * (then != now)
        differences += [f"without {name}" for name in paths if name not in made.inputs]
        differences += [f"with {name}" for name in made.inputs if name not in paths]
        for name, known in made.inputs.items() if not differences else ():
            if digest(paths[name], known, output).sha256 != known.sha256:
                if self._changed == AGAIN:
                    return None
                if self._changed == REFUSED:
                    differences.append(f"from another content of {name} ({paths[name]})")

        if differences:
            wrong = f"was made {differences[0]}; choose another output, or --force to replace this one"
        elif digest(output, made.output).sha256 != made.output.sha256:
            if self._changed == AGAIN:
                return None
            wrong = f"was changed after {made.function} made it; move it away, or --force to make it again"
        else:
            with json_fields(record_path(output), AGAIN_BOTH.format(output)):
                result = typed(made.result, get_type_hints(self._function).get("return", Any), "result")
            return dataclasses.replace(made, result=result)
        if not _replacing:
            raise InputError(f"{output} {wrong}")
        forget(output)
        return None


@overload
def once(function: Callable[P, T]) -> OnceFunction[P, T]: ...


@overload
def once(
    *, inputs: Inputs | None = None, speed: Collection[str] = (), changed: str = REFUSED
) -> Callable[[Callable[P, T]], OnceFunction[P, T]]: ...


def once(function: Any = None, *, inputs: Any = None, speed: Collection[str] = (), changed: str = REFUSED) -> Any:
    """Decorates a function with a parameter `output`: what has been made is not made again (see the top of the file). Its options
    must be JSON values, dataclasses of these, or ConfigDicts; its result too, for it is stored. `inputs` returns further inputs
    among the call's arguments, such as {"config.init": path}; `speed` names more options that are not recorded, such as
    "config.workers". If only the content of inputs has changed since, the call is REFUSED, made AGAIN (the function may reuse its
    earlier output), or the earlier output is KEPT."""
    if function is None:
        return functools.partial(once, inputs=inputs, speed=speed, changed=changed)
    return OnceFunction(function, inputs, speed, changed)


def digest(path: str, known: Digest | None = None, without: str = "") -> Digest:
    """The digest of a file, or of the names and contents of a folder's files; hidden files and records do not count. `known`: an
    earlier digest, returned if the stamp is the same; `without`: a file in the folder that does not count, an output. Raises
    OSError for a missing path."""
    files = {"": path}
    if os.path.isdir(path):
        below = {os.path.relpath(file, path): file for file in walk(path)}
        below.pop(os.path.relpath(without or path, path), None)
        names = [name for name in below if not name.endswith(RECORD)]
        # The files of a folder before its folders: the order of os.walk.
        names.sort(key=lambda name: [*((1, part) for part in name.split(os.sep)[:-1]), (0, os.path.basename(name))])
        files = {name: below[name] for name in names}
    about = ((name, os.stat(file)) for name, file in files.items())
    stamp = _sha256(f"{name}\0{of.st_size}\0{of.st_mtime_ns}\n" for name, of in about)
    if known and known.stamp == stamp:
        return known
    # The maker of an input has just hashed it.
    if (own := Made.read(path)) and own.output.stamp == stamp:
        return own.output
    key = os.path.abspath(path), stamp
    if key not in _hashed:
        contents = {name: sha256_file(file) for name, file in files.items()}
        _hashed[key] = contents.get("") or _sha256(f"{name}\0{sha256}\n" for name, sha256 in contents.items())
    return Digest(_hashed[key], stamp)


def _sha256(rows: Iterable[str]) -> str:
    return hashlib.sha256("".join(rows).encode(errors="surrogateescape")).hexdigest()


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """{"a": {"b": 1}, "c": ["d"], "e": [2, 3]} as {"a.b": 1, "c.0": "d", "e": [2, 3]}; empty dicts vanish, empty lists stay."""
    return {name: value for name, value, _ in _leaves(values, {})}


def _leaves(
    values: Mapping[Any, Any], hints: Mapping[str, Any], prefix: str = "", mark: str = ""
) -> Iterator[tuple[str, Any, str]]:
    """(name, JSON value, INPUT or "") of the values within that are not SPEED, named as by `flat`."""
    for key, value in values.items():
        name, hint, inner = f"{prefix}{key}", hints.get(key), dict[str, Any]()
        own = mark or next((arg for arg in get_args(hint)[1:] if get_origin(hint) is Annotated), "")
        if own == SPEED:
            continue
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            inner = get_type_hints(type(value), include_extras=True)
        if not isinstance(value, str | int | float | list | tuple | Mapping | None):
            value = _plain(value)
        if isinstance(value, list | tuple):
            value = list(value) if all(isinstance(one, int | float) for one in value) else dict(enumerate(value))
        if isinstance(value, Mapping):
            yield from _leaves(value, inner, f"{name}.", own)
        else:
            yield name, value, own


def _plain(value: Any) -> Any:
    """What JSON has for a dataclass, ConfigDict, set or path; its values may be such again."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "to_dict"):  # a ConfigDict is not a Mapping
        return value.to_dict()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return dict(value) if isinstance(value, Mapping) else os.fspath(value)
