"""The loss of one batch, as the step computes it."""

from collections.abc import Mapping

import jax

from harp_jax.objectives.objective import Batch, Metrics, Objective


def loss_of(objective: Objective, params: Mapping, batch: Batch, mask_key: jax.Array) -> tuple[jax.Array, Metrics]:
    """Loss and metric sums without dropout."""
    masked = objective.mask(batch, mask_key)
    return objective.loss(params, masked, None, objective.counts(masked))
