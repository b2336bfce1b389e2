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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from harp_jax.base.errors import InputError
from harp_jax.base.files import as_stored, json_fields, read_json, replacing, sha256_file
from harp_jax.base.progress import say
from harp_jax.base.version import __version__

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", covariant=True)

INPUT, SPEED = "input", "speed"
# Types of parameters, and of the fields of option dataclasses. The contents of inputs are part of the record; "" is no input.
InputPath = Annotated[str, INPUT]
InputPaths = Annotated[tuple[str, ...], INPUT]
NamedInputs = Annotated[Mapping[str, Any], INPUT]  # such as {"BM25": "bm25.trec", "HARP": ("s0.trec", "s1.trec")}
# Options that change only how long the work takes, such as a number of processes: not part of the record.
Speed = Annotated[T, SPEED]

RECORD = "made.json"
REFUSED, AGAIN, KEPT = "refused", "again", "kept"  # what `once` does about inputs whose content has changed
NOTHING: tuple[Any, ...] = (None, "", [])  # options without a value
_hashed: dict[tuple[str, str], str] = {}  # path and stamp → SHA-256, of what this process has read
_replacing: list[bool] = []  # not empty: see `replace_outputs`


def replace_outputs() -> None:
    """From now on, what other options or inputs made is made again instead of refused, in this process (`harp plan --force`)."""
    _replacing.append(True)


class Digest(NamedTuple):
    """A file's or folder's SHA-256, and the stamp (sizes and times of its files) under which it was computed. `path`: where an
    input was, for those who follow the records; it does not count."""

    sha256: str
    stamp: str
    path: str = ""


@dataclass(frozen=True)
class Made:
    """The record of an output. `inputs`: name → digest, named by parameter, such as "docs" or "options.docs"."""

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
        if not os.path.exists(path):
            return None
        advice = f"remove it and {output} to make both again"
        fields = read_json(path, advice)
        with json_fields(path, advice):
            inputs = {str(name): Digest(*map(str, digest)) for name, digest in fields.pop("inputs").items()}
            return cls(**fields | {"inputs": inputs, "output": Digest(*map(str, fields["output"]))})


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


@dataclass(frozen=True)
class _Call:
    """A call of a decorated function, as its record will describe it. `inputs`: name → path."""

    function: str
    options: dict[str, Any]
    inputs: dict[str, str]
    output: str
    changed: str

    def digests(self, known: Mapping[str, Digest]) -> dict[str, Digest]:
        return {name: digest(path, known.get(name), self.output) for name, path in self.inputs.items()}

    def finished(self) -> "Made | None":
        """The record if this very call has finished and its output is unchanged; None if it has to run. Raises InputError if other
        options or inputs made the output, or if it was changed since."""
        made = Made.read(self.output)
        if made is None or not os.path.exists(self.output):
            return None
        difference = self._difference(made)
        if not difference:
            now = self.digests(made.inputs)
            for name in [name for name, current in now.items() if current.sha256 != made.inputs[name].sha256][:1]:
                if self.changed == AGAIN:
                    return None
                difference = f"from another content of {name} ({self.inputs[name]})" if self.changed == REFUSED else ""
        if difference:
            wrong = f"was made {difference}; choose another output, or --force to replace this one"
        elif digest(self.output, made.output).sha256 != made.output.sha256:
            wrong = f"was changed after {made.function} made it; move it away, or --force to make it again"
        else:
            return made
        if not difference and self.changed == AGAIN:
            return None
        if not _replacing:
            raise InputError(f"{self.output} {wrong}")
        forget(self.output)
        return None

    def _difference(self, made: Made) -> str:
        """What distinguishes this call from the recorded one, in words; "" if nothing does."""
        if made.function != self.function:
            return f"by {made.function}, not {self.function}"
        then, now = flat(made.options), flat(self.options)
        for name in [*now, *then]:
            before, after = (given.get(name) if given.get(name) not in NOTHING else "none" for given in (then, now))
            if before != after:
                return f"with {name}={before}, now {after}"
        for name in [*self.inputs, *made.inputs]:
            if (name in self.inputs) != (name in made.inputs):
                return f"{'without' if name in self.inputs else 'with'} {name}"
        return ""


