"""A plan: an experiment as a list of `harp` commands, each run once per set of inputs.

In a command's arguments {out} is its own output path, {NAME} that of an earlier command, and {output} the plan's directory.
An output path contains the hash of everything the command reads: its arguments, the files and folders that they name, the
fields of its config, and the hashes of the earlier commands. So a finished command is never repeated, a killed plan resumes,
and changing one part of a plan keeps the results of the others. A finished command runs again if its output has changed.

A plan file is a Python file with `get_plan(option=default, …) -> list[Command]`. The first docstring of the file describes the
plan; that of `get_plan` has one line "option: what it means" for each option. An option's type is that of its default: text,
number, bool, or a tuple of these (values separated by commas). A parameter whose default is a dataclass adds its fields as
options, which several plans share; the docstring of the class explains them. Loading a plan or a config runs its code.
"""

import ast
import contextlib
import dataclasses
import glob
import hashlib
import inspect
import json
import os
import re
import runpy
import shlex
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harp_jax.base.cli import child
from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json, replacing, sha256_file
from harp_jax.base.version import __version__
from harp_jax.config import config_file

SMALL = 1 << 16  # bytes; smaller files are always hashed again
BRACKETS = 20  # maximum in a pattern; matching time grows with their square
PROGRAM = child()
PLANS = Path(__file__).parent / "plans"
Value = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | tuple[float, ...]
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no")
TEXTS = ("--title=", "--remark=", "--evaluated_on=")  # options whose text does not name files
BRACES = re.compile(r"\{([a-z0-9_]+)\}")


class Contents:
    """Called with a path: returns the digest of a file, or of the names and contents of a folder's files.

    `cache` is the file of remembered digests, "" for none; `save` writes it. Skips the folder `output`, which the plan itself
    changes.
    """

    def __init__(self, cache: str = "", output: str = "") -> None:
        self.cache, self.output = cache, output and os.path.realpath(output)
        self._known: dict[str, list[object]] = {}
        if cache and os.path.exists(cache):
            try:
                self._known = read_json(cache)
            except InputError:
                os.remove(cache)  # then everything is hashed again

    def __call__(self, path: str) -> str:
        if not os.path.isdir(path):
            return self._file(path)
        if os.path.realpath(path) == self.output:
            return ""
        digest = hashlib.sha256()
        seen = {self.output}
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
        if key not in self._known or self._known[key][0] != state:
            self._known[key] = [state, sha256_file(path)]
        return str(self._known[key][1])

    def save(self) -> None:
        """Writes the remembered digests."""
        if self.cache:
            with replacing(self.cache) as file:
                json.dump(self._known, file)


@dataclass(frozen=True)
class Command:
    """A step of a plan: `harp COMMAND ARGUMENTS`. `name` identifies the step within the plan.

    `suffix`, such as ".trec", makes {out} a file of that kind; by default it is a directory. `logged`: its output goes to a
    log file.
    """

    name: str
    command: str
    arguments: list[str]
    suffix: str = ""
    logged: bool = False

    def needs(self) -> list[str]:
        """The names in braces: earlier steps, "out" and "output"."""
        return list(dict.fromkeys(name for text in self.arguments for name in BRACES.findall(text)))


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
        """Whether the step has finished and its output is unchanged."""
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

    Raises InputError for wrong names of steps, in the plan or in braces.
    """
    steps: dict[str, Step] = {}
    contents = Contents(os.path.join(output, ".plan", "contents"), output)
    for command in commands:
        if command.name in steps or not re.fullmatch(r"[a-z0-9_]+", command.name) or command.name in ("out", "output"):
            raise InputError(
                f"step name {command.name!r} is used twice or has characters other than [a-z0-9_]; rename it in the plan"
            )
        unknown = [n for n in command.needs() if n not in steps and n not in ("out", "output")]
        if unknown:
            raise InputError(
                f"step {command.name} has {{{unknown[0]}}} in its arguments, and no earlier step has this name; change the "
                "plan or its options"
            )
        state = hashlib.sha256(repr((command.command, command.arguments, __version__)).encode())
        for name in command.needs():
            state.update(steps[name].key.encode() if name in steps else b"-")
        for argument in command.arguments:
            state.update(identity(argument, contents).encode())
        key = state.hexdigest()[:10]
        place = os.path.join(output, f"{command.name}-{key}{command.suffix}")
        places = {n: s.place for n, s in steps.items()} | {"out": place, "output": output}
        arguments = [filled(text, places) for text in command.arguments]
        steps[command.name] = Step(command, key, place, [*PROGRAM, command.command, *arguments], contents)
    return list(steps.values())


def filled(text: str, places: Mapping[str, str]) -> str:
    """An argument with {NAME} replaced by the path of that step."""
    return BRACES.sub(lambda found: places[found[1]], text)


def identity(argument: str, contents: Contents) -> str:
    """Digests of what an argument names: files, folders, and the fields of a config with the files that they name."""
    if argument.startswith(TEXTS):
        return ""
    # The name of a row is not a path, as in --run=ranker={run_ranker}.
    argument = re.sub(f"[^=]*=(?={BRACES.pattern})", "=", argument)
    # The whole value too: paths may contain a comma or "=".
    value = argument.partition("=")[2]
    words = [argument, value, value.partition("=")[2], *re.split(r"[=,'\"()\s]+", argument), *texts_in(value)]
    words += re.split("[=,]", argument)  # paths with spaces
    if argument.startswith("--config="):
        path, _, preset = config_file(argument.removeprefix("--config=")).partition(":")
        if os.path.isfile(path):
            # The fields too: a config may import them from another file.
            with reporting(path):
                get_config = runpy.run_path(path).get("get_config")
                if get_config is None:
                    return contents(path)
                config = get_config(preset) if preset else get_config()
                return contents(path) + str(config) + "".join(map(contents, named(leaves(config))))
    return "".join(map(contents, named(words)))


def named(words: Iterable[str]) -> list[str]:
    """The files and folders that words name, with ~ and patterns expanded as commands do."""
    found: list[str] = []
    for word in map(os.path.expanduser, words):
        if os.path.isfile(word) or os.path.isdir(word):
            found.append(word)
        elif glob.has_magic(word) and word.count("[") <= BRACKETS:
            found += sorted(glob.glob(word, recursive=True))
    return list(dict.fromkeys(found))


def leaves(value: Any) -> Iterator[str]:
    """All texts in a config's fields."""
    if isinstance(value, str):
        yield value
    elif hasattr(value, "values"):  # a ConfigDict is not a Mapping
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)


