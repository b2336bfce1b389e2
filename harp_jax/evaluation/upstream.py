"""What made a run: its record (`base/made.py`), and the records of everything that it was made from."""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.made import Made, digest
from harp_jax.checkpoints.recorded import read_metrics

RERANKED = "rerank_files"  # the function whose result counts truncated documents


@dataclass(frozen=True)
class Step:
    """A finished function of the pipeline. `sources`: names of its inputs; `tokens`: trained on, 0 if it did not train."""

    name: str
    function: str
    sources: list[str]
    seconds: float
    tokens: float = 0.0


def upstream(paths: Iterable[str]) -> dict[str, Made]:
    """Output → its record, for the paths and all that they were made from; sources first. What has no record is left out."""
    found: dict[str, Made] = {}

    def visit(path: str) -> None:
        if path in found or not path or (made := Made.read(path)) is None:
            return
        found[path] = made  # before its inputs: a damaged record may name itself
        for each in made.inputs.values():
            visit(each.path)
        found[path] = found.pop(path)

    for path in paths:
        visit(os.path.abspath(path))
    return found


def cost(records: Mapping[str, Made]) -> list[Step]:
    """The steps, in the order of the records."""
    steps = []
    for place, made in records.items():
        sources = [os.path.basename(each.path) for each in made.inputs.values() if each.path]
        rows: list[dict[str, Any]] = []
        with contextlib.suppress(InputError):
            rows = read_metrics(place)
        tokens = float(sum(row.get("tokens", 0.0) for row in rows if row["split"] == "train"))
        steps.append(Step(os.path.basename(place), made.function, sources, made.seconds, tokens))
    return steps


def holding(file: str, records: Mapping[str, Made]) -> dict[str, str]:
    """Name → folder of each record's output with this file: a generation job's manifest, or a training's metrics."""
    return {os.path.basename(place): place for place in records if os.path.exists(os.path.join(place, file))}


def texts_of(run: str) -> tuple[str, tuple[str, ...], str]:
    """(documents, their fields, queries) that a ranking was made from, or the last ranking in a fused run; "" if unknown."""
    for made in reversed(upstream([run]).values()):
        named = {name.rpartition(".")[2]: each.path for name, each in made.inputs.items()}
        if os.path.exists(named.get("docs", "")):
            fields = tuple(str(value) for name, value in made.options.items() if ".fields." in f".{name}")
            return named["docs"], fields, named.get("queries", "")
    return "", (), ""


def truncated_remark(paths: Mapping[str, Sequence[str]]) -> list[str]:
    """A sentence on the systems (name → its runs) whose re-ranking truncated documents; [] for none. Ignores records of runs that
    were rewritten later, and does not look up the runs behind a fused one."""
    said = []
    for name, runs in paths.items():
        records = [(run, made) for run in runs if (made := Made.read(run)) and made.function == RERANKED]
        own = [made.result for run, made in records if digest(run, made.output).sha256 == made.output.sha256]
        documents, pairs = (sum(result[key] for result in own) for key in ("truncated", "pairs"))
        if documents:
            said.append(f"{name} in {documents} of {pairs} pairs")
    return [f"only the beginning of the document was read: {', '.join(said)}; --windows reads more"] if said else []
