"""ModernBERT (Ettin, GTE, mmBERT): rotary positions, norms before the layers, GeGLU, and attention within a window in most layers.

As published: no biases except in the decoder and the classifier, erf GELU. Warner et al. 2024 (arXiv 2412.13663). In the order of
bert.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from harp_jax.base.errors import InputError
from harp_jax.model import layers
from harp_jax.model.attention import attend, probabilities
from harp_jax.model.encoders.bert import Bert
from harp_jax.model.encoders.encoder import (
    SIZES,
    WORDS,
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

KINDS = {"global": "full_attention", "local": "sliding_attention"}  # of layers
# Hugging Face's fused tensors, and the leaves whose rows they consist of.
FUSED = {"attn.Wqkv": ("attn.query", "attn.key", "attn.value"), "mlp.Wi": ("mlp.gate", "mlp.up")}
# Hugging Face calls both heads `head`: in files with both, the names of the MLM head's tensors begin with this.
MLM = "mlm."
WORD_EMBEDDINGS = "model.embeddings.tok_embeddings.weight"


@dataclass(frozen=True)
class ModernBertShape(EncoderConfig):
    layer_norm_eps: float = 1e-5
    global_every: int = 3  # layers 0, global_every, … attend to all tokens, the others to a window
    window: int = 128  # tokens of the window, half of them on each side
    global_theta: float = 160_000.0  # bases of the rotary positions' wave lengths
    local_theta: float = 10_000.0
    model_type: str = "modernbert"

    biased = False
    mlp_kernels = 3
    widening = 1.5
    vocabulary = 50368
    prefix = "ModernBert"
    modules = ("GELU", "LayerNorm")
    poolings = ("cls", "mean")
    names = HeadNames(
        "head.dense", "classifier", f"{MLM}head.dense", f"{MLM}head.norm", f"{MLM}decoder", f"{MLM}decoder.bias"
    )
    fields: ClassVar[Mapping[str, Field]] = {
        **SIZES,
        "max_position_embeddings": ("max_positions", 1, 1 << 20),
        "norm_eps": ("layer_norm_eps", 0.0, 1.0),
        "mlp_dropout": ("dropout", 0.0, 1.0),
        "pad_token_id": ("pad", 0, 1 << 24),
        "local_attention": ("window", 2, 1 << 20),
        "global_attn_every_n_layers": ("global_every", 1, 1000),
        "global_rope_theta": ("global_theta", 1.0, 1e12),
        "local_rope_theta": ("local_theta", 1.0, 1e12),
    }
    fixed: ClassVar[Mapping[str, Any]] = {
        "hidden_activation": "gelu", "classifier_activation": "gelu", "attention_bias": False, "mlp_bias": False,
        "norm_bias": False, "classifier_bias": False, "decoder_bias": True, "rope_scaling": None,
    }  # fmt: skip
    rules = (
        (r"embeddings/word/embedding$", P("model", "fsdp")),
        (r"layer_\d+/(query|key|value)/kernel$", P("fsdp", "model", None)),
        (r"layer_\d+/output/kernel$", P("model", None, "fsdp")),
        (r"layer_\d+/(gate|up)/kernel$", P("fsdp", "model")),
        (r"layer_\d+/down/kernel$", P("model", "fsdp")),
        (r"encoder/.*norm/scale$", P()),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim % 2:
            raise InputError(
                f"model.hidden={self.hidden} / model.heads={self.heads} is odd; rotary positions need an even number"
            )

    @property
    def position_rows(self) -> int:
        return 0  # rotary

    def reach(self, layer: int) -> int:
        return self.window // 2 if layer % self.global_every else 0

    @property
    def layer_types(self) -> list[str]:
        """The kind of attention of each layer, as transformers 5 lists it."""
        return [KINDS["local" if self.reach(i) else "global"] for i in range(self.layers)]

    @classmethod
    def from_config(cls, config: Mapping[str, Any], where: str) -> Self:
        kinds, fields = config["layer_types"], dict(config)
        later = [i for i, kind in enumerate(kinds) if kind == KINDS["global"] and i]
        fields["global_attn_every_n_layers"] = later[0] if later else max(len(kinds), 2)
        for ours, theirs in KINDS.items():
            rope = config["rope_parameters"][theirs]
            if rope["rope_type"] != "default":
                raise InputError(
                    f"{where}: rope_type is {rope['rope_type']!r}; only 'default' is supported; use another model"
                )
            fields[f"{ours}_rope_theta"] = rope["rope_theta"]
        shape = cls(**read_fields(fields, cls.fields, cls.fixed, where), pooling=config["classifier_pooling"])
        if kinds != shape.layer_types:
            raise InputError(
                f"{where}: layer_types does not repeat one full_attention and then sliding_attention; use another model"
            )
        return shape

    def to_config(self) -> dict[str, Any]:
        """For transformers 4 and 5 and for servers, which read the older fields."""
        thetas = {"global": self.global_theta, "local": self.local_theta}
        return {
            "model_type": "modernbert",
            **{field: getattr(self, ours) for field, (ours, *_) in self.fields.items()},
            "layer_types": self.layer_types,
            "rope_parameters": {
                KINDS[kind]: {"rope_type": "default", "rope_theta": theta} for kind, theta in thetas.items()
            },
            "classifier_pooling": self.pooling,
            **{field: value for field, value in self.fixed.items() if value is not None},
        }

    def module(self, name: str | None = None) -> nn.Module:
        return ModernBert(self, name=name)

    def pooler(self) -> nn.Module:
        return Pooler(self)

    def leaves(self) -> dict[str, list[Leaf]]:
        matrix, norm = partial(dense_leaves, biased=False), partial(norm_leaves, biased=False)
        h, split, inner = (self.hidden,), (self.heads, self.head_dim), (self.intermediate,)
        encoder = [Leaf(("encoder", *WORDS), WORD_EMBEDDINGS, (self.vocab_size, *h), (self.vocab_size, *h))]
        encoder += norm("encoder/embeddings/norm", "model.embeddings.norm", self.hidden)
        for i in range(self.layers):
            ours, theirs = f"encoder/layer_{i}", f"model.layers.{i}"
            if i:
                encoder += norm(f"{ours}/attention_norm", f"{theirs}.attn_norm", self.hidden)
            for part in ("query", "key", "value"):
                encoder += matrix(f"{ours}/{part}", f"{theirs}.attn.{part}", h, split)
            encoder += matrix(f"{ours}/output", f"{theirs}.attn.Wo", split, h)
            encoder += norm(f"{ours}/mlp_norm", f"{theirs}.mlp_norm", self.hidden)
            for part in ("gate", "up"):
                encoder += matrix(f"{ours}/{part}", f"{theirs}.mlp.{part}", h, inner)
            encoder += matrix(f"{ours}/down", f"{theirs}.mlp.Wo", inner, h)
        encoder += norm("encoder/norm", "model.final_norm", self.hidden)
        pooler = [*matrix("pooler/dense", self.names.pooler, h, h), *norm("pooler/norm", "head.norm", self.hidden)]
        return {"encoder": encoder, "pooler": pooler, **head_leaves(self.names, self)}

    @classmethod
    def read(cls, tensors: Tensors, where: str) -> Tensors:
        """A bare ModernBertModel lacks the prefix; fused tensors are split. Without a classifier `head` is the MLM head."""
        state: Tensors = {}
        for name, tensor in tensors.items():
            if name.startswith(("embeddings.", "layers.", "final_norm.")):
                name = f"model.{name}"
            if "classifier.weight" not in tensors and name.startswith(("head.", "decoder.")):
                name = f"{MLM}{name}"
            parts = next((parts for fused, parts in FUSED.items() if name.endswith(f".{fused}.weight")), ())
            if parts and len(tensor) % len(parts) == 0:
                layer = name.rsplit(".", 3)[0]
                state |= {f"{layer}.{part}.weight": rows for part, rows in zip(parts, np.split(tensor, len(parts)))}
            else:
                state[name] = tensor
        return with_heads(state, cls.names, WORD_EMBEDDINGS, where)

    @classmethod
    def written(cls, state: Tensors) -> Tensors:
        fused: Tensors = {}
        for name, tensor in state.items():
            whole = next((to for to, parts in FUSED.items() if name.endswith(tuple(f".{p}.weight" for p in parts))), "")
            if whole:
                whole = f"{name.rsplit('.', 3)[0]}.{whole}.weight"
                fused[whole] = np.concatenate([fused[whole], tensor]) if whole in fused else tensor
            else:
                fused[name if "classifier.weight" in state else name.removeprefix(MLM)] = tensor
        return fused


def rotation(positions: jax.Array, theta: float, head_dim: int) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines of positions [rows, T], [rows, T, 1, head_dim] float32; the second half repeats the first."""
    # Frequencies rounded as transformers rounds them, since positions multiply a difference by thousands.
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    frequencies = np.float32(1) / (np.float64(theta) ** exponents).astype(np.float32)
    angles = positions[:, :, None, None].astype(jnp.float32) * frequencies
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([cos, cos], axis=-1), jnp.concatenate([sin, sin], axis=-1)


