"""BERT's encoder in Linen over packed rows: several sequences per row, attention within each sequence only.

The parameters are a plain nested dict, used directly by the sharding rules, the Hugging Face mapping and Orbax.
"""

from dataclasses import dataclass, replace
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

from harp_jax.base.errors import InputError
from harp_jax.model.attention import IMPLEMENTATIONS, attend, choose, place_of, probabilities
from harp_jax.model.dropout import Dropout
from harp_jax.model.products import dot_general
from harp_jax.model.tied_embeddings import by_parts

REMAT = ("none", "dots", "layer")


@dataclass(frozen=True)
class BertConfig:
    """The shape of an encoder. `dtype` is that of the computation; parameters keep their own dtype, float32 in training.

    Raises InputError for an inconsistent shape.
    """

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
    attention: str = "auto"  # see attention.py
    remat: str = "none"  # see `rematerialised`
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise InputError(f"model.hidden={self.hidden} is not a multiple of model.heads={self.heads}; change one")
        for name, value, known in (("attention", self.attention, IMPLEMENTATIONS), ("remat", self.remat, REMAT)):
            if value not in known:
                raise InputError(f"model.{name}={value!r} is unknown; choose from {', '.join(known)}")
        if self.attention_dropout and self.attention not in ("auto", "xla"):
            raise InputError(
                f"model.attention={self.attention!r} has no dropout of attention weights; set model.attention_dropout=0 or "
                "model.attention='xla'"
            )

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def drops(self) -> bool:
        """Whether training uses dropout."""
        return self.dropout > 0 or self.attention_dropout > 0

    def computing_in(self, dtype: str) -> "BertConfig":
        return replace(self, dtype=dtype)


def gelu(x: jax.Array) -> jax.Array:
    """BERT's exact GELU (erf); the tanh approximation changes logits by 9e-5 and would break parity."""
    return 0.5 * x * (1.0 + lax.erf(x * 0.7071067811865476))


class Norm(nn.LayerNorm):
    """Layer norm computed in at least float32 (bfloat16 means lose three digits), returned in the input's dtype."""

    def __call__(self, x: jax.Array) -> jax.Array:  # type: ignore[override]
        return super().__call__(x).astype(x.dtype)


class SelfAttention(nn.Module):
    config: BertConfig

    def setup(self) -> None:
        c = self.config
        self.query, self.key, self.value = (nn.DenseGeneral((c.heads, c.head_dim), **_dense(c)) for _ in range(3))
        self.output = nn.DenseGeneral(c.hidden, axis=(-2, -1), **_dense(c))
        self.norm = layer_norm(c)
        self.drop, self.drop_weights = Dropout(c.dropout), Dropout(c.attention_dropout)

    def __call__(
        self, x: jax.Array, segments: jax.Array, deterministic: bool, positions: jax.Array | None
    ) -> jax.Array:
        """Attend from all tokens, or from `positions` [rows, Q] only: [rows, T or Q, hidden]."""
        c = self.config
        queries, query_segments = x, segments
        implementation = "xla"
        # A kernel does not pay off for a few queries, and it may not support their number, nor the few tokens of `init`.
        if positions is None and not self.is_initializing():
            platform = place_of(x).platform
            implementation = choose(c.attention, c.dtype, c.attention_dropout > 0, platform, x.shape[1])
        elif positions is not None:
            queries = jnp.take_along_axis(x, positions[:, :, None], axis=1)
            query_segments = jnp.take_along_axis(segments, positions, axis=1)
        q, k, v = self.query(queries), self.key(x), self.value(x)
        mixed = attend(q, k, v, query_segments, segments, implementation, lambda w: self.drop_weights(w, deterministic))
        return self.norm(queries + self.drop(self.output(mixed), deterministic))

    def rows(self, x: jax.Array, segments: jax.Array, positions: jax.Array) -> jax.Array:
        """Attention probabilities from `positions` [rows, Q], averaged over heads: [rows, Q, T] float32."""
        q = self.query(jnp.take_along_axis(x, positions[:, :, None], axis=1))
        query_segments = jnp.take_along_axis(segments, positions, axis=1)
        return probabilities(q, self.key(x), query_segments, segments).mean(axis=1)


class Mlp(nn.Module):
    config: BertConfig

    def setup(self) -> None:
        c = self.config
        self.up = nn.Dense(c.intermediate, **_dense(c))
        self.down = nn.Dense(c.hidden, **_dense(c))
        self.norm = layer_norm(c)
        self.drop = Dropout(c.dropout)

    def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
        return self.norm(x + self.drop(self.down(gelu(self.up(x))), deterministic))


