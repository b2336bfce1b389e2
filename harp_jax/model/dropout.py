"""Dropout that needs a quarter of the usual random bits, which do not depend on how the arrays are sharded."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p


class Dropout(nn.Module):
    """Set a fraction `rate` (in steps of 2⁻¹⁶) of the elements to zero and scale the others to keep the mean."""

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
        """x of any shape; requires a "dropout" key unless deterministic."""
        dropped = round(self.rate * 2**16)
        if not dropped or deterministic:
            return x
        keep = random_words(self.make_rng("dropout"), x.shape) >= jnp.uint16(dropped)
        return jnp.where(keep, x * (2**16 / (2**16 - dropped)), jnp.zeros_like(x))


def random_words(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Independent uniform uint16 numbers of a shape.

    Threefry returns 64 bits per call, of which `jax.random.bits` uses 32 for one number; here they make four numbers. The
    counter is the element's index in the global array, so the numbers do not depend on the sharding. Other generators
    ("rbg") use `jax.random.bits`.
    """
    if jax.random.key_impl(key) != "threefry2x32" or shape[-1] % 4:
        return jax.random.bits(key, shape, jnp.uint16)
    quarter = (*shape[:-1], shape[-1] // 4)
    index = jnp.zeros(quarter, jnp.uint32)
    for axis, size in enumerate(quarter):
        index = index * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, quarter, axis)
    k = jax.random.key_data(key).astype(jnp.uint32)
    words = threefry2x32_p.bind(
        *(jnp.broadcast_to(part, quarter) for part in (k[0], k[1])), jnp.zeros_like(index), index
    )
    halves = [(word >> shift).astype(jnp.uint16) for word in words for shift in (0, 16)]
    return jnp.concatenate(halves, axis=-1)
