"""Masked language modelling with a loss of scores: of pairs in pre-training (HARP Eq. 16), of clicks in coarse-tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.losses import (
    by_group,
    forward,
    masked_language_model,
    over_negatives,
    pair_loss,
    relevance,
    score_spread,
)
from harp_jax.objectives.masking import WEIGHTS, ids_of_slots, mask_tokens, without_marks, word_ids
from harp_jax.objectives.objective import Batch, Loss, Metrics, fill

LABELS = ("clicked", "replaced")  # the tasks of coarse-tuning: IsPair and NotPair


@dataclass(frozen=True)
class Pretrain:
    """HARP Eq. 16, an `Objective`. `pair_reduction` "mean" averages the losses of pairs (`losses.pair_loss`) over all pairs of the
    batch. "sum" adds the tasks' means, as in the equation: four tasks then weigh four times as much relative to MLM, and a task
    with few pairs weighs as much as one with many. MLM is averaged over the predicted tokens."""

    ranker: Ranker
    tasks: tuple[str, ...]
    pair_weight: float
    pair_loss: str
    pair_reduction: str
    mlm_weight: float
    predictions: int  # maximum masked positions per row; 0: no MLM
    mask_token: int
    vocab_size: int  # without padding
    continues: np.ndarray | None = field(default=None, compare=False)  # [vocab] bool: for masking whole words
    frozen: bool = False  # train the MLM head only
    shared_mask: bool = True  # of a text that both sides of a pair have
    whole_batch: ClassVar = False

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        if not self.predictions:
            return batch
        ids = batch["mask_ids"] if self.shared_mask else ids_of_slots(batch["mask_ids"])
        if self.continues is not None:
            ids = word_ids(batch["tokens"], ids, jnp.asarray(self.continues))
        return mask_tokens(key, batch, ids, self.predictions, self.mask_token, self.vocab_size)

    def counts(self, masked: Batch) -> Metrics:
        valid = masked["group_valid"]
        of_task = masked["group_task"][..., None] == jnp.arange(len(self.tasks))
        pairs = {"pairs": valid.sum(), "pairs_of_task": (of_task & valid[..., None]).sum((0, 1))}  # the latter [tasks]
        return {**pairs, "predicted": masked[WEIGHTS].sum()} if self.predictions else pairs

    def loss(self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics) -> Loss:
        if self.frozen:
            params = {name: tree if name == "mlm" else jax.lax.stop_gradient(tree) for name, tree in params.items()}
        outputs = forward(self.ranker, params, masked, dropout_key)
        members, present = by_group(outputs.scores, masked["members"]), masked["members"] >= 0
        valid = masked["group_valid"].astype(members.dtype)
        pair = pair_loss(self.pair_loss, members, present, masked.get("teacher"))
        total = counts["pairs_of_task"][masked["group_task"]] if self.pair_reduction == "sum" else counts["pairs"]
        pairs = (self.pair_weight * valid * pair / jnp.maximum(total, 1)).sum()

        loss, mlm = pairs, Metrics()
        if self.predictions:
            mlm = masked_language_model(self.ranker, outputs, masked)
            loss = pairs + self.mlm_weight * (mlm["mlm"] / jnp.maximum(counts["predicted"], 1))

        right = over_negatives(members[..., :1] > members[..., 1:], present) * valid
        spread = score_spread(members, present & masked["group_valid"][..., None])
        metrics = {"loss": loss, "pairs": valid.sum(), **mlm, **spread, **fill(masked)}
        return loss, metrics | by_task(self.tasks, masked, valid, pair, right)


@dataclass(frozen=True)
class CoarseTune:
    """Query-document pair prediction (QDPP: did the query click the document?) and MLM, an `Objective`. Binary cross-entropy of the
    score with the label IsPair (task 0) or NotPair (task 1); groups have one sequence. The paper's two-class probability is the
    sigmoid of the score. MLM never masks the marks."""

    ranker: Ranker
    qdpp_weight: float  # 0: documents only
    predictions: int  # maximum masked positions per row
    mask_token: int
    vocab_size: int  # without padding
    marks: tuple[int, ...]
    mask_always: bool = False
    whole_batch: ClassVar = False

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        ids = without_marks(batch, self.marks)
        return mask_tokens(key, batch, ids, self.predictions, self.mask_token, self.vocab_size, self.mask_always)

    def counts(self, masked: Batch) -> Metrics:
        return {"pairs": (masked["members"] >= 0).sum(), "predicted": masked[WEIGHTS].sum()}

    def loss(self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics) -> Loss:
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
            metrics |= {"right": right.sum(), **by_task(LABELS, masked, present, each, right)}
        return loss, metrics


def by_task(tasks: Sequence[str], masked: Batch, there: jax.Array, loss: jax.Array, right: jax.Array) -> Metrics:
    """Metric sums of each task over its groups that are `there`; all [lanes, groups]."""
    metrics = Metrics()
    for number, task in enumerate(tasks):
        of_task = there * (masked["group_task"] == number)
        metrics |= {f"pairs/{task}": of_task.sum(), f"loss/{task}": (loss * of_task).sum()}
        metrics[f"right/{task}"] = (right * of_task).sum()
    return metrics
