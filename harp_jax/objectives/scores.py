"""The forward pass shared by all cross-encoder objectives."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.tied_embeddings import copied
from harp_jax.objectives.masking import POSITIONS, TARGETS, WEIGHTS
from harp_jax.objectives.objective import Batch, Metrics


class Forward(NamedTuple):
    """scores: [rows, K] float32; hidden: [rows, M, hidden] at the masked positions; params: for applying heads."""

    scores: jax.Array
    hidden: jax.Array
    params: Mapping


def forward(ranker: Ranker, params: Mapping, masked: Batch, dropout_key: jax.Array | None) -> Forward:
    """Encode [CLS] query [SEP] document [SEP] and score each sequence from its [CLS] (HARP Eq. 7, 8 and 17).

    The last layer is computed only at [CLS] and the masked positions, the only outputs that are read; in a 2-layer model it is
    half of the work.
    """
    params = copied(params, masked["tokens"])
    rngs = {} if dropout_key is None else {"dropout": dropout_key}
    deterministic = dropout_key is None
    cls = masked["cls_offset"]
    positions = jnp.concatenate([cls, masked[POSITIONS]], axis=1) if POSITIONS in masked else cls
    hidden: Any = ranker.apply({"params": params}, masked, deterministic, positions, rngs=rngs, method="encode")
    first = jnp.broadcast_to(jnp.arange(cls.shape[1]), cls.shape)
    scores: Any = ranker.apply({"params": params}, hidden, first, deterministic, rngs=rngs, method="scores")
    return Forward(scores, hidden[:, cls.shape[1] :], params)


def by_group(scores: jax.Array, members: jax.Array) -> jax.Array:
    """Scores [rows, K] → scores of each group's members [lanes, groups, size], arbitrary for missing members.

    The gather is batched over lanes, whose rows are consecutive, so devices exchange no scores.
    """
    lanes, groups, size = members.shape
    by_lane = scores.reshape(lanes, -1)
    picked = jnp.take_along_axis(by_lane, jnp.maximum(members, 0).reshape(lanes, -1), axis=1)
    return picked.reshape(lanes, groups, size)


def masked_language_model(ranker: Ranker, found: Forward, masked: Batch) -> Metrics:
    """Metric sums of the masked positions: cross-entropy (HARP Eq. 15), hits and count."""
    answers: Any = ranker.apply({"params": found.params}, found.hidden, masked[TARGETS], method="mlm_losses")
    loss, hits = (each * masked[WEIGHTS] for each in answers)
    return {"mlm": loss.sum(), "mlm_hits": hits.sum(), "mlm_tokens": masked[WEIGHTS].sum()}
