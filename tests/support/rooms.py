"""The rooms of the house, read from the code's imports."""

import ast
from functools import cache
from pathlib import Path

from tests.support import ROOT

# In the order of their arrows: a room may import `base`, the config and every room above it.
ROOMS = {
    "harp_jax": (
        "base", "corpus", "text", "model", "objectives", "input", "checkpoints", "evaluation", "baselines.neural_ir", "ranking",
        "training", "baselines.linklearn", "experiments", "look", "commands", "baselines",
    ),
    "data_pipeline": (
        "engine", "text", "sources", "links", "weights", "tasks", "config", "output", "commands",
    ),
}  # fmt: skip
GROUND = {"harp_jax": ("config",), "data_pipeline": ()}
# What the generation job may take from harp_jax: files on disk, text, the encoder and its parameters, rankers (hard negatives).
SHARED = ("base", "corpus", "text", "model", "input", "checkpoints", "ranking")


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def room_of(package: str, name: str) -> str | None:
    """The room of a dotted module, "" for a ground file, None for the files on top (main, export, …)."""
    inner = name.partition(".")[2]
    found = [room for room in ROOMS[package] if f"{inner}.".startswith(f"{room}.")]
    return max(found, key=len) if found else "" if inner in GROUND[package] else None


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(path: Path) -> list[tuple[int, str, str]]:
    """(line, module, imported name) of every import of the project's own packages, lazy ones too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ROOMS:
            for alias in node.names:
                inner = node.module + "." + alias.name
                is_module = (ROOT / inner.replace(".", "/")).is_dir() or (
                    ROOT / f"{inner.replace('.', '/')}.py"
                ).exists()
                found.append((node.lineno, inner if is_module else node.module, "" if is_module else alias.name))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ROOMS:
                    found.append((node.lineno, alias.name, ""))
    return found
