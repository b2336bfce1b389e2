"""What a plan will cost: steps to do by kind, updates and tokens of trainings, and the time that finished steps took.

Time is never guessed: steps of a kind of which none has run in the output directory are listed as unknown.
"""

import glob
import math
import os
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json
from harp_jax.config import read_config
from harp_jax.experiments.plan import Step


@dataclass
class Kind:
    """Steps that cost about the same: one command with one config."""

    done: int = 0
    to_do: int = 0
    updates: int = 0  # of the trainings to do that count updates
    tokens: float = 0.0  # real tokens of them, where batches have a given number
    flops: float = 0.0  # of them
    epochs: float = 0.0  # of the trainings to do that count epochs
    seconds: list[float] = field(default_factory=list)  # of finished steps

    @property
    def expected(self) -> float:
        """Seconds of what is to do, from the mean of what is done; NaN if nothing is."""
        return self.to_do * sum(self.seconds) / len(self.seconds) if self.seconds else float("nan")


def kind_of(words: Sequence[str]) -> str:
    """The kind of a command line: "train configs/finetune.py", "rerank"."""
    config = next((word for word in words if word.startswith("--config=")), "")
    return " ".join([*words[:1], *([config.removeprefix("--config=")] if config else [])])


def kinds(steps: Sequence[Step], output: str) -> dict[str, Kind]:
    """Kind → its steps; times from the records of all steps that ever finished in `output`."""
    found: dict[str, Kind] = defaultdict(Kind)
    for step in steps:
        kind = found[kind_of([step.command.command, *step.command.arguments])]
        if step.done:
            kind.done += 1
            continue
        kind.to_do += 1
        if step.command.command == "train":
            _add_training(kind, step)
    for path in sorted(glob.glob(os.path.join(glob.escape(output), ".plan", "*.json"))):
        try:
            record = read_json(path)
            words, seconds = shlex.split(str(record["command"])), float(record["seconds"])
        except (InputError, KeyError, TypeError, ValueError):
            continue  # damaged: the step runs again
        name = kind_of(words[words.index("harp_jax") + 1 :] if "harp_jax" in words else words)
        if name in found and math.isfinite(seconds):
            found[name].seconds.append(seconds)
    return dict(found)


def _add_training(kind: Kind, step: Step) -> None:
    """Adds the updates, tokens and FLOPs of a training, as far as its config says them."""
    words = step.argv[step.argv.index("train") + 1 :] if "train" in step.argv else []
    path = next((word.removeprefix("--config=") for word in words if word.startswith("--config=")), None)
    try:
        config = read_config(path, [word for word in words if word.startswith("--config.")])
    except InputError:
        return  # the step itself will report it
    if config is None or "steps" not in config or "model" not in config:
        return
    if not config.steps:
        kind.epochs += config.get("epochs", 0.0)
        return
    kind.updates += config.steps
    tokens = config.steps * float(config.get("batch_tokens", 0))
    kind.tokens += tokens
    if "layers" in config.model:
        layers, hidden = _size(config)
        kind.flops += 6 * tokens * 12 * layers * hidden**2  # forward and backward of the layers' matrices


def _size(config: Any) -> tuple[int, int]:
    """(layers, hidden) of a config, or of the directory it starts from where that exists already."""
    path = os.path.join(config.init or "", "config.json")
    shape: Mapping[str, Any] = {}
    if config.init and os.path.isfile(path):
        shape = read_json(path)
    return shape.get("num_hidden_layers", config.model.layers), shape.get("hidden_size", config.model.hidden)


def summary(steps: Sequence[Step], output: str, jobs: int = 1) -> str:
    """The cost as text, one line a kind of step."""
    found = kinds(steps, output)
    lines = [f"cost: {sum(k.to_do for k in found.values())} steps to do, {sum(k.done for k in found.values())} done"]
    known, unknown = 0.0, 0
    for name, kind in found.items():
        if not kind.to_do:
            continue
        parts = [f"{kind.to_do} to do"]
        if kind.updates:
            parts.append(f"{kind.updates:,} updates")
        if kind.tokens:
            parts.append(f"{kind.tokens / 1e6:,.4g} million tokens")
        if kind.flops:
            parts.append(f"{kind.flops:.2g} FLOPs")
        if kind.epochs:
            parts.append(f"{kind.epochs:g} epochs")
        if kind.seconds:
            known += kind.expected
            parts.append(f"{duration(kind.expected)} (the mean of {len(kind.seconds)} done)")
        else:
            unknown += kind.to_do
            parts.append("time unknown: none is done")
        lines.append(f"  {name}: " + ", ".join(parts))
    if known or unknown:
        rest = f", and {unknown} steps of unknown time" if unknown else ""
        lines.append(
            f"  together {duration(known)}{rest}, one after the other" + ("" if jobs == 1 else f"; --jobs={jobs}")
        )
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Seconds in words: "40 s", "12 min", "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
