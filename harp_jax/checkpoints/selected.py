"""The parameters that fine-tuning selected on held-out queries: where they lie in a workdir, and which they are."""

import json
import os
from typing import Any

DIRECTORY = "selected"  # in the workdir: selection.json and the parameters it names

RECORD = "selection.json"


def best(directory: str) -> dict[str, Any]:
    """The record of a selection directory: step, measure, value, queries, model; empty where nothing was selected."""
    path = os.path.join(directory, RECORD)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)
