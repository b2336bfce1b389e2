"""The layout: rooms (packages) import only rooms above them in one order, no private names, and each is documented."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support import ROOT

# In order of dependency: a room may import `base`, the config and every room before it.
ROOMS = {
    "harp_jax": (
        "base", "corpus", "text", "model", "objectives", "input", "checkpoints", "evaluation", "ranking", "training", "site",
        "baselines",  # the other papers: nothing of the core imports them
        "experiments", "serving", "commands",
    ),
    "data_pipeline": (
        "engine", "text", "sources", "sample", "links", "weights", "tasks", "config", "output", "commands",
    ),
}  # fmt: skip
GROUND = {"harp_jax": ("config",), "data_pipeline": ()}
CALLERS = ("experiments",)  # rooms of harp_jax that call the generation job, inside functions
# Rooms of harp_jax that the generation job may import: files on disk, text, encoder and parameters, rankers (hard negatives).
SHARED = ("base", "corpus", "text", "model", "input", "checkpoints", "ranking")


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def room_of(package: str, name: str) -> str | None:
    """The room of a dotted module, "" for a ground file, None for top-level files (main, export, …)."""
    inner = name.partition(".")[2]
    rooms = [room for room in ROOMS[package] if f"{inner}.".startswith(f"{room}.")]
    return max(rooms, key=len) if rooms else "" if inner in GROUND[package] else None


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(path: Path) -> list[tuple[int, str, str]]:
    """(line, module, imported name) of every import of the project's own packages, lazy ones too."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            module = getattr(node, "module", None)
            whole = f"{module}.{alias.name}" if module else alias.name
            if whole.split(".")[0] in ROOMS:
                file = ROOT / whole.replace(".", "/")
                is_module = file.is_dir() or file.with_suffix(".py").exists()
                names.append((node.lineno, whole, "") if is_module else (node.lineno, module, alias.name))
    return names


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_only_what_stands_above_them(package: str) -> None:
    """No private names of other files; harp_jax never imports the generation job, which imports only SHARED rooms of it."""
    wrong = []
    for path in files(package):
        here = room_of(package, module_of(path))
        for line, module, name in imports(path):
            origin = module.split(".")[0]
            there = room_of(origin, module) if module != origin else ""
            place = f"{path.relative_to(ROOT)}:{line} imports {module}"
            if name.startswith("_") and not name.startswith("__"):
                wrong.append(f"{place}.{name}, which is private")
            if origin != package:
                if here not in CALLERS if package == "harp_jax" else there not in ("", *SHARED):
                    wrong.append(f"{place}, which is no shared room")
            elif here is not None and there is None:
                wrong.append(f"{place} from the top")
            elif here is not None and is_below(package, here, there):
                wrong.append(f"{place}, a room below")
    assert not wrong, "\n".join(wrong)


def is_below(package: str, here: str, there: str) -> bool:
    """Whether `there` is below `here`; a ground file ("") may import only `base`."""
    order = ROOMS[package]
    return there not in ("", "base") and (here == "" or order.index(there) > order.index(here))


@pytest.mark.parametrize("package", ROOMS)
def test_files_form_no_circle(package: str) -> None:
    own = {module_of(path): path for path in files(package)}
    graph = {
        here: {there for _, there, _ in imports(path) if there in own and there != here} for here, path in own.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("package", ROOMS)
def test_every_room_says_what_it_is(package: str) -> None:
    """Its `__init__` is a docstring with input, output, imports, and every file and subroom, or names the table that lists them."""
    wrong = []
    for start in sorted((ROOT / package).glob("*/**/__init__.py")):
        room, said = start.parent, start.read_text(encoding="utf-8")
        names = {path.stem for path in room.glob("*.py")} - {"__init__"}
        names |= {f"{path.parent.name}/" for path in room.glob("*/__init__.py")}
        wrong += [f"{room}: code in __init__"] if len(ast.parse(said).body) != 1 else []
        wrong += [f"{room}: no {word!r}" for word in ("In:", "Out:", "Imports:", "Files:") if word not in said]
        listed = said.partition("Files:")[2]
        listed += (room / "table.py").read_text(encoding="utf-8") if (room / "table.py").exists() else ""
        wrong += [f"{room}: does not name {name}" for name in sorted(names) if name not in listed]
    assert not wrong, "\n".join(wrong)
