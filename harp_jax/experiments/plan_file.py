"""Plan files: Python files with `get_plan(option=default, …) -> list[Command]`, and their options.

The first docstring of the file describes the plan; that of `get_plan` has one line "option: what it means" for each option. An
option's type is that of its default: text, number, bool, or a tuple of these (values separated by commas). A parameter whose
default is a dataclass stands for its fields, options that several plans share; the docstring of the class explains them.
"""

import ast
import dataclasses
import inspect
import re
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command, reporting

Value = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | tuple[float, ...]
PLANS = Path(__file__).parent / "plans"
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no")


@dataclass(frozen=True)
class PlanFile:
    """A loaded plan file. `defaults` and `meanings` are by option."""

    path: str
    description: str
    get_plan: Callable[..., list[Command]]
    defaults: dict[str, Value]
    meanings: dict[str, str]
    groups: dict[str, Any] = field(
        default_factory=dict
    )  # parameter → its default, a dataclass whose fields are options

    def commands(self, settings: Sequence[str] = ()) -> list[Command]:
        """The commands with options from "name=value" texts. InputError for unknown names and values of another type."""
        values: dict[str, Any] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not equals or name not in self.defaults:
                raise InputError(f"--set {setting}: write NAME=VALUE with an option of the plan; {self._listed()}")
            try:
                values[name] = parsed(text, self.defaults[name])
            except ValueError as error:
                raise InputError(f"--set {setting}: {error}; {self._listed()}") from error
        for parameter, group in self.groups.items():
            own = {f.name: values.pop(f.name) for f in dataclasses.fields(group) if f.name in values}
            values[parameter] = dataclasses.replace(group, **own)
        with reporting(self.path):
            commands = self.get_plan(**values)
        if not isinstance(commands, list | tuple):
            raise InputError(f"{self.path}: get_plan() returned {repr(commands)[:60]}; return a list of Command")
        for command in commands:
            if not isinstance(command, Command) or not command.of_texts():
                raise InputError(
                    f"{self.path}: get_plan() returned {repr(command)[:60]}; return a list of Command, of texts"
                )
        return list(commands)

    def help(self) -> str:
        """The plan's description, and its options with their defaults."""
        width = max(map(len, self.defaults), default=0)
        options = [
            f"  {name:<{width}}  {self.meanings.get(name, '')} ({written(default)})".replace("  (", " (")
            for name, default in self.defaults.items()
        ]
        about = ["options of the plan, with --set NAME=VALUE:", *options] if options else ["The plan has no options."]
        return "\n".join([self.description.strip(), "", *about])

    def _listed(self) -> str:
        options = ", ".join(f"{name} ({written(default)})" for name, default in self.defaults.items())
        return f"options of {self.path}: {options}" if options else f"{self.path} has no options"


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
    """A plan by its path or its name in harp_jax/experiments/plans.

    Raises InputError where there is no such file, it has no get_plan(), or an option has no default.
    """
    path = plan_path(name)
    with reporting(path):
        contents = runpy.run_path(path)
    get_plan = contents.get("get_plan")
    if not callable(get_plan):
        raise InputError(f"{path} has no get_plan(); define one that returns a list of Command")
    parameters = inspect.signature(get_plan).parameters
    required = [option for option, parameter in parameters.items() if parameter.default is parameter.empty]
    if required:
        raise InputError(f"{path}: the option {required[0]!r} of get_plan() has no default; give it one")
    groups = {name: p.default for name, p in parameters.items() if dataclasses.is_dataclass(p.default)}
    defaults = {name: parameter.default for name, parameter in parameters.items() if name not in groups}
    documented = [get_plan.__doc__ or ""]
    for group in groups.values():
        defaults |= {f.name: getattr(group, f.name) for f in dataclasses.fields(group)}
        documented.append(type(group).__doc__ or "")
    rows = re.findall(r"^ +(\w+): (.+)$", "\n".join(documented), re.MULTILINE)
    return PlanFile(
        path=path,
        description=contents.get("__doc__") or "",
        get_plan=get_plan,
        defaults=defaults,
        meanings={option: meaning for option, meaning in rows if option in defaults},
        groups=groups,
    )


def plan_path(name: str) -> str:
    """The file of a plan; InputError where there is none."""
    path = name if Path(name).is_file() else str(PLANS / f"{name}.py")
    if not Path(path).is_file():
        shipped = ", ".join(plan for plan, _ in shipped_plans())
        raise InputError(f"no plan {name!r}; give a Python file with get_plan(), or one of {shipped}")
    return path


def shipped_plans() -> list[tuple[str, str]]:
    """(name, first line of the docstring) of the plans in harp_jax/experiments/plans."""
    files = sorted(path for path in PLANS.glob("*.py") if path.stem != "__init__")
    return [(path.stem, (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n")[0]) for path in files]
