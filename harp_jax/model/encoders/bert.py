"""BERT over packed rows: several sequences per row, attention within each sequence only.

The parameters are a plain nested dict, used directly by the sharding rules, the Hugging Face mapping and Orbax. In this order:
shape, with config.json, sharding and Hugging Face's tensors; the Linen modules.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from harp_jax.model import layers
from harp_jax.model.attention import attend, probabilities
from harp_jax.model.encoders.encoder import (
    SIZES,
    EncoderConfig,
    Field,
    HeadNames,
    Leaf,
    Tensors,
    dense_leaves,
    head_leaves,
    norm_leaves,
    read_fields,
    with_heads,
)
from harp_jax.model.products import dot_general


@dataclass(frozen=True)
class BertShape(EncoderConfig):
    """BERT, and the base of the architectures with its layers (table.py)."""

    max_positions: int = 512
    type_vocab: int = 2
    model_type: str = "bert"

    vocabulary = 30522
    prefix = "Bert"
    pretraining = "BertForPreTraining"
    last_attention = "bert.encoder.layer.{}.attention"
    modules = ("Tanh",)
    root: ClassVar[str] = "bert"  # Hugging Face's module
    names = HeadNames(
        "bert.pooler.dense", "classifier", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
        "cls.predictions.decoder", "cls.predictions.bias",
    )  # fmt: skip
    renamed: ClassVar[Sequence[tuple[str, str]]] = ()  # parts of the names of the encoder's tensors, in this order
    fields: ClassVar[Mapping[str, Field]] = {
        **SIZES,
        "max_position_embeddings": ("max_positions", 1, 1 << 20),
        "type_vocab_size": ("type_vocab", 1, 1 << 10),
        "layer_norm_eps": ("layer_norm_eps", 0.0, 1.0),
        "hidden_dropout_prob": ("dropout", 0.0, 1.0),
        "attention_probs_dropout_prob": ("attention_dropout", 0.0, 1.0),
    }
    fixed: ClassVar[Mapping[str, Any]] = {"hidden_act": "gelu", "position_embedding_type": "absolute"}
    rules = (
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

    @classmethod
    def from_config(cls, config: Mapping[str, Any], where: str) -> Self:
        """InputError for a shape that this file does not compute, such as narrower embeddings (ELECTRA's small discriminator,
        generators). Attention dropout is off here unless a training config turns it on."""
        expected = {**cls.fixed, "is_decoder": False, "embedding_size": config.get("hidden_size")}
        shape = cls(**{**read_fields(config, cls.fields, expected, where), "attention_dropout": 0.0})
        # RoBERTa's config.json also counts the first rows of the position table, which are never read.
        positions = {"max_position_embeddings": shape.max_positions - shape.first_position}
        return replace(shape, **read_fields(positions, {name: cls.fields[name] for name in positions}, {}, where))

    def to_config(self) -> dict[str, Any]:
        config = {field: getattr(self, ours) for field, (ours, *_) in self.fields.items()}
        config["max_position_embeddings"] += self.first_position
        return {"model_type": self.model_type, **config, **self.fixed}

    def module(self, name: str | None = None) -> nn.Module:
        return Bert(self, name=name)

    def pooler(self) -> nn.Module:
        activation = {"Tanh": jnp.tanh, "ReLU": nn.relu, "GELU": layers.gelu}[self.modules[0]]
        return Pooler(self.hidden, dtype=self.dtype, kernel_init=layers.initializer(self), activation=activation)

    def leaves(self) -> dict[str, list[Leaf]]:
        h, split, encoder = self.hidden, (self.heads, self.head_dim), []
        for name, rows in (
            ("word", self.vocab_size),
            ("position", self.position_rows),
            ("token_type", self.type_vocab),
        ):
            path = ("encoder", "embeddings", name, "embedding")
            if rows:
                encoder.append(Leaf(path, f"{self.root}.embeddings.{name}_embeddings.weight", (rows, h), (rows, h)))
        encoder += norm_leaves("encoder/embeddings/norm", f"{self.root}.embeddings.LayerNorm", h)
        for i in range(self.layers):
            ours, theirs = f"encoder/layer_{i}", f"{self.root}.encoder.layer.{i}"
            for part in ("query", "key", "value"):
                encoder += dense_leaves(f"{ours}/attention/{part}", f"{theirs}.attention.self.{part}", (h,), split)
            name = f"{theirs}.attention.output"
            encoder += dense_leaves(f"{ours}/attention/output", f"{name}.dense", split, (h,))
            encoder += norm_leaves(f"{ours}/attention/norm", f"{name}.LayerNorm", h)
            encoder += dense_leaves(f"{ours}/mlp/up", f"{theirs}.intermediate.dense", (h,), (self.intermediate,))
            encoder += dense_leaves(f"{ours}/mlp/down", f"{theirs}.output.dense", (self.intermediate,), (h,))
            encoder += norm_leaves(f"{ours}/mlp/norm", f"{theirs}.output.LayerNorm", h)
        for ours, theirs in self.renamed:
            encoder = [leaf._replace(name=leaf.name.replace(ours, theirs)) for leaf in encoder]
        return {
            "encoder": encoder,
            "pooler": dense_leaves("pooler", self.names.pooler, (h,), (h,)),
            **head_leaves(self.names, self),
        }

    @classmethod
    def read(cls, tensors: Tensors, where: str) -> Tensors:
        """Old files have gamma and beta; a bare encoder lacks the prefix `root`."""
        state: Tensors = {}
        for name, tensor in tensors.items():
            for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
                name = name.removesuffix(old) + new if name.endswith(old) else name
            bare = name.startswith(("embeddings.", "encoder.", "transformer.", "pooler."))
            state[f"{cls.root}.{name}" if bare else name] = tensor
        return with_heads(state, cls.names, f"{cls.root}.embeddings.word_embeddings.weight", where)

    @classmethod
    def written(cls, state: Tensors) -> Tensors:
        """With both heads the score is also row 1 of BertForPreTraining's `cls.seq_relationship`; row 0 is zero."""
        if {"classifier.weight", "cls.predictions.bias"} <= state.keys():
            for part in ("weight", "bias"):
                score = state[f"classifier.{part}"]
                state[f"cls.seq_relationship.{part}"] = np.concatenate([np.zeros_like(score), score])
        return state


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

    def __call__(self, x: jax.Array, segments: jax.Array, deterministic: bool, at: jax.Array | None) -> jax.Array:
        """Attends from all tokens, or only from those at the positions `at` [rows, Q]: [rows, T or Q, hidden]."""
        queries = layers.gather_positions(x, at)
        q, k, v = self.query(queries), self.key(x), self.value(x)
        drop = lambda weights: self.drop_weights(weights, deterministic)  # noqa: E731
        own = layers.gather_positions(segments, at)
        mixed = attend(q, k, v, own, segments, layers.attention_of(self, x, at), drop)
        return self.norm(queries + self.drop(self.output(mixed), deterministic))

    def rows(self, x: jax.Array, segments: jax.Array, at: jax.Array) -> jax.Array:
        q, k = self.query(layers.gather_positions(x, at)), self.key(x)
        return probabilities(q, k, layers.gather_positions(segments, at), segments).mean(axis=1)


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
    number: int

    def setup(self) -> None:
        self.attention, self.mlp = SelfAttention(self.config), Mlp(self.config)

    def __call__(self, x: jax.Array, segments: jax.Array, deterministic: bool, at: jax.Array | None) -> jax.Array:
        return self.mlp(self.attention(x, segments, deterministic, at), deterministic)

    def rows(self, x: jax.Array, segments: jax.Array, at: jax.Array) -> jax.Array:
        """Attention probabilities from the positions `at` [rows, Q], averaged over heads: [rows, Q, T] float32."""
        return self.attention.rows(x, segments, at)


