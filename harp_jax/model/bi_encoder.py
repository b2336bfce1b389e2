"""A bi-encoder: the vector of a text is its hidden states, pooled over its segment of a packed row and scaled to length 1."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from harp_jax.model.cross_encoder import segment_means
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.model.encoders.table import ENCODERS


def text_vectors(
    shape: EncoderConfig,
    encoder: Mapping[str, Any],
    batch: Mapping[str, jax.Array],
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """Unit vectors [rows, K, hidden], in at least float32, of the sequences that begin at `batch["cls_offset"]` [rows, K]. Arrays
    as in `packing.fill`; `shape.pooling` is "mean" or "cls". With "cls" the last layer computes only these positions."""
    starts, first = batch["cls_offset"], shape.pooling == "cls"
    module = ENCODERS[shape.model_type].module(shape)
    rngs = {} if dropout_key is None else {"dropout": dropout_key}
    positions = starts if first else None
    hidden: Any = module.apply({"params": encoder}, batch, dropout_key is None, positions, rngs=rngs)
    pooled = hidden if first else segment_means(hidden, batch["segment_ids"], starts)
    pooled = pooled.astype(jnp.promote_types(pooled.dtype, jnp.float32))
    return pooled * jax.lax.rsqrt(jnp.maximum(jnp.square(pooled).sum(-1, keepdims=True), 1e-18))


def rules(shape: EncoderConfig) -> tuple[tuple[str, P], ...]:
    """The sharding rules of the parameters: the encoder's."""
    return ENCODERS[shape.model_type].rules


def step_flops(shape: EncoderConfig, rows: int, length: int, sequences: int, predictions: int) -> float:
    """FLOPs of one step: 3 × the forward pass of `rows` of `length` slots (`cross_encoder.step_flops`). Gradient caching encodes
    once more, and a frozen start once; like all recomputation, neither counts as useful work."""
    return 3.0 * shape.forward_flops(rows, length, sequences if shape.pooling == "cls" else length)
