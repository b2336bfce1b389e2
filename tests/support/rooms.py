"""The rooms of the house, read from the code's imports. As a command it prints the picture:

python -m tests.support.rooms
"""

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


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def picture(package: str) -> list[str]:
    """A line for each folder: its lines, files, longest file, and the rooms that it imports."""
    out = [f"{'room':<34}{'lines':>6}{'files':>6}{'longest':>8}  imports"]
    folders = sorted({path.parent for path in files(package)}, key=lambda folder: _place(package, folder))
    for folder in folders:
        own = sorted(folder.glob("*.py"))
        here = room_of(package, module_of(folder / "__init__.py"))
        found = {m for path in own for _, m, _ in imports(path)}
        rooms = [
            room for room in ROOMS[package] if any(m.startswith(f"{package}.{room}") for m in found) and room != here
        ]
        rooms += sorted(
            {
                f"harp_jax/{m.split('.')[1]}"
                for m in found
                if package != "harp_jax"
                and m.split(".")[1:]
                and m.split(".")[0] == "harp_jax"
                and m.split(".")[1] in ROOMS["harp_jax"]
            }
        )
        total = sum(map(lines, own))
        out.append(
            f"{folder.relative_to(ROOT)!s:<34}{total:>6}{len(own):>6}{max(map(lines, own)):>8}  {' '.join(rooms)}"
        )
    return out


def _place(package: str, folder: Path) -> tuple[int, str]:
    parts = folder.relative_to(ROOT / package).parts
    return (ROOMS[package].index(parts[0]) if parts else len(ROOMS[package]), str(folder))


if __name__ == "__main__":
    for name in ROOMS:
        print("\n".join(picture(name)), end="\n\n")