class OnceFunction(Protocol[P, R]):
    """A function decorated with `once`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function, or returns the result of the same finished call."""

    def already(self, *args: P.args, **kwargs: P.kwargs) -> Made | None:
        """The record of the same finished call, with its result; else None. InputError as a call would raise it."""


@overload
def once(function: Callable[P, T]) -> OnceFunction[P, T]: ...


@overload
def once(
    *,
    inputs: Callable[[Mapping[str, Any]], Iterable[str] | Mapping[str, str]] | None = None,
    speed: Sequence[str] = (),
    changed: str = REFUSED,
) -> Callable[[Callable[P, T]], OnceFunction[P, T]]: ...


def once(
    function: Callable[P, T] | None = None,
    *,
    inputs: Callable[[Mapping[str, Any]], Mapping[str, Any] | Iterable[str]] | None = None,
    speed: Sequence[str] = (),
    changed: str = REFUSED,
) -> Any:
    """Decorates a function with a parameter `output`: what has been made is not made again (see the top of the file). Its options
    must be JSON values, dataclasses of these, or ConfigDicts; its result too, for it is stored. `inputs` returns more inputs from
    the call's arguments: paths, or {"config.init": path} for options that count by the content of the path; `speed` names more
    options that are not recorded, such as "config.workers". If only the content of inputs has changed since, the call is REFUSED,
    made AGAIN (the function may reuse its earlier output), or the earlier output is KEPT. The decorated function has `already(…)`:
    the `Made` of a finished call, else None."""
    if function is None:
        return functools.partial(once, inputs=inputs, speed=speed, changed=changed)
    made_by: Callable[P, T] = function
    signature = inspect.signature(made_by)

    @functools.cache
    def hints() -> dict[str, Any]:
        return get_type_hints(made_by, include_extras=True)

    def described(*args: Any, **kwargs: Any) -> _Call:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        output = os.fspath(bound.arguments["output"])
        given = {name: value for name, value in bound.arguments.items() if name != "output"}
        paths = dict(_inputs({name: hints().get(name) for name in given}, given))
        others = _plain(inputs(bound.arguments)) if inputs else {}
        named = flat(others if isinstance(others, dict) else {path: path for path in others})
        more = dict(pair for name, path in named.items() for pair in _matching(name, path))
        read = {*paths, *(name for name, path in named.items() if any(_matching(name, path)))}
        options = flat({name: _plain(value, hints().get(name)) for name, value in given.items()})
        kept = {name: value for name, value in options.items() if name not in read and name not in speed}
        return _Call(made_by.__qualname__, kept, paths | more, output, changed)

    def record_of(this: _Call) -> Made | None:
        made = this.finished()
        return made and dataclasses.replace(made, result=_restored(made.result, hints().get("return")))

    @functools.wraps(made_by)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        this = described(*args, **kwargs)
        if made := record_of(this):
            say(f"{this.output}: already made")
            return made.result
        digests, began = this.digests({}), time.monotonic()
        result = made_by(*args, **kwargs)
        seconds = round(time.monotonic() - began, 2)
        digests = {name: each._replace(path=os.path.abspath(this.inputs[name])) for name, each in digests.items()}
        record = Made(this.function, this.options, digests, digest(this.output), seconds, __version__, _plain(result))
        with replacing(record_path(this.output)) as file:
            json.dump({field.name: getattr(record, field.name) for field in dataclasses.fields(Made)}, file, indent=1)
        return result

    call.already = lambda *args, **kwargs: record_of(described(*args, **kwargs))  # type: ignore[attr-defined]
    return call


