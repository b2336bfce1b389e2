"""How much each loss pulls: the gradient norms of the pair losses and of MLM on one batch."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from harp_jax.objectives.objective import Batch, Metrics
from harp_jax.objectives.pretrain import Pretrain
from harp_jax.training.step import gradients, keys


def make_probe(objective: Pretrain, seed: int, prng: str, dropout: bool) -> Callable[[dict, Batch, jax.Array], Metrics]:
    """`params, batch, step → gradient norms` of the pair losses and of MLM, with the step's own masks and dropout.

    Where one norm is many times the other, clipping by the global norm leaves the smaller loss hardly an update. The
    gradient is linear in the losses: that of the pairs is the whole minus that of MLM, one more backward pass.
    """

    def probe(params: dict, batch: Batch, step: jax.Array) -> Metrics:
        mask_key, dropout_key = keys(seed, step, prng)
        both = [
            gradients(part, params, batch, mask_key, dropout_key if dropout else None)[0]
            for part in (objective, objective.without_pairs())
        ]
        pairs = jax.tree.map(jnp.subtract, *both)
        return {"gradient_norm/pairs": optax.global_norm(pairs), "gradient_norm/mlm": optax.global_norm(both[1])}

    return probe