class Embeddings(nn.Module):
    config: EncoderConfig

    def setup(self) -> None:
        c = self.config
        # Embeddings in at least float32: the gradient of [SEP] sums thousands of positions, which bfloat16 would lose.
        wide = jnp.promote_types(c.dtype, jnp.float32)
        self.word = layers.Words(c.vocab_size, c.hidden, dtype=wide, embedding_init=layers.initializer(c))
        if c.position_rows:
            self.position = nn.Embed(c.position_rows, c.hidden, dtype=wide, embedding_init=layers.initializer(c))
        if c.type_vocab:
            self.token_type = nn.Embed(c.type_vocab, c.hidden, dtype=wide, embedding_init=layers.initializer(c))
        self.norm = layers.layer_norm(c)
        self.drop = layers.Dropout(c.dropout)

    def __call__(self, tokens: jax.Array, positions: jax.Array, types: jax.Array, deterministic: bool) -> jax.Array:
        x = self.word(tokens)
        if self.config.position_rows:
            x += self.position(positions + self.config.first_position)
        # The gradient of a lookup adds thousands of positions to each row of the table, which a GPU does one by one. A term for
        # each row instead: BERT has two, but a file may have many.
        if 0 < self.config.type_vocab <= 16:
            x += sum(jnp.where((types == n)[..., None], row, 0) for n, row in enumerate(self.token_type.embedding))
        elif self.config.type_vocab:
            x += self.token_type(types)
        return self.drop(self.norm(x).astype(self.config.dtype), deterministic)