def digest(path: str, known: Digest | None = None, without: str = "") -> Digest:
    """The digest of a file, or of the names and contents of a folder's files; hidden files and records do not count. `known`: an
    earlier digest, returned if the stamp is the same; `without`: a file in the folder that does not count, an output. Raises
    OSError for a missing path."""
    is_folder = os.path.isdir(path)
    files = {os.path.relpath(inner, path): inner for inner in _files(path)} if is_folder else {"": path}
    if is_folder and without:
        files.pop(os.path.relpath(without, path), None)
    stamp = hashlib.sha256()
    for name, file in files.items():
        about = os.stat(file)
        stamp.update(f"{name}\0{about.st_size}\0{about.st_mtime_ns}\n".encode(errors="surrogateescape"))
    if known and known.stamp == stamp.hexdigest():
        return known
    # The maker of an input has just hashed it.
    if (own := Made.read(path)) and own.output.stamp == stamp.hexdigest():
        return own.output
    place = os.path.abspath(path), stamp.hexdigest()
    if place not in _hashed and not is_folder:
        _hashed[place] = sha256_file(path)
    elif place not in _hashed:
        content = hashlib.sha256()
        for name, file in files.items():
            content.update(f"{name}\0{sha256_file(file)}\n".encode(errors="surrogateescape"))
        _hashed[place] = content.hexdigest()
    return Digest(_hashed[place], stamp.hexdigest())


def _files(folder: str) -> Iterator[str]:
    seen = {os.path.realpath(folder)}
    for here, folders, names in os.walk(folder, followlinks=True):  # as readers of pages do
        inner = [name for name in sorted(folders) if not name.startswith(".")]
        folders[:] = [name for name in inner if os.path.realpath(os.path.join(here, name)) not in seen]
        seen.update(os.path.realpath(os.path.join(here, name)) for name in folders)
        for name in sorted(names):
            file = os.path.join(here, name)
            if not name.startswith(".") and not name.endswith(RECORD) and os.path.isfile(file):
                yield file


def _inputs(hints: Mapping[str, Any], values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, path) of the inputs among values, by their types. What names no file, such as irds:ID, stays an option."""
    for name, value in values.items():
        hint = hints.get(name)
        if get_origin(hint) is Annotated and INPUT in get_args(hint):
            for inner, path in flat({prefix + name: _plain(value)}).items():
                yield from _matching(inner, path)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            yield from _inputs(get_type_hints(type(value), include_extras=True), fields, f"{prefix}{name}.")


def _matching(name: str, path: str) -> Iterator[tuple[str, str]]:
    """(name, path), or one such for every file that a pattern matches."""
    path = as_stored(path) if path else path
    if not path or os.path.exists(path):
        yield from [(name, path)] if path else []
    elif glob.has_magic(path):
        yield from ((f"{name}.{number}", one) for number, one in enumerate(sorted(glob.glob(path, recursive=True))))


def _plain(value: Any, hint: Any = None) -> Any:
    """A value as JSON has it. Fields and parameters of type `Speed` are left out."""
    if get_origin(hint) is Annotated and SPEED in get_args(hint):
        return {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value), include_extras=True)
        return {f.name: _plain(getattr(value, f.name), hints.get(f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "to_dict"):  # a ConfigDict is not a Mapping
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _restored(value: Any, hint: Any) -> Any:
    """A stored result as the type that the function returns: dataclasses and tuples are rebuilt."""
    if isinstance(hint, UnionType) and value is not None:  # X | None
        return _restored(value, next(kind for kind in get_args(hint) if kind is not type(None)))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        return hint(**{name: _restored(inner, hints[name]) for name, inner in value.items()})
    if isinstance(value, list) and (hint is tuple or get_origin(hint) is tuple):
        inner = get_args(hint)
        each = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is ... else [*inner] or [None] * len(value)
        return tuple(_restored(one, kind) for one, kind in zip(value, each))
    return value


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}, "c": [2]} as {"a.b": 1, "c.0": 2}; empty dicts vanish, empty lists stay."""
    named: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, list) and value and not all(isinstance(one, int | float | bool) for one in value):
            value = {str(number): one for number, one in enumerate(value)}
        named |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return named
