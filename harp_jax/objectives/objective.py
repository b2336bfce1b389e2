"""The shape that every objective has: mask a batch, count what its losses average over, compute the loss.

Metrics are sums, so that they add up over microbatches, steps and devices; `metrics.summarise` divides them.
"""

from collections.abc import Mapping
from typing import Protocol

import jax

Batch = Mapping[str, jax.Array]  # arrays of one microbatch, named as `input/packing.fill` names them
Metrics = dict[str, jax.Array]


class Objective(Protocol):
    """What one step computes. All methods are pure functions; a batch is one microbatch."""

    @property
    def predictions(self) -> int:
        """Masked positions that are predicted in each row (M), 0 without any; the cost of a step depends on it."""

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        """The batch as the encoder reads it. Where tokens are masked: `tokens` replaced, and `masking.PREDICTED` added."""

    def counts(self, masked: Batch) -> Metrics:
        """What the losses are averaged over, such as pairs and predicted tokens; counts add up over microbatches."""

    def loss(
        self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics
    ) -> tuple[jax.Array, Metrics]:
        """Loss (float32 scalar) and metric sums. Without a dropout key nothing is dropped (evaluation).

        `counts` are the whole batch's: a microbatch's loss is its share, and shares add up to the batch's loss.
        """
