"""The interface of an objective: mask a batch, count what its losses are averaged over, compute the loss.

Metrics are sums, which add up over microbatches, steps and devices; `metrics.summarise` turns them into means.
"""

from collections.abc import Mapping
from typing import Protocol

import jax

Batch = Mapping[str, jax.Array]  # arrays of one microbatch, named as `input/packing.fill` names them
Metrics = dict[str, jax.Array]


class Objective(Protocol):
    """The computation of one step. All methods are pure functions; a batch is one microbatch."""

    @property
    def predictions(self) -> int:
        """Number of masked positions predicted per row (M), or 0; the FLOPs of a step depend on it."""

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        """The encoder's input batch; masking replaces `tokens` and adds the arrays `masking.PREDICTED`."""

    def counts(self, masked: Batch) -> Metrics:
        """The denominators of the losses, such as pairs and predicted tokens; summed over microbatches."""

    def loss(
        self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics
    ) -> tuple[jax.Array, Metrics]:
        """Loss (float32 scalar) and metric sums. Without a dropout key there is no dropout (evaluation).

        `counts` are those of the whole batch, so that the losses of its microbatches add up to the batch's loss.
        """
