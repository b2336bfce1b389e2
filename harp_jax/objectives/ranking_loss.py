"""Losses over groups of a relevant document and negatives: HARP Eq. 18, pairwise, or listwise (LCE)."""

import jax
import jax.numpy as jnp

from harp_jax.objectives.losses import localised_contrastive, pair_loss, relevance
from harp_jax.objectives.objective import Metrics


def ranking_loss(
    name: str, margin: float, members: jax.Array, present: jax.Array, counts: Metrics
) -> tuple[jax.Array, Metrics]:
    """Loss (scalar) and metric sums of groups' scores `members` [..., size], the positive first.

    present: [..., size] bool, whether a member exists. The loss is averaged over groups, members or negatives (`counts`).
    """
    valid, negatives = present.any(-1), present[..., 1:]
    if name == "bce":
        labels = jnp.zeros_like(members).at[..., 0].set(1.0)
        loss = jnp.where(present, relevance(members, labels), 0.0).sum() / jnp.maximum(counts["members"], 1)
    elif name == "lce":
        each = jnp.where(valid, localised_contrastive(members, present), 0.0)
        loss = each.sum() / jnp.maximum(counts["groups"], 1)
    else:
        each = pair_loss(name, margin)(members[..., :1], members[..., 1:])
        loss = jnp.where(negatives, each, 0.0).sum() / jnp.maximum(counts["negatives"], 1)
    right = ((members[..., :1] > members[..., 1:]) & negatives).sum()
    return loss, {"loss": loss, "pairs": negatives.sum(), "right": right, "groups": valid.sum()}
