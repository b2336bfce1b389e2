"""A ranking loss over each group's scores: what one step of a neural ranker computes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from harp_jax.neural_ir.shape import WordTables
from harp_jax.objectives.pretrain import Metrics, ranking_loss


@dataclasses.dataclass(frozen=True)
class NeuralRank:
    """A ranking loss over each group's scores; an objective as `step.make_step` takes it."""

    ranker: Any  # the Linen module
    tables: WordTables
    rank_loss: str
    margin: float

    def counts(self, batch: dict[str, jax.Array], mask_key: jax.Array) -> Metrics:
        """What the losses are averaged over: groups, their members, their negatives. They add up over microbatches."""
        present = batch["present"]
        return {"groups": present.any(-1).sum(), "members": present.sum(), "negatives": present[:, 1:].sum()}

    def __call__(
        self,
        params: Mapping,
        batch: dict[str, jax.Array],
        mask_key: jax.Array,
        dropout_key: jax.Array | None,
        counts: Metrics | None = None,
    ) -> tuple[jax.Array, Metrics]:
        """Loss (float32 scalar) and metric sums; without a dropout key nothing is dropped.

        With the `counts` of a whole batch, a microbatch's loss is its share of the batch's.
        """
        counts = self.counts(batch, mask_key) if counts is None else counts
        groups, size = batch["present"].shape
        documents = batch["tokens"]
        query = jnp.repeat(batch["query"], size, axis=0)
        rngs = {} if dropout_key is None else {"dropout": dropout_key}
        scores = self.ranker.apply(
            {"params": params}, query, documents, self.tables, deterministic=dropout_key is None, rngs=rngs
        )
        members = scores.reshape(groups, size)
        loss, metrics = ranking_loss(self.rank_loss, self.margin, members, batch["present"], counts)
        metrics["tokens"] = (documents > 0).sum().astype(jnp.float32)
        metrics["slots"] = jnp.asarray(documents.size, jnp.float32)
        return loss, metrics
