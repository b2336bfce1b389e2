"""What a training run records next to its checkpoints: its config, its metrics, its command line."""

import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from harp_jax.digests import check_sums
from harp_jax.errors import InputError
from harp_jax.files import check_readable, read_json

CONFIG = "config.json"
METRICS = "metrics.jsonl"
COMMAND = "command.txt"
CRC = "crc32"  # last on each line of the metrics, over the line without it


def read_config(workdir: str) -> ConfigDict:
    """The config that a training workdir was started with; InputError where there is none or it was changed since."""
    path = os.path.join(workdir, CONFIG)
    if not os.path.exists(path):
        raise InputError(f"{workdir} is no training workdir (it has no {CONFIG}); check the path")
    found = read_json(path, "restore it or start again in an empty workdir")
    check_sums(workdir, [CONFIG])
    try:
        found.get("bert", {}).pop("wide_products", None)  # a field of older versions; it was never set in training
        return ConfigDict(found)
    except (AttributeError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} is no training config ({error}); restore it or start again in an empty workdir"
        ) from error


def metrics_line(row: Mapping[str, Any]) -> str:
    """A line of metrics.jsonl with its checksum: a figure that changed later does not pass for one that was measured."""
    return json.dumps({**row, CRC: crc_of(row)}) + "\n"


def crc_of(row: Mapping[str, Any]) -> str:
    """The checksum of a line's values and their order."""
    return f"{zlib.crc32(json.dumps(row).encode()):08x}"


def read_metrics(workdir: str) -> list[dict[str, Any]]:
    """The metrics of a workdir in order, {"step", "split", name: value}; a last line that a kill truncated is left out.

    Raises InputError for any other line that is damaged or was changed since.
    """
    path = os.path.join(workdir, METRICS)
    if not os.path.exists(path):
        return []
    rows = []
    check_readable(path)
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line.decode())
                crc = row.pop(CRC, "")  # absent from lines of older versions
                if not isinstance(row["step"], int) or not isinstance(row["split"], str):
                    raise ValueError("no step and split")
                if not all(isinstance(value, int | float) for name, value in row.items() if name != "split"):
                    raise ValueError("a metric is no number")
                if crc != "" and crc != crc_of(row):
                    raise ValueError(f"a figure changed since: the line is not that of its {CRC}")
                rows.append(row)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    break
                raise InputError(f"{path}, line {number}: damaged ({error}); remove or restore the line") from error
    return rows


def read_command(workdir: str) -> list[str]:
    """The lines of the command that finished the training; none for a run that did not finish as a command."""
    path = os.path.join(workdir, COMMAND)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="backslashreplace") as file:
        return file.read().splitlines()
