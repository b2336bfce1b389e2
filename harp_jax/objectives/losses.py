"""The losses: pairwise preferences, masked language modelling, and relevance. All are per item; callers average."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import lax


def hinge(positive: jax.Array, negative: jax.Array, margin: float = 1.0) -> jax.Array:
    """max(0, margin - s⁺ + s⁻) (HARP Eq. 6, 9, 12, 14)."""
    return jax.nn.relu(margin - positive + negative)


def logistic(positive: jax.Array, negative: jax.Array) -> jax.Array:
    """-log σ(s⁺ - s⁻), RankNet's cross-entropy."""
    return jax.nn.softplus(negative - positive)


def softmax_margin(positive: jax.Array, negative: jax.Array) -> jax.Array:
    """Softmax over the two scores, then the hinge with margin 1, as HARP's authors' code has it: 2σ(s⁻ - s⁺)."""
    return 2.0 * jax.nn.sigmoid(negative - positive)


PAIRWISE: dict[str, Callable[..., jax.Array]] = {"hinge": hinge, "logistic": logistic, "softmax_margin": softmax_margin}


def masked_cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """-log p(target) for each position (HARP Eq. 15). logits: [..., vocab] float32, targets: [...] int32."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets)


@jax.custom_vjp
def vocabulary_cross_entropy(
    hidden: jax.Array, embedding: jax.Array, bias: jax.Array, targets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`masked_cross_entropy` of the logits hidden·embeddingᵀ + bias, and whether the target's logit is the largest.

    hidden: [rows, M, H]; embedding: [vocab, H]; bias: [vocab]; targets: [rows, M] int32. Returns loss (float32) and hit
    (bool), [rows, M]. The exponentials are the only thing of the vocabulary's size that is kept: the gradient is two
    matrix products with them, scaled on their small sides. Differentiating the logits instead makes six more passes
    over them, which were half of a 2 × 128 model's step on CPU.
    """
    return _vocabulary_forward(hidden, embedding, bias, targets)[0]


def _vocabulary_forward(hidden: jax.Array, embedding: jax.Array, bias: jax.Array, targets: jax.Array) -> tuple:
    wide, narrow = jnp.promote_types(hidden.dtype, jnp.float32), hidden.dtype
    # The bias rides along as one more column: adding it, and summing its gradient, would be passes of their own.
    words = jnp.concatenate([embedding, bias[:, None]], axis=1).astype(narrow)
    asking = jnp.concatenate([hidden, jnp.ones((*targets.shape, 1), narrow)], axis=2)
    logits = jnp.einsum("rmh,vh->rmv", asking, words, preferred_element_type=wide)
    top = logits.max(-1)
    target = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    weights = jnp.exp(logits - top[..., None])
    total = weights.sum(-1)
    # dlogits = g/total·(weights - total·onehot(target)): the bracket is made in place.
    kept = (asking, words, _add_at(weights, targets, -total).astype(narrow), total, embedding[:0], bias[:0])
    return (jnp.log(total) + top - target, target >= top), kept


def _vocabulary_backward(kept: tuple, cotangents: tuple) -> tuple:
    """Two products with the bracket; g/total scales their small sides. The empty arrays tell the dtypes wanted."""
    asking, words, bracket, total, embedding, bias = kept
    scale = (cotangents[0] / total)[..., None]
    to_asking = jnp.einsum("rmv,vh->rmh", bracket, words, preferred_element_type=total.dtype) * scale
    # As [H, vocab]: transposing this costs less than transposing the bracket.
    scaled = (asking * scale).astype(asking.dtype)
    to_words = jnp.einsum("rmh,rmv->hv", scaled, bracket, preferred_element_type=total.dtype).T
    hidden = to_asking[..., :-1].astype(asking.dtype)
    return hidden, to_words[:, :-1].astype(embedding.dtype), to_words[:, -1].astype(bias.dtype), None


def _add_at(x: jax.Array, index: jax.Array, update: jax.Array) -> jax.Array:
    """x [rows, M, vocab] with `update` [rows, M] added at `index`; rows stay batch dimensions, which sharding can cut."""
    dimensions = lax.ScatterDimensionNumbers(
        (), (2,), (2,), operand_batching_dims=(0, 1), scatter_indices_batching_dims=(0, 1)
    )
    return lax.scatter_add(x, index[..., None], update, dimensions, indices_are_sorted=True, unique_indices=True)


vocabulary_cross_entropy.defvjp(_vocabulary_forward, _vocabulary_backward)


def relevance(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Binary cross-entropy on logits (HARP Eq. 18, with the minus sign that the paper's print lacks)."""
    return optax.sigmoid_binary_cross_entropy(scores, labels)


def localised_contrastive(scores: jax.Array, valid: jax.Array) -> jax.Array:
    """LCE: -log softmax of the first of the group's scores. scores, valid: [..., group]; returns [...]."""
    masked = jnp.where(valid, scores, -jnp.inf)
    return jax.nn.logsumexp(masked, axis=-1) - scores[..., 0]
