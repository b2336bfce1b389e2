"""BERT over packed rows: several sequences per row, attention within each sequence only.

The parameters are a plain nested dict, used directly by the sharding rules, the Hugging Face mapping and Orbax. In this order:
shape and config.json; the Linen modules; sharding; FLOPs; the table of Hugging Face's tensors; ENCODER.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from harp_jax.model import layers
from harp_jax.model.attention import attend, probabilities
from harp_jax.model.encoders.encoder import (
    SIZES,
    Encoder,
    EncoderConfig,
    Field,
    HeadNames,
    Leaf,
    Tensors,
    dense_leaves,
    norm_leaves,
    read_fields,
    with_heads,
)
from harp_jax.model.products import dot_general


@dataclass(frozen=True)
class BertShape(EncoderConfig):
    max_positions: int = 512
    type_vocab: int = 2
    model_type: str = "bert"


FIELDS: dict[str, Field] = {
    **SIZES,
    "max_position_embeddings": ("max_positions", 1, 1 << 20),
    "type_vocab_size": ("type_vocab", 1, 1 << 10),
    "layer_norm_eps": ("layer_norm_eps", 0.0, 1.0),
    "hidden_dropout_prob": ("dropout", 0.0, 1.0),
    "attention_probs_dropout_prob": ("attention_dropout", 0.0, 1.0),
}
FIXED = {"hidden_act": "gelu", "position_embedding_type": "absolute"}  # the only values that this file computes


def from_config(
    kind: type[BertShape], fields: Mapping[str, Field], fixed: Mapping[str, Any], config: Mapping[str, Any], where: str
) -> BertShape:
    """The encoder's shape from a config as transformers reads it; InputError for one that this file does not compute, such as
    narrower embeddings (ELECTRA's small discriminator, generators). Attention dropout is off here unless a training config turns it
    on."""
    expected = {**fixed, "is_decoder": False, "embedding_size": config.get("hidden_size")}
    shape = kind(**{**read_fields(config, fields, expected, where), "attention_dropout": 0.0})
    # RoBERTa's config.json also counts the first rows of the position table, which are never read.
    positions = {"max_position_embeddings": shape.max_positions - shape.first_position}
    return replace(shape, **read_fields(positions, {name: fields[name] for name in positions}, {}, where))


def to_config(
    shape: BertShape, fields: Mapping[str, Field] = FIELDS, fixed: Mapping[str, Any] = FIXED
) -> dict[str, Any]:
    """The inverse of `from_config`."""
    config = {field: getattr(shape, ours) for field, (ours, *_) in fields.items()}
    config["max_position_embeddings"] += shape.first_position
    return {"model_type": shape.model_type, **config, **fixed}


class ToHeads(nn.Module):
    """A dense layer to [rows, T, heads, head_dim]. The bias is added to a matrix, so that cuBLASLt fuses it into the product."""

    config: BertShape

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        c, split = self.config, (self.config.heads, self.config.head_dim)
        drawn = lambda key, shape, dtype: layers.initializer(c)(key, (c.hidden, c.hidden), dtype).reshape(shape)  # noqa: E731
        kernel = (
            self.param("kernel", drawn, (c.hidden, *split), jnp.float32).astype(c.dtype).reshape(c.hidden, c.hidden)
        )
        bias = self.param("bias", nn.initializers.zeros, split, jnp.float32).astype(c.dtype)
        product = dot_general(x.astype(c.dtype), kernel, (((x.ndim - 1,), (0,)), ((), ())))
        return (product + bias.reshape(-1)).reshape(*x.shape[:-1], *split)


class SelfAttention(nn.Module):
    config: BertShape

    def setup(self) -> None:
        c = self.config
        self.query, self.key, self.value = (ToHeads(c) for _ in range(3))
        self.output = nn.DenseGeneral(c.hidden, axis=(-2, -1), **layers.dense(c))
        self.norm = layers.layer_norm(c)
        self.drop, self.drop_weights = layers.Dropout(c.dropout), layers.Dropout(c.attention_dropout)

    def __call__(
        self, x: jax.Array, segments: jax.Array, deterministic: bool, positions: jax.Array | None
    ) -> jax.Array:
        """Attend from all tokens, or from `positions` [rows, Q] only: [rows, T or Q, hidden]."""
        queries = layers.gather_positions(x, positions)
        q, k, v = self.query(queries), self.key(x), self.value(x)
        drop = lambda weights: self.drop_weights(weights, deterministic)  # noqa: E731
        own = layers.gather_positions(segments, positions)
        mixed = attend(q, k, v, own, segments, layers.attention_of(self, x, positions), drop)
        return self.norm(queries + self.drop(self.output(mixed), deterministic))

    def rows(self, x: jax.Array, segments: jax.Array, positions: jax.Array) -> jax.Array:
        """Attention probabilities from `positions` [rows, Q], averaged over heads: [rows, Q, T] float32."""
        q, k = self.query(layers.gather_positions(x, positions)), self.key(x)
        return probabilities(q, k, layers.gather_positions(segments, positions), segments).mean(axis=1)


class Mlp(nn.Module):
    config: BertShape

    def setup(self) -> None:
        c = self.config
        self.up = nn.Dense(c.intermediate, **layers.dense(c))
        self.down = nn.Dense(c.hidden, **layers.dense(c))
        self.norm = layers.layer_norm(c)
        self.drop = layers.Dropout(c.dropout)

    def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
        down = layers.recompute_on_gpu(lambda mlp, hidden: mlp.down(layers.gelu(hidden)), self, self.up(x))
        return self.norm(x + self.drop(down, deterministic))


class Layer(nn.Module):
    config: BertShape

    def setup(self) -> None:
        self.attention, self.mlp = SelfAttention(self.config), Mlp(self.config)

    def __call__(
        self, x: jax.Array, segments: jax.Array, deterministic: bool, positions: jax.Array | None
    ) -> jax.Array:
        return self.mlp(self.attention(x, segments, deterministic, positions), deterministic)


class Embeddings(nn.Module):
    config: BertShape

    def setup(self) -> None:
        c = self.config
        # Embeddings in at least float32: the gradient of [SEP] sums thousands of positions, which bfloat16 would lose.
        wide = jnp.promote_types(c.dtype, jnp.float32)
        self.word = layers.Words(c.vocab_size, c.hidden, dtype=wide, embedding_init=layers.initializer(c))
        rows = c.first_position + c.max_positions
        self.position = nn.Embed(rows, c.hidden, dtype=wide, embedding_init=layers.initializer(c))
        if c.type_vocab:
            self.token_type = nn.Embed(c.type_vocab, c.hidden, dtype=wide, embedding_init=layers.initializer(c))
        self.norm = layers.layer_norm(c)
        self.drop = layers.Dropout(c.dropout)

    def __call__(self, tokens: jax.Array, positions: jax.Array, types: jax.Array, deterministic: bool) -> jax.Array:
        x = self.word(tokens) + self.position(positions + self.config.first_position)
        if self.config.type_vocab:
            # The gradient of a lookup adds thousands of positions to each row of the table, which a GPU does one by one. A term for
            # each row instead: BERT has two, but a file may have many.
            if self.config.type_vocab <= 16:
                x += sum(jnp.where((types == n)[..., None], row, 0) for n, row in enumerate(self.token_type.embedding))
            else:
                x += self.token_type(types)
        return self.drop(self.norm(x).astype(self.config.dtype), deterministic)


class Bert(nn.Module):
    """The encoder. A batch's arrays are [rows, T] int32; segment 0 is padding; position and type ids restart per sequence."""

    config: BertShape

    def setup(self) -> None:
        self.embeddings = Embeddings(self.config)
        layer = layers.rematerialised(Layer, self.config.remat)
        for i in range(self.config.layers):
            setattr(self, f"layer_{i}", layer(self.config))

    def __call__(
        self, batch: Mapping[str, jax.Array], deterministic: bool = True, positions: jax.Array | None = None
    ) -> jax.Array:
        """Hidden states [rows, T, hidden] in the computation's dtype (float32 where a CPU computes in bfloat16, see products.py).
        With `positions` [rows, Q], only the hidden states of these positions, [rows, Q, hidden]: for the other tokens, the last
        layer then computes only keys and values, which saves most of its cost."""
        x = self._embedded(batch, deterministic)
        for i in range(self.config.layers):
            last = i == self.config.layers - 1
            x = getattr(self, f"layer_{i}")(x, batch["segment_ids"], deterministic, positions if last else None)
        return x

    def attention_rows(self, batch: Mapping[str, jax.Array], positions: jax.Array) -> jax.Array:
        """The last layer's attention from `positions` [rows, Q], averaged over heads: [rows, Q, T] float32. The last layer computes
        only Q and K, and K·Q only for these positions (HARP Eq. 1, 5, 10, 13)."""
        x = self._embedded(batch, deterministic=True)
        for i in range(self.config.layers - 1):
            x = getattr(self, f"layer_{i}")(x, batch["segment_ids"], True, None)
        return getattr(self, f"layer_{self.config.layers - 1}").attention.rows(x, batch["segment_ids"], positions)

    def _embedded(self, batch: Mapping[str, jax.Array], deterministic: bool) -> jax.Array:
        tokens, positions = batch["tokens"], batch["position_ids"]
        if self.config.first_position:
            positions = without_padding_tokens(tokens, positions, self.config.pad)
        return self.embeddings(tokens, positions, batch["token_type_ids"], deterministic)


def without_padding_tokens(tokens: jax.Array, positions: jax.Array, pad: int) -> jax.Array:
    """Positions [rows, T] as RoBERTa counts them: a padding token, as `<pad>` in a text, has -1 and is not counted."""
    padding = (tokens == pad).astype(jnp.int32)
    before = jnp.cumsum(padding, axis=1) - padding
    starts = jnp.arange(tokens.shape[1]) - positions  # of each token's sequence in the row
    return jnp.where(padding == 1, -1, positions - before + jnp.take_along_axis(before, starts, axis=1))


class Pooler(nn.Dense):
    """A dense layer of a sequence's first hidden state, and an activation: the input of the score."""

    activation: Callable[[jax.Array], jax.Array] = jnp.tanh

    def __call__(self, pooled: jax.Array) -> jax.Array:  # type: ignore[override]
        return self.activation(super().__call__(pooled))


RULES: tuple[tuple[str, P], ...] = (
    (r"embeddings/word/embedding$", P("model", "fsdp")),
    (r"embeddings/(position|token_type)/embedding$", P(None, "fsdp")),
    (r"attention/(query|key|value)/kernel$", P("fsdp", "model", None)),
    (r"attention/(query|key|value)/bias$", P("model", None)),
    (r"attention/output/kernel$", P("model", None, "fsdp")),
    (r"mlp/up/kernel$", P("fsdp", "model")),
    (r"mlp/up/bias$", P("model")),
    (r"mlp/down/kernel$", P("model", "fsdp")),
    (r"encoder/.*(norm/(scale|bias)|output/bias|down/bias)$", P()),
)


def leaves(root: str, names: HeadNames, c: BertShape) -> dict[str, list[Leaf]]:
    """The tensors of the encoder, Hugging Face's module `root`, and of each head, without the tied MLM decoder."""
    h, encoder = c.hidden, []
    for name, rows in (
        ("word", c.vocab_size), ("position", c.first_position + c.max_positions), ("token_type", c.type_vocab)
    ):  # fmt: skip
        path = ("encoder", "embeddings", name, "embedding")
        if rows:
            encoder.append(Leaf(path, f"{root}.embeddings.{name}_embeddings.weight", (rows, h), (rows, h)))
    encoder += norm_leaves("encoder/embeddings/norm", f"{root}.embeddings.LayerNorm", h)
    for i in range(c.layers):
        ours, theirs = f"encoder/layer_{i}", f"{root}.encoder.layer.{i}"
        split = (c.heads, c.head_dim)
        for part in ("query", "key", "value"):
            name = f"{theirs}.attention.self.{part}"
            encoder += dense_leaves(f"{ours}/attention/{part}", name, h, h, (h, *split), split)
        name = f"{theirs}.attention.output"
        encoder += dense_leaves(f"{ours}/attention/output", f"{name}.dense", h, h, (*split, h))
        encoder += norm_leaves(f"{ours}/attention/norm", f"{name}.LayerNorm", h)
        encoder += dense_leaves(f"{ours}/mlp/up", f"{theirs}.intermediate.dense", h, c.intermediate)
        encoder += dense_leaves(f"{ours}/mlp/down", f"{theirs}.output.dense", c.intermediate, h)
        encoder += norm_leaves(f"{ours}/mlp/norm", f"{theirs}.output.LayerNorm", h)
    return {
        "encoder": encoder,
        "pooler": dense_leaves("pooler", names.pooler, h, h),
        "score": dense_leaves("score", names.score, h, 1),
        "mlm": [
            *dense_leaves("mlm/transform", names.transform, h, h),
            *norm_leaves("mlm/norm", names.norm, h),
            Leaf(("mlm", "bias"), names.bias, (c.vocab_size,), (c.vocab_size,)),
        ],
    }


def read(root: str, names: HeadNames, tensors: Tensors, where: str) -> Tensors:
    """Old files have gamma and beta; a bare encoder lacks the prefix `root`."""
    state: Tensors = {}
    for name, tensor in tensors.items():
        for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
            name = name.removesuffix(old) + new if name.endswith(old) else name
        bare = name.startswith(("embeddings.", "encoder.", "transformer.", "pooler."))
        state[f"{root}.{name}" if bare else name] = tensor
    return with_heads(state, names, f"{root}.embeddings.word_embeddings.weight", where)


def encoder(
    kind: type[BertShape],
    root: str,
    prefix: str,
    names: HeadNames,
    *,
    fields: Mapping[str, Field] = FIELDS,
    fixed: Mapping[str, Any] = FIXED,
    activation: tuple[str, Callable[[jax.Array], jax.Array]] = ("Tanh", jnp.tanh),
    vocabulary: int = 30522,
) -> Encoder:
    """The record of an architecture with BERT's layers: Hugging Face's module `root`, and the `prefix` of its classes."""
    return Encoder(
        shape=kind,
        from_config=partial(from_config, kind, fields, fixed),
        to_config=partial(to_config, fields=fields, fixed=fixed),
        module=Bert,
        rules=RULES,
        leaves=partial(leaves, root, names),
        read=partial(read, root, names),
        prefix=prefix,
        last_attention=f"{root}.encoder.layer.{{}}.attention",
        vocabulary=vocabulary,
        pooler=lambda c: Pooler(c.hidden, dtype=c.dtype, kernel_init=layers.initializer(c), activation=activation[1]),
        modules=(activation[0],),
    )


def written(state: Tensors) -> Tensors:
    """With both heads the score is also row 1 of BertForPreTraining's `cls.seq_relationship`; row 0 is zero."""
    if {"classifier.weight", "cls.predictions.bias"} <= state.keys():
        for part in ("weight", "bias"):
            score = state[f"classifier.{part}"]
            state[f"cls.seq_relationship.{part}"] = np.concatenate([np.zeros_like(score), score])
    return state


NAMES = HeadNames(
    "bert.pooler.dense", "classifier", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
    "cls.predictions.decoder", "cls.predictions.bias",
)  # fmt: skip
ENCODER = replace(encoder(BertShape, "bert", "Bert", NAMES), written=written, pretraining="BertForPreTraining")
