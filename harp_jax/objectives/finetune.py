"""Fine-tuning on judged queries: a ranking loss over groups, optionally with masked query prediction (SJTF)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from harp_jax.model.cross_encoder import Ranker, vocabulary_cross_entropy
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.model.layers import initializer
from harp_jax.objectives.losses import Forward, by_group, forward, ranking_loss, score_spread
from harp_jax.objectives.masking import TARGETS, WEIGHTS, mask_one_each, without_marks
from harp_jax.objectives.objective import Batch, Loss, Metrics, fill

DECODER = "decoder"  # the parameters of masked query prediction


@dataclass(frozen=True)
class Finetune:
    """Relevance of judged documents against negatives (HARP Eq. 18, or a pairwise or listwise loss), an `Objective`. Distillation
    losses compare with the batch's `teacher` [lanes, groups, size] float32 instead of the judgments. `mqp_weight` > 0 adds masked
    query prediction (SJTF): the second member of each group is the positive pair again with one query token masked; a linear
    decoder predicts the token from its hidden state. The decoder is used only in training: its parameters, `decoder`: {embedding
    [vocab, hidden], bias [vocab]}, are not exported."""

    ranker: Ranker
    rank_loss: str
    mqp_weight: float = 0.0
    predictions: int = 0  # masked positions per row: one per sequence with masked query prediction, else 0
    mask_token: int = 0
    marks: tuple[int, ...] = ()  # tokens before every query, such as [Q]; never masked
    whole_batch: ClassVar = False

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        if not self.mqp_weight > 0:
            return batch
        return mask_one_each(key, batch, without_marks(batch, self.marks), self.predictions, self.mask_token)

    def counts(self, masked: Batch) -> Metrics:
        present = self._present(masked)
        counts = {"groups": present.any(-1).sum(), "members": present.sum(), "negatives": present[..., 1:].sum()}
        if self.mqp_weight > 0:
            counts["predicted"] = masked[WEIGHTS].sum()
        return counts

    def _present(self, batch: Batch) -> jax.Array:
        """[lanes, groups, size] bool: the member exists and is ranked."""
        present = batch["members"] >= 0
        return present if self.rank_loss == "judged" else self._ranked(present & batch["group_valid"][..., None])

    def _ranked(self, members: jax.Array) -> jax.Array:
        """Groups [..., size] without the member for masked query prediction."""
        return jnp.delete(members, 1, axis=-1) if self.mqp_weight > 0 else members

    def loss(self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics) -> Loss:
        outputs = forward(self.ranker, params, masked, dropout_key)
        members = self._ranked(by_group(outputs.scores, masked["members"]))
        teacher = self._ranked(masked["teacher"]) if "teacher" in masked else None
        if self.rank_loss == "judged":  # groups of one, whose task is the label
            teacher = (masked["group_task"] == 0).astype(members.dtype)[..., None]
        present = self._present(masked)
        loss, metrics = ranking_loss(self.rank_loss, members, present, counts, teacher)
        if self.mqp_weight > 0:
            mqp = self._query_prediction(outputs, masked)
            loss = loss + self.mqp_weight * mqp["mlm"] / jnp.maximum(counts["predicted"], 1)
            metrics |= {**mqp, "loss": loss}
        return loss, {**metrics, **score_spread(members, present), **fill(masked)}

    def _query_prediction(self, outputs: Forward, masked: Batch) -> Metrics:
        """Metric sums of the masked query tokens: cross-entropy, hits and count."""
        decoder, weights = outputs.params[DECODER], masked[WEIGHTS]
        answers = vocabulary_cross_entropy(outputs.hidden, decoder["embedding"], decoder["bias"], masked[TARGETS])
        loss, hits = (each * weights for each in answers)
        return {"mlm": loss.sum(), "mlm_hits": hits.sum(), "mlm_tokens": weights.sum()}


def init_decoder(shape: EncoderConfig, key: jax.Array) -> dict[str, jax.Array]:
    """A new linear decoder, float32: truncated normal, zero bias."""
    words = initializer(shape)(key, (shape.vocab_size, shape.hidden), jnp.float32)
    return {"embedding": words, "bias": jnp.zeros(shape.vocab_size)}
