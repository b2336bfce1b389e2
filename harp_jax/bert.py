"""BERT's encoder in Linen over packed rows: several sequences to a row, attention within each one only.

The parameters are a plain nested dict, which sharding rules, the Hugging Face mapping and Orbax read directly.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

from harp_jax.errors import InputError


@dataclass(frozen=True)
class BertConfig:
    """The shape of an encoder. `dtype` is the computation's; parameters are always float32 (or what they came in)."""

    vocab_size: int
    layers: int
    hidden: int
    heads: int
    intermediate: int
    max_positions: int = 512
    type_vocab: int = 2
    layer_norm_eps: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.0
    dtype: str = "float32"
    attention: str = "xla"  # or "cudnn", see `jax.nn.dot_product_attention`
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise InputError(f"model.hidden={self.hidden} is not a multiple of model.heads={self.heads}; change one")
        if self.attention_dropout and self.attention != "xla":
            raise InputError(
                f"model.attention={self.attention!r} cannot drop attention weights; set model.attention_dropout=0 or "
                "model.attention='xla'"
            )

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    def computing_in(self, dtype: str) -> "BertConfig":
        return replace(self, dtype=dtype)


def gelu(x: jax.Array) -> jax.Array:
    """BERT's exact gelu (erf); the tanh approximation moves logits by 9e-5 and would break parity."""
    return 0.5 * x * (1.0 + lax.erf(x * 0.7071067811865476))


def segment_mask(segment_ids: jax.Array) -> jax.Array:
    """[rows, T] segments (0 = padding) → [rows, 1, T, T] bool: may the token (first T) look at the other one?

    Padding looks at padding, so that no row of the softmax is empty.
    """
    return segment_ids[:, None, :, None] == segment_ids[:, None, None, :]


class Norm(nn.LayerNorm):
    """Layer norm computed in float32 at least (bf16 means lose three digits), returned in the input's dtype."""

    def __call__(self, x: jax.Array) -> jax.Array:  # type: ignore[override]
        return super().__call__(x).astype(x.dtype)


class SelfAttention(nn.Module):
    config: BertConfig

    def setup(self) -> None:
        c = self.config
        self.query, self.key, self.value = (
            nn.DenseGeneral((c.heads, c.head_dim), dtype=c.dtype, kernel_init=_normal(c)) for _ in range(3)
        )
        self.output = nn.DenseGeneral(c.hidden, axis=(-2, -1), dtype=c.dtype, kernel_init=_normal(c))
        self.norm = _norm(c)
        self.drop, self.drop_weights = nn.Dropout(c.dropout), nn.Dropout(c.attention_dropout)

    def __call__(self, x: jax.Array, mask: jax.Array, deterministic: bool, positions: jax.Array | None) -> jax.Array:
        """Every token looks, or only those at `positions` [rows, Q]; the result has as many."""
        asking = x
        if positions is not None:
            asking, mask = jnp.take_along_axis(x, positions[:, :, None], axis=1), _mask_rows(mask, positions)
        q, k, v = self.query(asking), self.key(x), self.value(x)
        if self.config.attention == "cudnn":
            mixed = jax.nn.dot_product_attention(q, k, v, mask=mask, implementation="cudnn")
        else:
            # Not dot_product_attention: its softmax is float32 even where everything else is float64.
            mixed = _mix(q, k, v, mask, lambda weights: self.drop_weights(weights, deterministic=deterministic))
        return self.norm(asking + self.drop(self.output(mixed), deterministic=deterministic))

    def rows(self, x: jax.Array, mask: jax.Array, positions: jax.Array) -> jax.Array:
        """Attention probabilities from the given positions, averaged over the heads: [rows, Q, T] float32."""
        q = self.query(jnp.take_along_axis(x, positions[:, :, None], axis=1))
        return _attention(q, self.key(x), _mask_rows(mask, positions)).mean(axis=1)


def _mask_rows(mask: jax.Array, positions: jax.Array) -> jax.Array:
    return jnp.take_along_axis(mask, positions[:, None, :, None], axis=2)


