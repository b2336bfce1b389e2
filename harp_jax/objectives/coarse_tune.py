"""Coarse-tuning: query-document pair prediction (QDPP: did the query click the document?) and masked language modelling."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.losses import by_group, forward, masked_language_model, relevance
from harp_jax.objectives.masking import WEIGHTS, mask_tokens, without_marks
from harp_jax.objectives.objective import Batch, Metrics, fill

LABELS = ("clicked", "replaced")  # the tasks of a group: IsPair and NotPair


@dataclass(frozen=True)
class CoarseTune:
    """Binary cross-entropy of the score with the label IsPair (task 0) or NotPair (task 1), plus MLM; an `Objective`. Each group
    has one sequence. The paper's two-class probability is the sigmoid of the score. MLM never masks the marks."""

    ranker: Ranker
    qdpp_weight: float  # 0: documents only
    predictions: int  # maximum masked positions per row
    mask_token: int
    vocab_size: int  # without padding
    marks: tuple[int, ...]
    mask_always: bool = False

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        ids = without_marks(batch, self.marks)
        return mask_tokens(key, batch, ids, self.predictions, self.mask_token, self.vocab_size, self.mask_always)

    def counts(self, masked: Batch) -> Metrics:
        return {"pairs": (masked["members"] >= 0).sum(), "predicted": masked[WEIGHTS].sum()}

    def loss(
        self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics
    ) -> tuple[jax.Array, Metrics]:
        outputs = forward(self.ranker, params, masked, dropout_key)
        scores = by_group(outputs.scores, masked["members"])[..., 0]
        present = (masked["members"][..., 0] >= 0).astype(scores.dtype)
        label = (masked["group_task"] == 0).astype(scores.dtype)
        each = relevance(scores, label) * present
        qdpp = each.sum() / jnp.maximum(counts["pairs"], 1)

        mlm = masked_language_model(self.ranker, outputs, masked)
        loss = self.qdpp_weight * qdpp + mlm["mlm"] / jnp.maximum(counts["predicted"], 1)

        metrics = {"loss": loss, "pairs": present.sum(), **mlm, **fill(masked)}
        if self.qdpp_weight > 0:
            right = ((scores > 0) == (label > 0)) * present
            metrics["right"] = right.sum()
            for number, name in enumerate(LABELS):
                of_task = present * (masked["group_task"] == number)
                metrics |= {f"pairs/{name}": of_task.sum(), f"loss/{name}": (each * of_task).sum()}
                metrics[f"right/{name}"] = (right * of_task).sum()
        return loss, metrics
