"""Finds an experiment and reads its options: what `harp plan` needs to call it.

An experiment is a function of a Python file: here (NAMES), or of the same name in a file of your own, such as `demo` in demo.py.

    def demo(output: str, pages: int = 400, seeds: tuple[int, ...] = (0,)) -> None: …

`output` is the folder to write to; every other parameter is an option, whose type is that of its default: text, number, bool, or a
tuple of these (values separated by commas). A parameter whose default is a dataclass adds its fields as options. The first
docstring of the file describes the experiment; those of the function and of its dataclasses have one line "option: what it means"
per option. In a file of your own, `base.steps.Steps` runs functions of installed packages; call those of the file itself directly.
"""

import dataclasses
import glob
import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import as_stored
from harp_jax.config import load_file
from harp_jax.corpus.paths import is_irds, named_paths

Value = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | tuple[float, ...]
# Experiment → the file of its function, and a summary.
NAMES = {
    "demo": ("demo", "hyperlinks make a ranker: the pipeline end to end on an invented wiki, in eight minutes on two cores"),
    "table1": ("msmarco", "HARP's Table 1: pairs, tokens and lengths of its four tasks beside the paper's"),
    "table2": ("msmarco", "HARP's Table 2: all systems on MS MARCO dev and TREC DL 2019"),
    "table3": ("msmarco", "HARP's Table 3: HARP alone, and its ensemble with other encoders, on MS MARCO dev"),
    "table4": ("msmarco", "HARP's Table 4: each pre-training loss left out once, on MS MARCO dev"),
    "figure4": ("figure4", "HARP's Figure 4: few training queries, and large numbers of them"),
    "msmarco": ("msmarco", "from MS MARCO's published files to dev, TREC DL 2019 and 2020"),
    "tables": ("tables", "systems on your collection: what HARP's Tables 2 to 4 are made of, in five folds or on test sets"),
    "recipe": ("recipe", "what links alone teach: a re-ranker after each recipe of pre-training, without a labelled query"),
    "vectors": ("vectors", "what links add to an encoder's vectors: a linear map, all weights, or both, without a labelled query"),
    "linklearn": ("linklearn", "LinkLearn trained on Wikipedia's links, applied to Cranfield, compared with Okapi, BM25 and QL"),
    "coarse_tuning": ("coarse_tuning", "the six systems of the coarse-tuning paper on a collection, its grids, its query probe"),
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
        values = parsed_settings(settings, self.defaults, f"--set, {self.name}")
        for parameter, group in self.groups.items():
            own = {f.name: values.pop(f.name) for f in dataclasses.fields(group) if f.name in values}
            values[parameter] = dataclasses.replace(group, **own)
        return values

    def help(self) -> str:
        """The description, and the options with their defaults."""
        width = max(map(len, self.defaults), default=0)
        options = [f"  {n:<{width}}  {self.meanings.get(n, '')} ({written(d)})" for n, d in self.defaults.items()]
        return "\n".join([self.description.strip(), "", "options, with --set NAME=VALUE:", *(options or ["  none"])])


def find(name: str) -> Experiment:
    """An experiment by its name, or by the path of a Python file. Raises InputError if there is none."""
    if name in NAMES:
        module: ModuleType = importlib.import_module(f"harp_jax.experiments.{NAMES[name][0]}")
    elif os.path.isfile(name):
        module = load_file(os.path.abspath(name))
    else:
        raise InputError(f"no experiment {name!r}; name a Python file, or one of {', '.join(NAMES)}")
    function: Any = getattr(module, Path(name).stem, None)
    options = {n: p.default for n, p in inspect.signature(function).parameters.items()} if callable(function) else {}
    if next(iter(options), "") != "output":
        raise InputError(f"{name} has no function {Path(name).stem}(output, …); add it")

    # The options: the parameters, and the fields of those that are dataclasses; what the docstrings say of them.
    del options["output"]
    if bare := [n for n, default in options.items() if default is inspect.Parameter.empty]:
        raise InputError(f"{name}: the option {bare[0]} has no default; add one, which gives it its type")
    groups = {n: default for n, default in options.items() if dataclasses.is_dataclass(default)}
    defaults = {n: default for n, default in options.items() if n not in groups}
    for group in groups.values():
        defaults |= vars(group)
    documented = [getattr(function, "func", function), *map(type, groups.values())]  # func: of a functools.partial
    text = "\n".join(each.__doc__ or "" for each in documented)
    meanings = {n: meaning for n, meaning in re.findall(r"^ *(\w+): (.+)$", text, re.MULTILINE) if n in defaults}
    return Experiment(name, module.__doc__ or "", function, defaults, meanings, groups)


def check_known(option: str, values: Sequence[str], known: Sequence[str]) -> None:
    """Raises InputError for the first value of an option that is not known."""
    if unknown := [name for name in values if name not in known]:
        raise InputError(f"{option}={unknown[0]} is unknown; choose from {', '.join(known)}")


def need_files(*paths: str) -> None:
    """Raises InputError with all paths and patterns for which there is no file, compressed or not."""
    wanted = dict.fromkeys(path for path in paths if path and not is_irds(path))
    if missing := [p for p in wanted if not (os.path.exists(as_stored(p)) or glob.glob(p, recursive=True))]:
        raise InputError(
            f"missing: {', '.join(missing)}; nothing was started. Put them there, or name yours with --set"
        )


def labelled(texts: Sequence[str]) -> dict[str, str]:
    """Label → path, from NAME=PATH or PATH. Folders have the labels' names, in lower case."""
    return named_paths(texts, "--set", lambda path: os.path.basename(path).split(".")[0], same=str.lower)


def parsed_settings(settings: Sequence[str], defaults: Mapping[str, Value], where: str) -> dict[str, Any]:
    """Values from "name=value" texts, of the defaults' types. InputError, which begins with `where`, for another name or type."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        try:
            if not equals or name not in defaults:
                raise ValueError("no such option" if equals else "write NAME=VALUE")
            values[name] = parsed(text, defaults[name])
        except ValueError as error:
            options = ", ".join(f"{name} ({written(default)})" for name, default in defaults.items())
            raise InputError(f"{where}: {setting}: {error}; the options are {options or 'none'}") from error
    return values


def parsed(text: str, default: Value) -> Any:
    """A text as a value of the default's type. ValueError for another type."""
    if isinstance(default, tuple):
        # Commas in parentheses belong to a value, as in fields=('title','body').
        parts = re.split(r",(?![^(]*\))", text) if text else []
        return tuple(parsed(part.strip(), default[0] if default else "") for part in parts)
    if isinstance(default, bool) and text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true" if isinstance(default, bool) else type(default)(text)


def written(default: Value) -> str:
    """A default in the form of --set, "none" if it is empty."""
    return (",".join(map(str, default)) if isinstance(default, tuple) else str(default)) or "none"