def _mix(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array, drop: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """softmax(q·kᵀ/√d)·v, [rows, T, heads, head_dim] of v's dtype.

    Heads go before tokens and the division by the softmax's sum comes last: XLA on CPU then runs plain batched matrix
    products, and the forward pass takes 23 to 33 ms instead of 90 (16 × 256 tokens, 12 heads of 32, 2 cores).
    """
    wide = jnp.promote_types(q.dtype, jnp.float32)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    logits = jnp.einsum("rhtd,rhsd->rhts", q, k, preferred_element_type=wide) / jnp.sqrt(jnp.asarray(q.shape[-1], wide))
    logits += jnp.where(mask, 0.0, -1e30).astype(wide)
    weights = jnp.exp(logits - lax.stop_gradient(logits.max(-1, keepdims=True)))
    mixed = jnp.einsum("rhts,rhsd->rhtd", drop(weights).astype(v.dtype), v, preferred_element_type=wide)
    return jnp.swapaxes(mixed / weights.sum(-1)[..., None], 1, 2).astype(v.dtype)


def _attention(q: jax.Array, k: jax.Array, mask: jax.Array) -> jax.Array:
    wide = jnp.promote_types(q.dtype, jnp.float32)
    logits = jnp.einsum("rthd,rshd->rhts", q, k, preferred_element_type=wide) / jnp.sqrt(jnp.asarray(q.shape[-1], wide))
    return jax.nn.softmax(jnp.where(mask, logits, jnp.finfo(wide).min), axis=-1)


class Mlp(nn.Module):
    config: BertConfig

    def setup(self) -> None:
        c = self.config
        self.up = nn.Dense(c.intermediate, dtype=c.dtype, kernel_init=_normal(c))
        self.down = nn.Dense(c.hidden, dtype=c.dtype, kernel_init=_normal(c))
        self.norm = _norm(c)
        self.drop = nn.Dropout(c.dropout)

    def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
        return self.norm(x + self.drop(self.down(gelu(self.up(x))), deterministic=deterministic))


class Layer(nn.Module):
    config: BertConfig

    def setup(self) -> None:
        self.attention, self.mlp = SelfAttention(self.config), Mlp(self.config)

    def __call__(
        self, x: jax.Array, mask: jax.Array, deterministic: bool, positions: jax.Array | None = None
    ) -> jax.Array:
        return self.mlp(self.attention(x, mask, deterministic, positions), deterministic)


class Embeddings(nn.Module):
    config: BertConfig

    def setup(self) -> None:
        c = self.config
        self.word = nn.Embed(c.vocab_size, c.hidden, dtype=c.dtype, embedding_init=_normal(c))
        self.position = nn.Embed(c.max_positions, c.hidden, dtype=c.dtype, embedding_init=_normal(c))
        self.token_type = nn.Embed(c.type_vocab, c.hidden, dtype=c.dtype, embedding_init=_normal(c))
        self.norm = _norm(c)
        self.drop = nn.Dropout(c.dropout)

    def __call__(self, tokens: jax.Array, positions: jax.Array, types: jax.Array, deterministic: bool) -> jax.Array:
        x = self.word(tokens) + self.position(positions) + self.token_type(types)
        return self.drop(self.norm(x), deterministic=deterministic)


class Bert(nn.Module):
    """The encoder. All inputs are [rows, T] int32; segment 0 is padding; position and type ids restart per sequence."""

    config: BertConfig

    def setup(self) -> None:
        self.embeddings = Embeddings(self.config)
        for i in range(self.config.layers):
            setattr(self, f"layer_{i}", Layer(self.config))

    def __call__(
        self,
        tokens: jax.Array,
        segment_ids: jax.Array,
        position_ids: jax.Array,
        token_type_ids: jax.Array,
        deterministic: bool = True,
        positions: jax.Array | None = None,
    ) -> jax.Array:
        """Hidden states [rows, T, hidden] in the computation's dtype.

        With `positions` [rows, Q] those of these positions alone, [rows, Q, hidden]: the last layer then computes keys
        and values of all tokens and nothing else of the others, which saves most of it.
        """
        x = self.embeddings(tokens, position_ids, token_type_ids, deterministic)
        mask = segment_mask(segment_ids)
        for i in range(self.config.layers):
            last = i == self.config.layers - 1
            x = getattr(self, f"layer_{i}")(x, mask, deterministic, positions if last else None)
        return x

    def attention_rows(
        self,
        tokens: jax.Array,
        segment_ids: jax.Array,
        position_ids: jax.Array,
        token_type_ids: jax.Array,
        query_positions: jax.Array,
    ) -> jax.Array:
        """The last layer's attention from `query_positions` [rows, Q], averaged over heads: [rows, Q, T] float32.

        Only Q and K of the last layer are computed, and K·Q for the asked rows alone (HARP Eq. 1, 5, 10, 13).
        """
        x = self.embeddings(tokens, position_ids, token_type_ids, deterministic=True)
        mask = segment_mask(segment_ids)
        for i in range(self.config.layers - 1):
            x = getattr(self, f"layer_{i}")(x, mask, True)
        return getattr(self, f"layer_{self.config.layers - 1}").attention.rows(x, mask, query_positions)


def _normal(config: BertConfig) -> Any:
    return nn.initializers.truncated_normal(config.initializer_range)


def _norm(config: BertConfig) -> Norm:
    wide = jnp.promote_types(config.dtype, jnp.float32)
    return Norm(epsilon=config.layer_norm_eps, dtype=wide, use_fast_variance=False)
