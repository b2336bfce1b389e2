"""What one step computes for each stage: a loss and its metrics, as pure functions of (parameters, batch, key).

Metrics are sums, so that they add up over steps and devices; `summarise` divides.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.errors import InputError
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.tied_embeddings import copied
from harp_jax.objectives.losses import PAIRWISE, hinge, localised_contrastive, masked_cross_entropy, relevance
from harp_jax.objectives.masking import Masked, mask_one_each, mask_tokens, word_ids

Metrics = dict[str, jax.Array]


@dataclass(frozen=True)
class Pretrain:
    """HARP Eq. 16: the tasks' pairwise losses, each with its weight, and MLM.

    Pair losses are averaged over the pairs of the batch, not within each task: a task with three pairs in a batch shall not
    weigh as much as one with a hundred.
    """

    ranker: Ranker
    tasks: tuple[str, ...]
    task_weights: tuple[float, ...]
    pair_loss: str
    margin: float
    mlm_weight: float
    mlm_rate: float
    mlm_slots: int
    mask_token: int
    vocab_size: int  # without the rows that padding added
    continues: np.ndarray | None = field(default=None, compare=False)  # [vocab] bool: for masking whole words

    def counts(self, batch: dict[str, jax.Array], mask_key: jax.Array) -> Metrics:
        """What the losses are averaged over: pairs and predicted tokens. They add up over microbatches."""
        return {"pairs": batch["group_valid"].sum(), "predicted": self._masked(batch, mask_key).weights.sum()}

    def _masked(self, batch: dict[str, jax.Array], mask_key: jax.Array) -> Masked:
        how = (self.mlm_rate, self.mlm_slots, self.mask_token, self.vocab_size)
        ids = batch["mask_ids"]
        if self.continues is not None:
            ids = word_ids(batch["tokens"], ids, jnp.asarray(self.continues))
        return mask_tokens(mask_key, batch["tokens"], ids, *how)

    def __call__(
        self,
        params: Mapping,
        batch: dict[str, jax.Array],
        mask_key: jax.Array,
        dropout_key: jax.Array | None,
        counts: Metrics | None = None,
    ) -> tuple[jax.Array, Metrics]:
        """Loss (float32 scalar) and metric sums; without a dropout key nothing is dropped (evaluation).

        With the `counts` of a whole batch, a microbatch's loss is its share of the batch's: shares add up.
        """
        counts = self.counts(batch, mask_key) if counts is None else counts
        params = copied(params, batch["tokens"])
        masked = self._masked(batch, mask_key)
        scores, hidden = _encode(self.ranker, params, {**batch, "tokens": masked.tokens}, dropout_key, masked.positions)
        members = _members(scores, batch["members"])
        pair = _pair_loss(self.pair_loss, self.margin)(members[..., 0], members[..., 1])
        valid = batch["group_valid"].astype(pair.dtype)
        weights = jnp.asarray(self.task_weights, pair.dtype)[batch["group_task"]]
        pair_loss = (weights * valid * pair).sum() / jnp.maximum(counts["pairs"], 1)

        after = batch["cls_offset"].shape[1]
        answers: Any = self.ranker.apply({"params": params}, hidden[:, after:], masked.targets, method="mlm_losses")
        token_loss, hits = (each * masked.weights for each in answers)
        mlm_loss = token_loss.sum() / jnp.maximum(counts["predicted"], 1)
        loss = pair_loss + self.mlm_weight * mlm_loss

        right = (members[..., 0] > members[..., 1]) * valid
        metrics = {
            "loss": loss,
            "pairs": valid.sum(),
            "mlm": token_loss.sum(),
            "mlm_hits": hits.sum(),
        }
        metrics |= {"mlm_tokens": masked.weights.sum(), **_size(batch)}
        for number, task in enumerate(self.tasks):
            of_task = valid * (batch["group_task"] == number)
            metrics |= {f"pairs/{task}": of_task.sum(), f"loss/{task}": (pair * of_task).sum()}
            metrics[f"right/{task}"] = (right * of_task).sum()
        return loss, metrics


@dataclass(frozen=True)
class Finetune:
    """Relevance of judged documents against negatives: HARP Eq. 18, or a pairwise or listwise loss.

    With `mqp_weight`, masked query prediction (SJTF) runs along: the second member of each group is the positive pair
    again, with one query token masked; the token is predicted from its hidden state by a linear decoder, which is the
    word embedding matrix.
    """

    ranker: Ranker
    rank_loss: str
    margin: float
    mqp_weight: float = 0.0
    mask_token: int = 0
    marks: tuple[int, ...] = ()  # tokens before every query, such as [Q]: there is nothing to predict in them

    def counts(self, batch: dict[str, jax.Array], mask_key: jax.Array) -> Metrics:
        """What the losses are averaged over: groups, their members, their negatives, and predicted query tokens."""
        present = self._present(batch)
        counts = {"groups": present.any(-1).sum(), "members": present.sum(), "negatives": present[..., 1:].sum()}
        if self.mqp_weight > 0:
            counts["predicted"] = self._masked(batch, mask_key).weights.sum()
        return counts

    def _present(self, batch: dict[str, jax.Array]) -> jax.Array:
        """Which members of the groups are there to rank: [lanes, groups, size] bool."""
        present = (batch["members"] >= 0) & batch["group_valid"][..., None]
        return jnp.delete(present, 1, axis=-1) if self.mqp_weight > 0 else present

    def _masked(self, batch: dict[str, jax.Array], mask_key: jax.Array) -> Masked:
        marked = jnp.isin(batch["tokens"], jnp.asarray(self.marks, jnp.int32))
        arrays = (batch["tokens"], jnp.where(marked, -1, batch["mask_ids"]), batch["segment_ids"])
        return mask_one_each(mask_key, *arrays, batch["cls_offset"].shape[1], self.mask_token)

    def __call__(
        self,
        params: Mapping,
        batch: dict[str, jax.Array],
        mask_key: jax.Array,
        dropout_key: jax.Array | None,
        counts: Metrics | None = None,
    ) -> tuple[jax.Array, Metrics]:
        """As `Pretrain`'s."""
        counts = self.counts(batch, mask_key) if counts is None else counts
        masked = self._masked(batch, mask_key) if self.mqp_weight > 0 else None
        if masked is not None:
            batch = {**batch, "tokens": masked.tokens}
        scores, hidden = _encode(self.ranker, params, batch, dropout_key, None if masked is None else masked.positions)
        members, present = _members(scores, batch["members"]), self._present(batch)
        if masked is not None:
            members = jnp.delete(members, 1, axis=-1)
        loss, metrics = ranking_loss(self.rank_loss, self.margin, members, present, counts)
        if masked is not None:
            mqp_loss, found = self._query_prediction(params, hidden[:, batch["cls_offset"].shape[1] :], masked)
            loss = loss + self.mqp_weight * mqp_loss / jnp.maximum(counts["predicted"], 1)
            metrics |= {**found, "loss": loss}
        return loss, {**metrics, **_size(batch)}

    def _query_prediction(self, params: Mapping, hidden: jax.Array, masked: Masked) -> tuple[jax.Array, Metrics]:
        """Summed cross-entropy of the hidden tokens, and metric sums. hidden: [rows, M, hidden]."""
        logits: Any = self.ranker.apply({"params": params}, hidden, method="linear_logits")
        each = masked_cross_entropy(logits, masked.targets) * masked.weights
        hits = (jnp.argmax(logits, -1) == masked.targets) * masked.weights
        return each.sum(), {"mlm": each.sum(), "mlm_hits": hits.sum(), "mlm_tokens": masked.weights.sum()}


