"""Finds an experiment and reads its options: what `harp plan` needs to call it.

An experiment is a function of a Python file: here (NAMES), or of the same name in a file of your own, such as `demo` in demo.py.

    def demo(output: str, pages: int = 400, seeds: tuple[int, ...] = (0,)) -> None: …

`output` is the folder to write to; every other parameter is an option, whose type is that of its default: text, number, bool, or a
tuple of these (values separated by commas). A parameter whose default is a dataclass adds its fields as options. The first
docstring of the file describes the experiment; those of the function and of its dataclasses have one line "option: what it means"
per option. In a file of your own, `base.steps.Steps` runs functions of installed packages; call those of the file itself directly.
"""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import os
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harp_jax.base.errors import InputError

Value = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | tuple[float, ...]
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no")
# Experiment → the file of its function.
NAMES = {
    "demo": "demo", "table1": "msmarco", "table2": "msmarco", "table3": "msmarco", "table4": "msmarco", "figure4": "figure4",
    "msmarco": "msmarco", "tables": "tables", "recipe": "recipe", "linklearn": "linklearn",
    "coarse_tuning": "coarse_tuning",
}  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """An experiment's function, its options' defaults and meanings, and its dataclasses: parameter → default."""

    name: str
    description: str
    function: Callable[..., None]
    defaults: dict[str, Value]
    meanings: dict[str, str]
    groups: dict[str, Any]

    def arguments(self, settings: Sequence[str] = ()) -> dict[str, Any]:
        """The function's arguments from "name=value" texts. InputError for unknown names and values of another type."""
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
                raise InputError(f"--set {setting}: {wrong}; options of {self.name}: {options or 'none'}") from error
        for parameter, group in self.groups.items():
            own = {f.name: values.pop(f.name) for f in dataclasses.fields(group) if f.name in values}
            values[parameter] = dataclasses.replace(group, **own)
        return values

    def help(self) -> str:
        """The description, and the options with their defaults."""
        width = max(map(len, self.defaults), default=0)
        options = [
            f"  {name:<{width}}  {self.meanings.get(name, '')} ({written(default)})".replace("  (", " (")
            for name, default in self.defaults.items()
        ]
        about = ["options, with --set NAME=VALUE:", *options] if options else ["It has no options."]
        return "\n".join([self.description.strip(), "", *about])


def find(name: str) -> Experiment:
    """An experiment by its name, or by the path of a Python file. Raises InputError if there is none."""
    if name in NAMES:
        module: ModuleType = importlib.import_module(f"harp_jax.experiments.{NAMES[name]}")
    elif os.path.isfile(name):
        module = _loaded(name)
    else:
        raise InputError(f"no experiment {name!r}; name a Python file, or one of {', '.join(NAMES)}")
    function = getattr(module, Path(name).stem, None)
    if not callable(function) or next(iter(inspect.signature(function).parameters), "") != "output":
        raise InputError(f"{name} has no function {Path(name).stem}(output, …); add it")
    given = {n: p.default for n, p in inspect.signature(function).parameters.items() if n != "output"}
    if bare := [n for n, default in given.items() if default is inspect.Parameter.empty]:
        raise InputError(f"{name}: the option {bare[0]} has no default; add one, which gives it its type")
    groups = {n: default for n, default in given.items() if dataclasses.is_dataclass(default)}
    defaults = {n: default for n, default in given.items() if n not in groups}
    for group in groups.values():
        defaults |= {f.name: getattr(group, f.name) for f in dataclasses.fields(group)}
    documented = [(function.__doc__ or ""), *(type(group).__doc__ or "" for group in groups.values())]
    rows = re.findall(r"^ +(\w+): (.+)$", "\n".join(documented), re.MULTILINE)
    meanings = {option: meaning for option, meaning in rows if option in defaults}
    return Experiment(name, module.__doc__ or "", function, defaults, meanings, groups)


def _loaded(path: str) -> ModuleType:
    """A file as a module, its folder not on the import path. Raises InputError with the line if its code fails."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file; name one that ends with .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{error.filename or path}, line {error.lineno}: {error.msg}; correct the file") from error
    except (Exception, SystemExit) as error:
        own = os.path.abspath(path)
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if os.path.abspath(f.filename) == own]
        where = f"{path}, line {frames[-1]}" if frames else path
        raise InputError(f"{where}: {type(error).__name__}: {error}; correct the file") from error
    return module


def shipped() -> list[tuple[str, str]]:
    """(name, first line of the function's docstring) of every experiment."""
    found = []
    for name, file in NAMES.items():
        tree = ast.parse(Path(__file__).with_name(f"{file}.py").read_text("utf-8"))
        (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
        found.append((name, (ast.get_docstring(function) or "").partition("\n")[0]))
    return found


def check_known(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Raises InputError for the first value of an option that is not known."""
    if unknown := [name for name in given if name not in known]:
        raise InputError(f"{option}={unknown[0]} is unknown; choose from {', '.join(known)}")


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
