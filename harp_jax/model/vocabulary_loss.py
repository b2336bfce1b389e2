"""Cross-entropy over a large vocabulary without storing the logits: the MLM loss (HARP Eq. 15)."""

import jax
import jax.numpy as jnp
from jax import lax

from harp_jax.model.products import as_computed


@jax.custom_vjp
def vocabulary_cross_entropy(
    hidden: jax.Array, embedding: jax.Array, bias: jax.Array, targets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`masked_cross_entropy` of the logits hidden·embeddingᵀ + bias, and whether the target's logit is the largest.

    hidden: [rows, M, H]; embedding: [vocab, H]; bias: [vocab]; targets: [rows, M] int32. Returns loss (float32) and hit
    (bool), [rows, M]. The exponentials are the only array of the vocabulary's size stored for the backward pass: the
    gradient is two matrix products with them, scaled on the small operands. Automatic differentiation of the logits makes
    six more passes over them, half of a 2 × 128 model's step on CPU.
    """
    return _vocabulary_forward(hidden, embedding, bias, targets)[0]


def _vocabulary_forward(hidden: jax.Array, embedding: jax.Array, bias: jax.Array, targets: jax.Array) -> tuple:
    wide, narrow = jnp.promote_types(hidden.dtype, jnp.float32), hidden.dtype
    # The bias is an extra column: adding it, and summing its gradient, would be separate passes over the logits.
    words = jnp.concatenate([embedding, bias[:, None]], axis=1).astype(narrow)
    extended = jnp.concatenate([hidden, jnp.ones((*targets.shape, 1), narrow)], axis=2)
    logits = jnp.einsum("rmh,vh->rmv", extended, words, preferred_element_type=wide)
    top = logits.max(-1)
    target = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    weights = jnp.exp(logits - top[..., None])
    total = weights.sum(-1)
    # dlogits = g/total·(weights - total·onehot(target)): the term in brackets is computed in place.
    stored = (extended, words, _add_at(weights, targets, -total).astype(narrow), total, embedding[:0], bias[:0])
    return (jnp.log(total) + top - target, target >= top), stored


def _vocabulary_backward(stored: tuple, cotangents: tuple) -> tuple:
    """Two products with the bracket; g/total scales the small operands. The empty arrays carry the gradients' dtypes."""
    extended, words, bracket, total, embedding, bias = stored
    scale = (cotangents[0] / total)[..., None]
    to_extended = jnp.einsum("rmv,vh->rmh", bracket, words, preferred_element_type=total.dtype) * scale
    # As [H, vocab]: transposing this is cheaper than transposing the bracket.
    scaled = (extended * scale).astype(extended.dtype)
    to_words = as_computed(jnp.einsum("rmh,rmv->hv", scaled, bracket, preferred_element_type=total.dtype), scaled).T
    hidden = to_extended[..., :-1].astype(extended.dtype)
    return hidden, to_words[:, :-1].astype(embedding.dtype), to_words[:, -1].astype(bias.dtype), None


def _add_at(x: jax.Array, index: jax.Array, update: jax.Array) -> jax.Array:
    """x [rows, M, vocab] with `update` [rows, M] added at `index`; rows and M stay batch dimensions, which can be sharded."""
    dimensions = lax.ScatterDimensionNumbers(
        (), (2,), (2,), operand_batching_dims=(0, 1), scatter_indices_batching_dims=(0, 1)
    )
    return lax.scatter_add(x, index[..., None], update, dimensions, indices_are_sorted=True, unique_indices=True)


vocabulary_cross_entropy.defvjp(_vocabulary_forward, _vocabulary_backward)
