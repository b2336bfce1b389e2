"""The values that the fields of a training config may have, checked once before anything is read or written.

A value outside of them is a mistake whose run would end in a traceback, never, or with useless parameters.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from harp_jax.errors import InputError

Ranges = Mapping[str, tuple[float, float]]
MANY = float(1 << 40)
COUNT = (1, 1 << 24)
WEIGHT = (0, 1e6)
SHARE = (0, 1)
TRAINING: Ranges = {
    "model.layers": (1, 1000), "model.hidden": (1, 1 << 16), "model.heads": (1, 1024), "model.intermediate": (0, 1 << 20),
    "model.max_positions": (8, 1 << 20), "model.dropout": (0, 0.99), "model.attention_dropout": (0, 0.99),
    "model.bins": (2, 10_000), "model.dimension": (1, 1 << 16), "model.filters": (1, 1 << 16), "model.graphs": (1, 1 << 24),
    "model.kernels": (2, 1000), "model.ngrams": (1, 10), "model.pool": COUNT, "model.query_length": (1, 1 << 16),
    "row_length": (8, 1 << 20), "rows": (0, 1 << 24), "accumulate": (1, 1 << 16), "lanes": (1, 1 << 12), "window": COUNT,
    "batch_pairs": COUNT, "batch_tokens": (0, 1 << 30), "steps": (0, MANY), "epochs": (0, 1e6),
    "learning_rate": SHARE, "warmup": SHARE, "beta1": (0, 1 - 1e-9), "beta2": (0, 1 - 1e-9), "weight_decay": SHARE,
    "clip_norm": WEIGHT, "mesh.data": (-1, 1 << 20), "mesh.fsdp": (1, 1 << 20), "mesh.model": (1, 1 << 20),
    "seed": (0, (1 << 63) - 2), "log_every": (1, MANY), "probe_every": (0, MANY), "checkpoint_every": (1, MANY),
    "keep_checkpoints": (1, 10_000), "eval_every": (0, MANY), "eval_batches": COUNT, "spike": WEIGHT, "max_skipped": (0, MANY),
    "pair_weight": WEIGHT, "mlm_weight": WEIGHT, "qdpp_weight": WEIGHT, "mqp_weight": WEIGHT, "margin": WEIGHT,
    "mlm_rate": (1e-3, 1), "mlm_head_steps": (0, MANY), "mlm_head_rate": SHARE,
    "negatives": (1, 10_000), "select_fraction": SHARE, "select_queries": COUNT, "select_depth": COUNT,
    "sample": SHARE, "replaced": SHARE,
}  # fmt: skip
CHOICES: Mapping[str, tuple[str, ...]] = {
    "dtype": ("auto", "float32", "bfloat16", "float16"),
    "prng": ("threefry", "rbg"),
    "schedule": ("linear", "cosine", "constant"),
    "task_sampling": ("uniform", "proportional"),
    "model.attention": ("auto", "xla", "cudnn", "splash"),
    "model.remat": ("none", "dots", "layer"),
}


def fields(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """("model.heads", 12) and so on: every field of a config that is no config itself."""
    for name, value in config.items():
        if isinstance(value, Mapping) or hasattr(value, "items"):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def check_numbers(config: Mapping[str, Any], ranges: Ranges) -> None:
    """Raises InputError for a number outside of its range, infinite, or NaN."""
    for name, value in fields(config):
        low, high = ranges.get(name, (-math.inf, math.inf))
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and not (low <= value <= high and value - value == 0)
        ):
            raise InputError(f"--config.{name}={value!r} is out of range; use {low:g} to {high:g}")


def check_training(config: Mapping[str, Any]) -> None:
    """Raises InputError for a config of another command, and for values that no training can use."""
    if "stage" not in config:
        raise InputError(
            "this config has no `stage`: it is no training config; use one of configs/, and one of configs/data/ with harp generate"
        )
    ranges = {
        **TRAINING,
        **{name: WEIGHT for name, _ in fields(config) if name.startswith("task_weights.")},
        "steps": (1 if config["stage"] == "pretrain" else 0, MANY),
    }
    check_numbers(config, ranges)
    found = dict(fields(config))
    for name, choices in CHOICES.items():
        if name in found and found[name] not in choices:
            raise InputError(f"--config.{name}={found[name]!r} is unknown; choose from {', '.join(choices)}")
    if found["mesh.data"] == 0:
        raise InputError("--config.mesh.data=0: use a number of devices, or -1 for all that remain")
    if not found.get("steps", 1) and not found.get("epochs", 1) > 0:
        raise InputError("--config.steps=0 and --config.epochs=0; give a number of steps, or of epochs")
    if not found.get("init", "") and found.get("model.hidden", 1) % found.get("model.heads", 1):
        raise InputError(
            f"--config.model.hidden={found['model.hidden']} is no multiple of model.heads={found['model.heads']}; change either"
        )
