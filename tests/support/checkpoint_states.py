"""States of a few arrays, and two checkpoints of them."""

import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.checkpoints.checkpoint import Checkpoints


def state(seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    return {
        "params": {"kernel": jnp.asarray(rng.normal(size=(16, 24)), jnp.float32), "half": jnp.ones(8, jnp.bfloat16)},
        "step": jnp.asarray(seed, jnp.int32),
    }


def abstract(tree: dict) -> dict:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), tree)


def save_two(directory) -> Checkpoints:
    checkpoints = Checkpoints(str(directory))
    for step in (1, 2):
        checkpoints.save(step, state(step), {"cursors": {"0": {"window": step}}})
    checkpoints.wait()
    return checkpoints
