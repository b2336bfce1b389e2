"""Shared by the models: word vectors as a parameter, and cosines between two texts' words."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from harp_jax.baselines.neural_ir.shape import NeuralConfig


def vectors(module: nn.Module, config: NeuralConfig) -> jax.Array:
    """The word vectors [V, dimension] as a parameter; without a gradient unless `train_vectors`."""
    found = module.param("vectors", nn.initializers.normal(0.1), (config.vocab_size, config.dimension))
    table = jnp.asarray(found)
    return table if config.train_vectors else jax.lax.stop_gradient(table)


def cosines(a: jax.Array, b: jax.Array) -> jax.Array:
    """Cosines [B, n, m] of the rows of a [B, n, d] and b [B, m, d]; 0 where a row is zero.

    In full float32: a TPU's bfloat16 product would move exact matches off their kernel, whose width is 0.001.
    """
    return jnp.einsum("bnd,bmd->bnm", _unit(a), _unit(b), precision=jax.lax.Precision.HIGHEST)


def _unit(x: jax.Array) -> jax.Array:
    # Not x / norm: the norm's gradient at zero is NaN.
    return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x * x, axis=-1, keepdims=True), 1e-12))