def texts_in(value: str) -> list[str]:
    """The texts of a tuple in Python's syntax, whose file names may contain spaces, commas and quotes."""
    if not value.startswith("("):
        return []
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [text for text in found if isinstance(text, str)] if isinstance(found, tuple) else []


@contextlib.contextmanager
def reporting(path: str) -> Iterator[None]:
    """Turns exceptions of a plan's or config's code into InputError, with the line."""
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
    """What a dry run prints: one line per step, with its state and command line."""
    return "\n".join(f"{'done' if step.done else 'to do'}  {step.command.name}: {step}" for step in steps)


@dataclass(frozen=True)
class PlanFile:
    """A loaded plan file. `defaults` and `meanings` are by option."""

    path: str
    description: str
    get_plan: Callable[..., list[Command]]
    defaults: dict[str, Value]
    meanings: dict[str, str]
    groups: dict[str, Any]  # parameter → its default, a dataclass whose fields are options

    def commands(self, settings: Sequence[str] = ()) -> list[Command]:
        """The commands with options from "name=value" texts. InputError for unknown names and values of another type."""
        values: dict[str, Any] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            try:
                if not equals:
                    raise ValueError("write NAME=VALUE")
                values[name] = parsed(text, self.defaults[name])
            except (KeyError, ValueError) as error:
                wrong = "no such option" if isinstance(error, KeyError) else error
                options = ", ".join(f"{name} ({written(default)})" for name, default in self.defaults.items())
                raise InputError(f"--set {setting}: {wrong}; options of {self.path}: {options or 'none'}") from error
        for parameter, group in self.groups.items():
            own = {f.name: values.pop(f.name) for f in dataclasses.fields(group) if f.name in values}
            values[parameter] = dataclasses.replace(group, **own)
        with reporting(self.path):
            commands = list(self.get_plan(**values))
        if strange := [command for command in commands if not isinstance(command, Command)]:
            raise InputError(f"{self.path}: get_plan() returned {strange[0]!r:.60}; return a list of Command")
        return commands

    def help(self) -> str:
        """The plan's description, and its options with their defaults."""
        width = max(map(len, self.defaults), default=0)
        options = [
            f"  {name:<{width}}  {self.meanings.get(name, '')} ({written(default)})".replace("  (", " (")
            for name, default in self.defaults.items()
        ]
        about = ["options of the plan, with --set NAME=VALUE:", *options] if options else ["The plan has no options."]
        return "\n".join([self.description.strip(), "", *about])


def parsed(text: str, default: Value) -> Value:
    """A text as a value of the default's type. ValueError for another type."""
    if isinstance(default, tuple):
        first = default[0] if default else ""
        # Commas in parentheses belong to a value, as in fields=('title','body').
        parts = re.split(r",(?![^(]*\))", text) if text else []
        return tuple(parsed(part.strip(), first) for part in parts)  # type: ignore[return-value]
    if isinstance(default, bool):
        if text.lower() not in TRUE + FALSE:
            raise ValueError(f"{text!r} is neither true nor false")
        return text.lower() in TRUE
    if isinstance(default, str):
        return text
    try:
        return type(default)(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {'an integer' if isinstance(default, int) else 'a number'}") from None


def written(default: Value) -> str:
    """A default in the form of --set, "none" if it is empty."""
    return (",".join(map(str, default)) if isinstance(default, tuple) else str(default)) or "none"


def load_plan(name: str) -> PlanFile:
    """A plan by its path or its name in harp_jax/experiments/plans. Raises InputError if there is no such plan."""
    path = name if os.path.isfile(name) else str(PLANS / f"{name}.py")
    if not os.path.isfile(path):
        shipped = ", ".join(plan for plan, _ in shipped_plans())
        raise InputError(f"no plan {name!r}; name a Python file with get_plan(), or one of {shipped}")
    with reporting(path):
        contents = runpy.run_path(path)
        get_plan = contents["get_plan"]
        parameters = inspect.signature(get_plan).parameters
    groups = {name: p.default for name, p in parameters.items() if dataclasses.is_dataclass(p.default)}
    defaults = {name: parameter.default for name, parameter in parameters.items() if name not in groups}
    documented = [get_plan.__doc__ or ""]
    for group in groups.values():
        defaults |= {f.name: getattr(group, f.name) for f in dataclasses.fields(group)}
        documented.append(type(group).__doc__ or "")
    rows = re.findall(r"^ +(\w+): (.+)$", "\n".join(documented), re.MULTILINE)
    meanings = {option: meaning for option, meaning in rows if option in defaults}
    return PlanFile(path, contents["__doc__"] or "", get_plan, defaults, meanings, groups)


def shipped_plans() -> list[tuple[str, str]]:
    """(name, first line of the docstring) of the plans in harp_jax/experiments/plans."""
    files = sorted(path for path in PLANS.glob("*.py") if path.stem != "__init__")
    return [(path.stem, (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n")[0]) for path in files]