def rotated(x: jax.Array, rotation: tuple[jax.Array, jax.Array]) -> jax.Array:
    """x [rows, T, heads, head_dim] with components i and i + head_dim / 2 rotated by their angle. Computed over whole heads,
    which is faster on CPU than half by half, or with tiled angles."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    cos, sin = (each.astype(wide) for each in rotation)
    a, b = jnp.split(x.astype(wide), 2, axis=-1)
    return (x.astype(wide) * cos + jnp.concatenate([-b, a], axis=-1) * sin).astype(x.dtype)


class Row(NamedTuple):
    """What all layers read of the rows: segments [rows, T], and the rotations of layers with and without a window."""

    segments: jax.Array
    local: tuple[jax.Array, jax.Array]
    full: tuple[jax.Array, jax.Array]


class Layer(nn.Module):
    config: ModernBertShape
    number: int

    def setup(self) -> None:
        c = self.config
        self.query, self.key, self.value = (nn.DenseGeneral((c.heads, c.head_dim), **layers.dense(c)) for _ in range(3))
        self.output = nn.DenseGeneral(c.hidden, axis=(-2, -1), **layers.dense(c))
        self.gate, self.up, self.down = (
            nn.Dense(size, **layers.dense(c)) for size in (c.intermediate, c.intermediate, c.hidden)
        )
        if self.number:  # the embeddings are already normalised
            self.attention_norm = layers.layer_norm(c)
        self.mlp_norm = layers.layer_norm(c)
        self.drop, self.drop_weights = layers.Dropout(c.dropout), layers.Dropout(c.attention_dropout)

    def __call__(self, x: jax.Array, row: Row, deterministic: bool, at: jax.Array | None) -> jax.Array:
        """Hidden states of all tokens, or only of those at the positions `at` [rows, Q]: [rows, T or Q, hidden]."""
        segments = row.segments
        inner, q, k = self._projected(x, row, at)
        drop = lambda weights: self.drop_weights(weights, deterministic)  # noqa: E731
        implementation, reach = layers.attention_of(self, x, at), self.config.reach(self.number)
        mixed = attend(
            q, k, self.value(inner), layers.gather_positions(segments, at), segments, implementation, drop, reach, at
        )
        x = layers.flat(layers.gather_positions(x, at)) + layers.flat(self.drop(self.output(mixed), deterministic))
        inner = self.mlp_norm(x)
        x += self.drop(self.down(layers.gelu(self.gate(inner)) * self.up(inner)), deterministic)
        return x.reshape(*mixed.shape[:2], -1)

    def rows(self, x: jax.Array, row: Row, at: jax.Array) -> jax.Array:
        """Attention probabilities of a full layer from the positions `at` [rows, Q], averaged over heads: [rows, Q, T] float32."""
        _, q, k = self._projected(x, row, at)
        return probabilities(q, k, layers.gather_positions(row.segments, at), row.segments).mean(axis=1)

    def _projected(self, x: jax.Array, row: Row, at: jax.Array | None) -> tuple[jax.Array, ...]:
        """The normalised input, the rotated queries at `at`, and the rotated keys."""
        inner = self.attention_norm(layers.flat(x)).reshape(x.shape) if self.number else x
        turn = row.local if self.config.reach(self.number) else row.full
        asking = layers.gather_positions(turn[0], at), layers.gather_positions(turn[1], at)
        return inner, rotated(self.query(layers.gather_positions(inner, at)), asking), rotated(self.key(inner), turn)


class ModernBert(Bert):
    config: ModernBertShape
    kind = Layer

    def setup(self) -> None:
        super().setup()
        self.norm = layers.layer_norm(self.config)

    def __call__(
        self, batch: Mapping[str, jax.Array], deterministic: bool = True, positions: jax.Array | None = None
    ) -> jax.Array:
        return self.norm(super().__call__(batch, deterministic, positions))

    def row(self, batch: Mapping[str, jax.Array]) -> Row:
        c = self.config
        local, full = (rotation(batch["position_ids"], theta, c.head_dim) for theta in (c.local_theta, c.global_theta))
        return Row(batch["segment_ids"], local, full)


class Pooler(nn.Module):
    """ModernBERT's prediction head: a dense layer, GELU and a norm."""

    config: ModernBertShape

    def setup(self) -> None:
        c = self.config
        self.dense = nn.Dense(c.hidden, use_bias=False, dtype=c.dtype, kernel_init=layers.initializer(c))
        self.norm = layers.layer_norm(c)

    def __call__(self, pooled: jax.Array) -> jax.Array:
        return self.norm(layers.gelu(self.dense(pooled)))
