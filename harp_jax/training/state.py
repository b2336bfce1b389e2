"""Shapes and shardings of the training state, and the placement of parameters on devices."""

import dataclasses
from typing import Any

import jax
import optax
from jax.sharding import Mesh

from harp_jax.model import sharding
from harp_jax.training.stages.families import Family, Shape
from harp_jax.training.step import State, initial

Shardings = dict[str, Any]  # the tree of a State, of NamedShardings


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
