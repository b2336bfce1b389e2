"""The parameters that fine-tuning selected on held-out queries: where they lie in a workdir, and which they are."""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json

DIRECTORY = "selected"  # in the workdir: selection.json and the parameters it names

RECORD = "selection.json"
ADVICE = "restore it, or train again in an empty workdir"


def best(directory: str) -> dict[str, Any]:
    """The record of a selection directory: step, measure, value, queries, model; empty where nothing was selected.

    Raises InputError for a record that was changed since `sealed` wrote it.
    """
    path = os.path.join(directory, RECORD)
    if not os.path.exists(path):
        return {}
    record = read_json(path, ADVICE)
    found = record.pop("sha256", None)
    # Records of older versions have no digest.
    if found not in (None, _digest(record)) or not isinstance(record.get("model"), str):
        raise InputError(f"{path} was changed since it was written; {ADVICE}")
    return record


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with its digest, as `best` checks it."""
    return {**record, "sha256": _digest(record)}


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
