"""What a training run records next to its checkpoints: its config, its metrics, its selected parameters, its command line."""

import json
import os
import shlex
from typing import Any

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_readable, check_sums, listed_sums, read_json

CONFIG = "config.json"
METRICS = "metrics.jsonl"
COMMAND = "command.txt"
SELECTED, RECORD = "selected", "selection.json"  # the record names a directory of parameters beside it


def read_config(workdir: str) -> ConfigDict:
    """The config that a training workdir was started with; InputError where there is none or it was changed since."""
    path = os.path.join(workdir, CONFIG)
    if not os.path.exists(path):
        raise InputError(f"{workdir} is no training workdir (it has no {CONFIG}); check the path")
    found = read_json(path, "restore it or start again in an empty workdir")
    check_sums(workdir, listed_sums(workdir))
    try:
        return ConfigDict(found)
    except (AttributeError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is no training config ({error}); restore it or take an empty workdir") from error


def read_metrics(workdir: str) -> list[dict[str, Any]]:
    """The metrics of a workdir in order, {"step", "split", name: value}; a last line that a kill truncated is left out.

    Raises InputError for any other line that is damaged.
    """
    path = os.path.join(workdir, METRICS)
    if not os.path.exists(path):
        return []
    check_readable(path)
    rows = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line.decode())
                if not isinstance(row["step"], int) or not isinstance(row["split"], str):
                    raise ValueError("no step and split")
                if not all(isinstance(value, int | float) for name, value in row.items() if name != "split"):
                    raise ValueError("a metric is no number")
                rows.append(row)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    break
                raise InputError(f"{path}, line {number}: damaged ({error}); remove or restore the line") from error
    return rows


def best(workdir: str) -> dict[str, Any]:
    """What the training selected on held-out queries: step, measure, value, queries, model (a directory); empty without it."""
    path = os.path.join(workdir, SELECTED, RECORD)
    if not os.path.exists(path):
        return {}
    record = read_json(path, "restore it, or train again in an empty workdir")
    if not {"step", "measure", "value", "queries", "model"} <= record.keys():
        raise InputError(f"{path} was changed since it was written; restore it, or train again in an empty workdir")
    return record | {"model": os.path.join(workdir, SELECTED, str(record["model"]))}


def read_command(workdir: str) -> list[str]:
    """The words of the command that finished the training; none for a run that did not finish as a command."""
    path = os.path.join(workdir, COMMAND)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="backslashreplace") as file:
        try:
            return shlex.split(file.read())
        except ValueError as error:
            raise InputError(f"{path} is damaged ({error}); restore or remove it") from error
