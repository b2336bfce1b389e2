"""The losses: pairwise preferences, masked language modelling, relevance. All are per item; callers average."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax

from harp_jax.base.errors import InputError


def hinge(positive: jax.Array, negative: jax.Array, margin: float = 1.0) -> jax.Array:
    """max(0, margin - s⁺ + s⁻) (HARP Eq. 6, 9, 12, 14)."""
    return jax.nn.relu(margin - positive + negative)


def logistic(positive: jax.Array, negative: jax.Array) -> jax.Array:
    """-log σ(s⁺ - s⁻), RankNet's cross-entropy."""
    return jax.nn.softplus(negative - positive)


def softmax_margin(positive: jax.Array, negative: jax.Array) -> jax.Array:
    """Softmax over the two scores, then the hinge with margin 1, as in the code of HARP's authors: 2σ(s⁻ - s⁺)."""
    return 2.0 * jax.nn.sigmoid(negative - positive)


PAIRWISE: dict[str, Callable[..., jax.Array]] = {"hinge": hinge, "logistic": logistic, "softmax_margin": softmax_margin}


def pair_loss(name: str, margin: float) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """The pairwise loss named `name`; `margin` is the hinge's. Raises InputError for an unknown name."""
    if name not in PAIRWISE:
        raise InputError(f"unknown pairwise loss {name!r}; choose from {', '.join(PAIRWISE)}")
    return partial(hinge, margin=margin) if name == "hinge" else PAIRWISE[name]


def masked_cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """-log p(target) for each position (HARP Eq. 15). logits: [..., vocab] float32, targets: [...] int32."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets)


def relevance(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Binary cross-entropy of logits (HARP Eq. 18, with the minus sign that is missing in the paper)."""
    return optax.sigmoid_binary_cross_entropy(scores, labels)


def localised_contrastive(scores: jax.Array, valid: jax.Array) -> jax.Array:
    """LCE: -log softmax of the first score of each group. scores, valid: [..., group]; returns [...]."""
    masked = jnp.where(valid, scores, -jnp.inf)
    return jax.nn.logsumexp(masked, axis=-1) - scores[..., 0]
