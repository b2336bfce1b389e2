"""What a training run records next to its checkpoints: its config, its metrics, its selected parameters."""

import json
import os
from typing import Any

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_sums, json_fields, listed_sums, read_json, sha256_file, typed, within

CONFIG = "config.json"
METRICS = "metrics.jsonl"
SELECTED, RECORD = "selected", "selection.json"  # the record names the directory of parameters next to it


def is_workdir(path: str) -> bool:
    """Whether a directory is a training workdir with checkpoints."""
    return os.path.isdir(os.path.join(path, "checkpoints"))


def config_digest(workdir: str) -> str:
    """The sha256 of the config that a workdir was started with; "" without one."""
    path = os.path.join(workdir, CONFIG)
    return sha256_file(path) if os.path.exists(path) else ""


def recorded_config(workdir: str) -> ConfigDict:
    """The config that a training workdir was started with. Raises InputError if the file was changed."""
    fields = read_json(os.path.join(workdir, CONFIG), "restore it or start again in an empty workdir")
    check_sums(workdir, listed_sums(workdir))
    return ConfigDict(fields)


def read_metrics(workdir: str) -> list[dict[str, Any]]:
    """The metrics of a workdir in order, {"step", "split", name: value}; a last line that a kill truncated is left out. Raises
    InputError for any other line that is damaged."""
    path = os.path.join(workdir, METRICS)
    if not os.path.exists(path):
        return []
    rows = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line.decode())
                if not {"step", "split"} <= row.keys():
                    raise ValueError("no step and split")
                rows.append(row)
            except (ValueError, AttributeError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    break
                raise InputError(f"{path}, line {number}: damaged ({error}); remove or restore the line") from error
    return rows


def best(workdir: str) -> dict[str, Any]:
    """The training's selection on held-out queries: step, measure, value, queries, model (a directory); empty if there is none.
    Raises InputError for the record of another run, and if the directory is missing."""
    path = os.path.join(workdir, SELECTED, RECORD)
    if not os.path.exists(path):
        return {}
    advice = "restore it, or train again in an empty workdir"
    record = read_json(path, advice)
    if record.get("config_sha256") != config_digest(workdir):
        raise InputError(f"{path} belongs to another run; {advice}")
    with json_fields(path, advice):
        for name, kind in (("step", int), ("measure", str), ("value", float), ("queries", int), ("model", str)):
            typed(record[name], kind, name)
    model = within(os.path.join(workdir, SELECTED), record["model"], path)
    if not os.path.isdir(model):
        raise InputError(f"{path} names {model}, which does not exist; {advice}")
    return record | {"model": model}
