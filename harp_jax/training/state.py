"""The training state: Adam with warmup and decay, as BERT and HARP train; shapes and shardings; placement on devices."""

import dataclasses
from typing import Any

import jax
import optax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from harp_jax.model import sharding
from harp_jax.training.stages.families import Family, Shape
from harp_jax.training.step import State, initial

CLIP_NORM = 1.0
Shardings = dict[str, Any]  # the tree of a State, of NamedShardings


def schedule(config: ConfigDict, steps: int) -> optax.Schedule:
    """Learning rate by step: linear warmup over `warmup`·steps, then "linear" or "cosine" decay to 0, or "constant"."""
    warmup = int(config.warmup * steps)
    rest = max(1, steps - warmup)
    after = {
        "linear": lambda: optax.linear_schedule(config.learning_rate, 0.0, rest),
        "cosine": lambda: optax.cosine_decay_schedule(config.learning_rate, rest),
        "constant": lambda: optax.constant_schedule(config.learning_rate),
    }
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


def make_optimizer(config: ConfigDict, steps: int) -> optax.GradientTransformation:
    """Clipping by global norm, Adam (with decoupled weight decay if configured), and the schedule."""
    chain = [optax.clip_by_global_norm(CLIP_NORM), optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-6)]
    if config.weight_decay:
        chain.append(optax.add_decayed_weights(config.weight_decay, mask=decayed))
    chain.append(optax.scale_by_learning_rate(schedule(config, steps)))
    return optax.chain(*chain)


def abstract_state(
    family: Family, shape: Shape, optimizer: optax.GradientTransformation, shardings: Shardings
) -> State:
    """The state as ShapeDtypeStructs with shardings, without allocating it."""
    tree = _state_shapes(family, shape, optimizer)
    return jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), tree, shardings)


def state_shardings(family: Family, shape: Shape, optimizer: optax.GradientTransformation, mesh: Mesh) -> Shardings:
    """The sharding of every leaf of the state."""
    return sharding.param_shardings(mesh, _state_shapes(family, shape, optimizer), family.rules(shape))


def _state_shapes(family: Family, shape: Shape, optimizer: optax.GradientTransformation) -> State:
    wide = dataclasses.replace(shape, dtype="float32")
    return jax.eval_shape(lambda: initial(family.init_params(wide, jax.random.key(0)), optimizer))


def place(params: dict, shardings: dict) -> dict:
    """Host parameters (numpy) as sharded arrays; every process has all of them and places its shards."""
    return jax.tree.map(
        lambda x, s: jax.make_array_from_callback(x.shape, s, lambda index: x[index]), params, dict(shardings)
    )