class Bert(nn.Module):
    """The encoder. A batch's arrays are [rows, T] int32; segment 0 is padding; position and type ids restart per sequence."""

    config: EncoderConfig
    kind: ClassVar[type[nn.Module]] = Layer  # of the layers

    def setup(self) -> None:
        self.embeddings = Embeddings(self.config)
        layer = layers.rematerialised(self.kind, self.config.remat)
        for i in range(self.config.layers):
            setattr(self, f"layer_{i}", layer(self.config, i))

    def __call__(
        self, batch: Mapping[str, jax.Array], deterministic: bool = True, positions: jax.Array | None = None
    ) -> jax.Array:
        """Hidden states [rows, T, hidden] in the computation's dtype (float32 where a CPU computes in bfloat16, see products.py).
        With `positions` [rows, Q], only the hidden states of these positions, [rows, Q, hidden]: for the other tokens, the last
        layer then computes only keys and values, which saves most of its cost."""
        x, row, last = self.embedded(batch, deterministic), self.row(batch), self.config.layers - 1
        for i in range(last + 1):
            x = getattr(self, f"layer_{i}")(x, row, deterministic, positions if i == last else None)
        return x

    def attention_rows(self, batch: Mapping[str, jax.Array], positions: jax.Array) -> jax.Array:
        """The last layer's attention from `positions` [rows, Q], averaged over heads: [rows, Q, T] float32. The last layer computes
        only Q and K, and K·Q only for these positions (HARP Eq. 1, 5, 10, 13). It is the last one without a window: models with
        some of the layers removed may end in local ones."""
        x, row = self.embedded(batch, True), self.row(batch)
        last = max(i for i in range(self.config.layers) if not self.config.reach(i))
        for i in range(last):
            x = getattr(self, f"layer_{i}")(x, row, True, None)
        return getattr(self, f"layer_{last}").rows(x, row, positions)

    def embedded(self, batch: Mapping[str, jax.Array], deterministic: bool) -> jax.Array:
        tokens, positions = batch["tokens"], batch["position_ids"]
        if self.config.first_position:
            positions = without_padding_tokens(tokens, positions, self.config.pad)
        return self.embeddings(tokens, positions, batch["token_type_ids"], deterministic)

    def row(self, batch: Mapping[str, jax.Array]) -> Any:
        """What all layers read of the batch, besides the hidden states."""
        return batch["segment_ids"]


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