def ranking_loss(
    name: str, margin: float, members: jax.Array, present: jax.Array, counts: Metrics
) -> tuple[jax.Array, Metrics]:
    """Loss (scalar) and metric sums of groups' scores [..., size], the positive first; `present` says which are there.

    Means are over `counts`: groups, members, negatives.
    """
    valid, negatives = present.any(-1), present[..., 1:]
    if name == "bce":
        labels = jnp.zeros_like(members).at[..., 0].set(1.0)
        loss = jnp.where(present, relevance(members, labels), 0.0).sum() / jnp.maximum(counts["members"], 1)
    elif name == "lce":
        each = jnp.where(valid, localised_contrastive(members, present), 0.0)
        loss = each.sum() / jnp.maximum(counts["groups"], 1)
    else:
        each = _pair_loss(name, margin)(members[..., :1], members[..., 1:])
        loss = jnp.where(negatives, each, 0.0).sum() / jnp.maximum(counts["negatives"], 1)
    right = ((members[..., :1] > members[..., 1:]) & negatives).sum()
    return loss, {"loss": loss, "pairs": negatives.sum(), "right": right, "groups": valid.sum()}


def _encode(
    ranker: Ranker,
    params: Mapping,
    batch: dict[str, jax.Array],
    dropout_key: jax.Array | None,
    positions: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Scores [rows, K], and hidden states [rows, K + M, hidden]: of the [CLS] tokens, then of `positions` [rows, M].

    Nothing else is read of the last layer, so nothing else is computed there: half of a 2-layer model's work.
    """
    rngs = {} if dropout_key is None else {"dropout": dropout_key}
    still = dropout_key is None
    cls = batch["cls_offset"]
    asked = cls if positions is None else jnp.concatenate([cls, positions], axis=1)
    hidden: Any = ranker.apply({"params": params}, batch, still, asked, rngs=rngs, method="encode")
    first = jnp.broadcast_to(jnp.arange(cls.shape[1]), cls.shape)
    scores: Any = ranker.apply({"params": params}, hidden, first, still, rngs=rngs, method="scores")
    return scores, hidden


def _members(scores: jax.Array, members: jax.Array) -> jax.Array:
    """Scores [rows, K] → those of each group's members [lanes, groups, size]; of absent ones anything.

    The gather is batched over lanes, whose rows lie together: no device asks another for scores.
    """
    lanes, groups, size = members.shape
    by_lane = scores.reshape(lanes, -1)
    picked = jnp.take_along_axis(by_lane, jnp.maximum(members, 0).reshape(lanes, -1), axis=1)
    return picked.reshape(lanes, groups, size)


def _pair_loss(name: str, margin: float) -> Callable[..., jax.Array]:
    if name not in PAIRWISE:
        raise InputError(f"unknown pairwise loss {name!r}; choose from {', '.join(PAIRWISE)}")
    if name == "hinge":
        return lambda positive, negative: hinge(positive, negative, margin)
    return PAIRWISE[name]


def _size(batch: dict[str, jax.Array]) -> Metrics:
    return {
        "tokens": (batch["segment_ids"] > 0).sum().astype(jnp.float32),
        "slots": jnp.asarray(batch["segment_ids"].size, jnp.float32),
    }


def summarise(sums: Mapping[str, float], tasks: tuple[str, ...]) -> dict[str, float]:
    """Means from metric sums: losses and pair accuracies per task, MLM loss and accuracy, filling of the slots."""
    steps = max(sums["steps"], 1.0)
    out = {
        "loss": sums["loss"] / steps,
        "pairs_per_step": sums["pairs"] / steps,
        "fill": sums["tokens"] / sums["slots"],
    }
    if sums.get("mlm_tokens"):
        out["mlm_loss"] = sums["mlm"] / sums["mlm_tokens"]
        out["mlm_accuracy"] = sums["mlm_hits"] / sums["mlm_tokens"]
    if "right" in sums and sums["pairs"]:
        out["pair_accuracy"] = sums["right"] / sums["pairs"]
    for task in tasks:
        if sums.get(f"pairs/{task}"):
            out[f"{task}_loss"] = sums[f"loss/{task}"] / sums[f"pairs/{task}"]
            out[f"{task}_accuracy"] = sums[f"right/{task}"] / sums[f"pairs/{task}"]
    return out
