"""What one step of a neural ranker computes: a ranking loss over each group's scores."""

from collections.abc import Mapping
from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp

from harp_jax.baselines.neural_ir.shape import WordTables
from harp_jax.objectives.objective import Batch, Metrics
from harp_jax.objectives.ranking_loss import ranking_loss


@dataclass(frozen=True)
class NeuralRank:
    """A ranking loss over each group's scores; an `Objective` without masking. Batches are those of `groups.GroupLayout`."""

    ranker: nn.Module
    tables: WordTables
    rank_loss: str
    margin: float
    predictions: int = 0

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        return batch

    def counts(self, masked: Batch) -> Metrics:
        present = masked["present"]
        return {"groups": present.any(-1).sum(), "members": present.sum(), "negatives": present[:, 1:].sum()}

    def loss(
        self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics
    ) -> tuple[jax.Array, Metrics]:
        groups, size = masked["present"].shape
        documents = masked["tokens"]
        query = jnp.repeat(masked["query"], size, axis=0)
        rngs = {} if dropout_key is None else {"dropout": dropout_key}
        scores = jnp.asarray(
            self.ranker.apply(
                {"params": params}, query, documents, self.tables, deterministic=dropout_key is None, rngs=rngs
            )
        )
        loss, metrics = ranking_loss(
            self.rank_loss, self.margin, scores.reshape(groups, size), masked["present"], counts
        )
        metrics["tokens"] = (documents > 0).sum().astype(jnp.float32)
        metrics["slots"] = jnp.asarray(documents.size, jnp.float32)
        return loss, metrics
