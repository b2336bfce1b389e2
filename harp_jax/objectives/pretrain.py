"""Pre-training: the tasks' pairwise losses and masked language modelling in one step (HARP Eq. 16)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.losses import by_group, forward, masked_language_model, over_negatives, pair_loss, score_spread
from harp_jax.objectives.masking import WEIGHTS, ids_of_slots, mask_tokens, word_ids
from harp_jax.objectives.objective import Batch, Metrics, fill


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

    def head_alone(self) -> "Pretrain":
        """MLM that trains only its head, on the same masked batches."""
        return replace(self, pair_weight=0.0, mlm_weight=1.0, frozen=True)

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

    def loss(
        self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics
    ) -> tuple[jax.Array, Metrics]:
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
        for number, task in enumerate(self.tasks):
            of_task = valid * (masked["group_task"] == number)
            metrics |= {f"pairs/{task}": of_task.sum(), f"loss/{task}": (pair * of_task).sum()}
            metrics[f"right/{task}"] = (right * of_task).sum()
        return loss, metrics
