"""The layout: rooms (packages) import only rooms above them in one order, and no private names."""

import ast
from collections.abc import Iterator
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
CALLERS = ("site", "experiments", "api")  # rooms and files of harp_jax that call the generation job, inside functions
# Rooms of harp_jax that the generation job may import: files on disk, text, encoder and parameters, rankers (hard negatives).
SHARED = ("base", "corpus", "text", "model", "input", "checkpoints", "ranking")


def room_of(package: str, name: str) -> str | None:
    """The room of a dotted module, "" for a ground file, None for top-level files (main, export, …)."""
    _, _, inner = name.partition(".")
    room = inner.partition(".")[0]
    return room if room in ROOMS[package] else "" if inner in GROUND[package] else None


def imports(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, module, imported name) of every import of the project's own packages, lazy ones too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            module = getattr(node, "module", None)
            whole = f"{module}.{alias.name}" if module else alias.name
            if whole.split(".")[0] in ROOMS:
                file = ROOT / whole.replace(".", "/")
                is_module = file.is_dir() or file.with_suffix(".py").exists()
                yield (node.lineno, whole, "") if is_module else (node.lineno, module, alias.name)


def is_below(package: str, here: str, there: str) -> bool:
    """Whether `there` is below `here`; a ground file ("") may import only `base`."""
    order = ROOMS[package]
    return there not in ("", "base") and (here == "" or order.index(there) > order.index(here))


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_only_what_stands_above_them(package: str) -> None:
    """No private names of other files; of harp_jax only CALLERS import the generation job, which imports SHARED rooms only."""
    wrong = []
    for path in (ROOT / package).rglob("*.py"):
        name = path.relative_to(ROOT).with_suffix("")
        here = room_of(package, ".".join(name.parts).removesuffix(".__init__"))
        for line, module, imported in imports(path):
            origin = module.split(".")[0]
            there = room_of(origin, module) if module != origin else ""
            what = f"{name}:{line} imports {module}"
            if imported.startswith("_") and not imported.startswith("__"):
                wrong.append(f"{what}.{imported}, which is private")
            if origin != package:
                if name.parts[1] not in CALLERS if package == "harp_jax" else there not in ("", *SHARED):
                    wrong.append(f"{what}, which is no shared room")
            elif here is not None and there is None:
                wrong.append(f"{what} from the top")
            elif here is not None and is_below(package, here, there):
                wrong.append(f"{what}, a room below")
    assert not wrong, "\n".join(wrong)
