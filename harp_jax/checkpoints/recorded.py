"""What a training run records next to its checkpoints: its config, its metrics, its command line."""

import json
import os
from typing import Any

from ml_collections import ConfigDict

from harp_jax.errors import InputError

METRICS = "metrics.jsonl"
COMMAND = "command.txt"


def read_config(workdir: str) -> ConfigDict:
    """The config that a training workdir was started with; InputError where there is none."""
    path = os.path.join(workdir, "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            return ConfigDict(json.load(file))
    except FileNotFoundError as error:
        raise InputError(f"{workdir} is no training workdir (it has no config.json); check the path") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}; restore it or start again in an empty workdir") from error


def read_metrics(workdir: str) -> list[dict[str, Any]]:
    """The metrics of a workdir in order, {"step", "split", name: value}; lines that a kill truncated are left out."""
    path = os.path.join(workdir, METRICS)
    if not os.path.exists(path):
        return []
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
    return rows


def read_command(workdir: str) -> list[str]:
    """The lines of the command that finished the training; none for a run that did not finish as a command."""
    path = os.path.join(workdir, COMMAND)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()
