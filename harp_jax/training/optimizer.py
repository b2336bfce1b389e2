"""Adam with linear warmup and decay, as BERT and HARP train."""

import optax
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError


def schedule(config: ConfigDict, steps: int) -> optax.Schedule:
    """Learning rate by step: linear warmup over `warmup`·steps, then "linear" or "cosine" decay to 0, or "constant".

    Raises InputError for an unknown schedule.
    """
    warmup = int(config.warmup * steps)
    rest = max(1, steps - warmup)
    after = {
        "linear": lambda: optax.linear_schedule(config.learning_rate, 0.0, rest),
        "cosine": lambda: optax.cosine_decay_schedule(config.learning_rate, rest),
        "constant": lambda: optax.constant_schedule(config.learning_rate),
    }
    if config.schedule not in after:
        raise InputError(f"unknown schedule {config.schedule!r}; choose from {', '.join(after)}")
    if not warmup:
        return after[config.schedule]()
    return optax.join_schedules(
        [optax.linear_schedule(0.0, config.learning_rate, warmup), after[config.schedule]()], [warmup]
    )


def decayed(params: dict) -> dict:
    """Mask of the parameters that weight decay applies to: all but biases and layer norms."""

    def walk(tree: dict, name: str) -> dict | bool:
        if isinstance(tree, dict):
            return {key: walk(value, key) for key, value in tree.items()}
        return name not in ("bias", "scale")

    return walk(params, "")  # type: ignore[return-value]


def make(config: ConfigDict, steps: int) -> optax.GradientTransformation:
    """Clipping by global norm, Adam (with decoupled weight decay if configured), and the schedule."""
    chain = [optax.clip_by_global_norm(config.clip_norm)] if config.clip_norm else []
    chain.append(optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=1e-6))
    if config.weight_decay:
        chain.append(optax.add_decayed_weights(config.weight_decay, mask=decayed))
    chain.append(optax.scale_by_learning_rate(schedule(config, steps)))
    return optax.chain(*chain)
