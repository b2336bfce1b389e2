"""What one step of coarse-tuning computes: is the document the query's own (QDPP), and which tokens are hidden (MLM)?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.losses import relevance
from harp_jax.objectives.masking import Masked, mask_tokens
from harp_jax.objectives.pretrain import Metrics, _encode, _members, _size


@dataclass(frozen=True)
class Coarse:
    """Binary cross-entropy of the score against IsPair (task 0) or NotPair (task 1), and MLM on query and document.

    Groups have one sequence. The two-class probability of the paper is the sigmoid of the score. Marks are never hidden.
    """

    ranker: Ranker
    qdpp_weight: float
    mlm_weight: float
    mlm_rate: float
    mlm_slots: int
    mask_token: int
    vocab_size: int  # without the rows that padding added
    marks: tuple[int, ...]

    def counts(self, batch: dict[str, jax.Array], mask_key: jax.Array) -> Metrics:
        """What the losses are averaged over: sequences and predicted tokens. They add up over microbatches."""
        return {"pairs": (batch["members"] >= 0).sum(), "predicted": self._masked(batch, mask_key).weights.sum()}

    def _masked(self, batch: dict[str, jax.Array], mask_key: jax.Array) -> Masked:
        marked = jnp.isin(batch["tokens"], jnp.asarray(self.marks, jnp.int32))
        maskable = jnp.where(marked, -1, batch["mask_ids"])
        how = (self.mlm_rate, self.mlm_slots, self.mask_token, self.vocab_size)
        return mask_tokens(mask_key, batch["tokens"], maskable, *how)

    def __call__(
        self,
        params: Mapping,
        batch: dict[str, jax.Array],
        mask_key: jax.Array,
        dropout_key: jax.Array | None,
        counts: Metrics | None = None,
    ) -> tuple[jax.Array, Metrics]:
        """As `objectives.Pretrain`'s."""
        counts = self.counts(batch, mask_key) if counts is None else counts
        masked = self._masked(batch, mask_key)
        scores, hidden = _encode(self.ranker, params, {**batch, "tokens": masked.tokens}, dropout_key, masked.positions)
        members = _members(scores, batch["members"])[..., 0]
        there = (batch["members"][..., 0] >= 0).astype(members.dtype)
        label = (batch["group_task"] == 0).astype(members.dtype)
        each = relevance(members, label) * there
        pair_loss = each.sum() / jnp.maximum(counts["pairs"], 1)

        after = batch["cls_offset"].shape[1]
        answers: Any = self.ranker.apply({"params": params}, hidden[:, after:], masked.targets, method="mlm_losses")
        token_loss, hits = (answer * masked.weights for answer in answers)
        mlm_loss = token_loss.sum() / jnp.maximum(counts["predicted"], 1)
        loss = self.qdpp_weight * pair_loss + self.mlm_weight * mlm_loss

        metrics = {"loss": loss, "pairs": there.sum(), "mlm": token_loss.sum(), "mlm_hits": hits.sum()}
        metrics |= {"mlm_tokens": masked.weights.sum(), **_size(batch)}
        if self.qdpp_weight > 0:
            right = ((members > 0) == (label > 0)) * there
            metrics["right"] = right.sum()
            for number, name in enumerate(("clicked", "replaced")):
                of_task = there * (batch["group_task"] == number)
                metrics |= {f"pairs/{name}": of_task.sum(), f"loss/{name}": (each * of_task).sum()}
                metrics[f"right/{name}"] = (right * of_task).sum()
        return loss, metrics