class Layer(nn.Module):
    config: BertConfig

    def setup(self) -> None:
        self.attention, self.mlp = SelfAttention(self.config), Mlp(self.config)

    def __call__(
        self, x: jax.Array, segments: jax.Array, deterministic: bool, positions: jax.Array | None
    ) -> jax.Array:
        return self.mlp(self.attention(x, segments, deterministic, positions), deterministic)


def rematerialised(policy: str) -> type[Layer]:
    """`Layer` with a rematerialisation policy, which selects what the backward pass recomputes instead of storing:

    "none"    nothing: fastest if memory suffices
    "dots"    all but the projections: attention scores, softmax, GELU, norms, dropout
    "layer"   everything but the layer's input: a third more FLOPs, the least memory
    """
    policies = {"dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable, "layer": None}
    return Layer if policy == "none" else nn.remat(Layer, static_argnums=(3,), policy=policies[policy])


class Words(nn.Embed):
    """Word embeddings; parameters may also be [parts, vocab, hidden], a copy per part of the rows (tied_embeddings.py)."""

    def setup(self) -> None:
        copies: Any = self.get_variable("params", "embedding")
        if copies is not None and copies.ndim == 3:
            self.embedding = copies
        else:
            super().setup()

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """[rows, T] int32 → [rows, T, hidden]."""
        words = self.embedding.astype(self.dtype)
        return by_parts(lambda words, tokens: jnp.take(words, tokens, axis=0), words, tokens)


class Embeddings(nn.Module):
    config: BertConfig

    def setup(self) -> None:
        c = self.config
        # Embeddings in at least float32: the gradient of [SEP] sums thousands of positions, which bfloat16 would lose.
        wide = jnp.promote_types(c.dtype, jnp.float32)
        self.word = Words(c.vocab_size, c.hidden, dtype=wide, embedding_init=initializer(c))
        self.position = nn.Embed(c.max_positions, c.hidden, dtype=wide, embedding_init=initializer(c))
        self.token_type = nn.Embed(c.type_vocab, c.hidden, dtype=wide, embedding_init=initializer(c))
        self.norm = layer_norm(c)
        self.drop = Dropout(c.dropout)

    def __call__(self, tokens: jax.Array, positions: jax.Array, types: jax.Array, deterministic: bool) -> jax.Array:
        x = self.word(tokens) + self.position(positions) + self.token_type(types)
        return self.drop(self.norm(x).astype(self.config.dtype), deterministic)


class Bert(nn.Module):
    """The encoder. All inputs are [rows, T] int32; segment 0 is padding; position and type ids restart per sequence."""

    config: BertConfig

    def setup(self) -> None:
        self.embeddings = Embeddings(self.config)
        layer = rematerialised(self.config.remat)
        for i in range(self.config.layers):
            setattr(self, f"layer_{i}", layer(self.config))

    def __call__(
        self,
        tokens: jax.Array,
        segment_ids: jax.Array,
        position_ids: jax.Array,
        token_type_ids: jax.Array,
        deterministic: bool = True,
        positions: jax.Array | None = None,
    ) -> jax.Array:
        """Hidden states [rows, T, hidden] in the computation's dtype (float32 where a CPU computes in bfloat16, see products.py).

        With `positions` [rows, Q], the hidden states of these positions only, [rows, Q, hidden]: of the other tokens, the
        last layer then computes keys and values only, which saves most of its cost.
        """
        x = self.embeddings(tokens, position_ids, token_type_ids, deterministic)
        for i in range(self.config.layers):
            last = i == self.config.layers - 1
            x = getattr(self, f"layer_{i}")(x, segment_ids, deterministic, positions if last else None)
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

        Of the last layer only Q and K are computed, and K·Q only for these positions (HARP Eq. 1, 5, 10, 13).
        """
        x = self.embeddings(tokens, position_ids, token_type_ids, deterministic=True)
        for i in range(self.config.layers - 1):
            x = getattr(self, f"layer_{i}")(x, segment_ids, True, None)
        return getattr(self, f"layer_{self.config.layers - 1}").attention.rows(x, segment_ids, query_positions)


def initializer(config: BertConfig) -> nn.initializers.Initializer:
    """Truncated normal with BERT's standard deviation, for every kernel and embedding."""
    return nn.initializers.truncated_normal(config.initializer_range)


def _dense(config: BertConfig) -> dict[str, Any]:
    return dict(dtype=config.dtype, kernel_init=initializer(config), dot_general=dot_general)


def layer_norm(config: BertConfig) -> Norm:
    """The layer norm of a shape, computed in at least float32."""
    wide = jnp.promote_types(config.dtype, jnp.float32)
    return Norm(epsilon=config.layer_norm_eps, dtype=wide, use_fast_variance=False)
