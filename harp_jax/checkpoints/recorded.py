"""What a training run records next to its checkpoints: its config, its metrics, its command line."""

import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from harp_jax.base.digests import check_sums
from harp_jax.base.errors import InputError
from harp_jax.base.files import check_readable, read_json

CONFIG = "config.json"
METRICS = "metrics.jsonl"
COMMAND = "command.txt"
CRC, FIRST = "crc32", "-"  # the last field of each line of the metrics; what stands for the line before the first


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
        raise InputError(f"{path} is no training config ({error}); restore it or take an empty workdir") from error


def metrics_line(row: Mapping[str, Any], before: str) -> str:
    """A line of metrics.jsonl with a checksum over it and the line `before`: shows what was changed, removed or moved since."""
    return json.dumps({**row, CRC: crc_of(before + json.dumps(row))}) + "\n"


def crc_of(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def read_metrics(workdir: str) -> list[dict[str, Any]]:
    """The metrics of a workdir in order, {"step", "split", name: value}; a last line that a kill truncated is left out.

    Raises InputError for any other line that is damaged or was changed since.
    """
    path = os.path.join(workdir, METRICS)
    if not os.path.exists(path):
        return []
    check_readable(path)
    rows, before = [], FIRST
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line.decode())
                crc = row.pop(CRC, "")
                if not isinstance(row["step"], int) or not isinstance(row["split"], str):
                    raise ValueError("no step and split")
                if not all(isinstance(value, int | float) for name, value in row.items() if name != "split"):
                    raise ValueError("a metric is no number")
                # Older versions have a checksum of the line alone, or none.
                if crc not in (crc_of(before + json.dumps(row)), crc_of(json.dumps(row)), ""):
                    raise ValueError(f"by its {CRC} a figure in it, or the line before it, is not what was written")
                rows.append(row)
                before = line.decode()
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
