"""An encoder unlike BERT in all that the seam promises: rotary positions, norms before the layers, no token types, byte-level BPE.

One file; `ENCODERS["toy"] = ENCODER` is the one line with which everything from pre-training to re-ranking knows it.
"""

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from harp_jax.model.attention import attend, choose, place_of, probabilities
from harp_jax.model.encoders.encoder import WORDS, Encoder, EncoderShape, Leaf
from harp_jax.model.layers import Words, dense, gelu, initializer, layer_norm, rematerialised


@dataclass(frozen=True)
class ToyShape(EncoderShape):
    model_type: str = "toy"


FIELDS = {
    "vocab_size": "vocab_size", "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "intermediate": "intermediate_size", "max_positions": "max_position_embeddings",
}  # fmt: skip


def from_config(config: Mapping[str, Any], where: str) -> ToyShape:
    return ToyShape(**{ours: config[theirs] for ours, theirs in FIELDS.items()})


def to_config(shape: ToyShape) -> dict[str, Any]:
    return {"model_type": "toy", **{theirs: getattr(shape, ours) for ours, theirs in FIELDS.items()}}


def rotated(x: jax.Array, positions: jax.Array) -> jax.Array:
    """x [rows, T, heads, d], each pair of numbers turned by its position times its frequency."""
    half = x.shape[-1] // 2
    angles = positions[:, :, None, None] * (100.0 ** -(jnp.arange(half) / half)).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b * jnp.cos(angles)], -1)


class Layer(nn.Module):
    config: ToyShape

    def setup(self) -> None:
        c = self.config
        self.query, self.key, self.value = (nn.DenseGeneral((c.heads, c.head_dim), **dense(c)) for _ in range(3))
        self.output = nn.DenseGeneral(c.hidden, axis=(-2, -1), **dense(c))
        self.up, self.down = nn.Dense(c.intermediate, **dense(c)), nn.Dense(c.hidden, **dense(c))
        self.norm, self.mlp_norm = layer_norm(c), layer_norm(c)

    def keys(self, x: jax.Array, places: jax.Array, at: jax.Array | None) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Queries (of the positions `at`), keys, and the normed input."""
        inner = self.norm(x)
        asking = inner if at is None else jnp.take_along_axis(inner, at[:, :, None], axis=1)
        asked = places if at is None else jnp.take_along_axis(places, at, axis=1)
        return rotated(self.query(asking), asked), rotated(self.key(inner), places), inner

    def __call__(
        self, x: jax.Array, batch: Mapping[str, jax.Array], deterministic: bool, at: jax.Array | None
    ) -> jax.Array:
        c, segments = self.config, batch["segment_ids"]
        q, k, inner = self.keys(x, batch["position_ids"], at)
        kernel = "xla"
        if at is None and not self.is_initializing():
            kernel = choose(c.attention, c.dtype, False, place_of(x).platform, x.shape[1])
        asking = segments if at is None else jnp.take_along_axis(segments, at, axis=1)
        mixed = self.output(attend(q, k, self.value(inner), asking, segments, kernel))
        x = (x if at is None else jnp.take_along_axis(x, at[:, :, None], axis=1)) + mixed
        return x + self.down(gelu(self.up(self.mlp_norm(x))))


class Embeddings(nn.Module):
    config: ToyShape

    def setup(self) -> None:
        c = self.config
        wide = jnp.promote_types(c.dtype, jnp.float32)
        self.word = Words(c.vocab_size, c.hidden, dtype=wide, embedding_init=initializer(c))


class Toy(nn.Module):
    config: ToyShape

    def setup(self) -> None:
        self.embeddings, self.norm = Embeddings(self.config), layer_norm(self.config)
        layer = rematerialised(Layer, self.config.remat)
        for i in range(self.config.layers):
            setattr(self, f"layer_{i}", layer(self.config))

    def __call__(
        self, batch: Mapping[str, jax.Array], deterministic: bool = True, positions: jax.Array | None = None
    ) -> jax.Array:
        x = self.embeddings.word(batch["tokens"]).astype(self.config.dtype)
        for i in range(self.config.layers):
            last = i == self.config.layers - 1
            x = getattr(self, f"layer_{i}")(x, batch, deterministic, positions if last else None)
        return self.norm(x)

    def attention_rows(self, batch: Mapping[str, jax.Array], positions: jax.Array) -> jax.Array:
        x = self.embeddings.word(batch["tokens"]).astype(self.config.dtype)
        for i in range(self.config.layers - 1):
            x = getattr(self, f"layer_{i}")(x, batch, True, None)
        q, k, _ = getattr(self, f"layer_{self.config.layers - 1}").keys(x, batch["position_ids"], positions)
        asking = jnp.take_along_axis(batch["segment_ids"], positions, axis=1)
        return probabilities(q, k, asking, batch["segment_ids"]).mean(axis=1)


RULES = (
    (r"encoder/embeddings/word/embedding$", P("model", "fsdp")),
    (r"encoder/layer_\d+/(query|key|value)/kernel$", P("fsdp", "model", None)),
    (r"encoder/layer_\d+/(query|key|value)/bias$", P("model", None)),
    (r"encoder/layer_\d+/output/kernel$", P("model", None, "fsdp")),
    (r"encoder/layer_\d+/up/kernel$", P("fsdp", "model")),
    (r"encoder/layer_\d+/up/bias$", P("model")),
    (r"encoder/layer_\d+/down/kernel$", P("model", "fsdp")),
    (r"encoder/.*(norm/(scale|bias)|(output|down)/bias)$", P()),
)


def flops(shape: ToyShape, rows: int, length: int, positions: int) -> float:
    h, tokens, last = shape.hidden, rows * length, rows * positions
    return sum(
        2 * (2 * h * h * (tokens + asking) + 2 * h * shape.intermediate * asking) + 4 * asking * length * h
        for asking in [tokens] * (shape.layers - 1) + [last]
    )


def _dense(path: str, name: str, into: tuple[int, ...], out: tuple[int, ...]) -> Iterator[Leaf]:
    parts, i, o = tuple(path.split("/")), 1, 1
    for size in into:
        i *= size
    for size in out:
        o *= size
    yield Leaf((*parts, "kernel"), f"{name}.weight", (*into, *out), (o, i))
    yield Leaf((*parts, "bias"), f"{name}.bias", out, (o,))


def _norm(path: str, name: str, size: int) -> Iterator[Leaf]:
    for ours, theirs in (("scale", "weight"), ("bias", "bias")):
        yield Leaf((*path.split("/"), ours), f"{name}.{theirs}", (size,), (size,))


def leaves(c: ToyShape) -> dict[str, list[Leaf]]:
    h, heads, mlp = (c.hidden,), (c.heads, c.head_dim), (c.intermediate,)
    encoder = [Leaf(("encoder", *WORDS), "model.tokens.weight", (c.vocab_size, c.hidden), (c.vocab_size, c.hidden))]
    for i in range(c.layers):
        for name, into, out in (
            ("query", h, heads), ("key", h, heads), ("value", h, heads), ("output", heads, h), ("up", h, mlp), ("down", mlp, h),
        ):  # fmt: skip
            encoder += _dense(f"encoder/layer_{i}/{name}", f"model.layers.{i}.{name}", into, out)
        for name in ("norm", "mlp_norm"):
            encoder += _norm(f"encoder/layer_{i}/{name}", f"model.layers.{i}.{name}", c.hidden)
    return {
        "encoder": [*encoder, *_norm("encoder/norm", "model.norm", c.hidden)],
        "pooler": list(_dense("pooler", "head.dense", h, h)),
        "score": list(_dense("score", "classifier", h, (1,))),
        "mlm": [
            *_dense("mlm/transform", "lm.dense", h, h),
            *_norm("mlm/norm", "lm.norm", c.hidden),
            Leaf(("mlm", "bias"), "lm.bias", (c.vocab_size,), (c.vocab_size,)),
        ],
    }


def exported_as(heads: Collection[str]) -> str:
    return "ToyForSequenceClassification" if "score" in heads else "ToyModel"


ENCODER = Encoder(
    shape=ToyShape,
    from_config=from_config,
    to_config=to_config,
    module=Toy,
    rules=RULES,
    flops=flops,
    leaves=leaves,
    read=lambda tensors, where: tensors,
    written=lambda tensors: tensors,
    exported_as=exported_as,
    initialisations={},
    vocabulary=1000,
)


def save_bpe(directory: str, texts: Iterable[str], size: int = 400) -> str:
    """A byte-level BPE tokenizer of these texts, as a Hugging Face directory: <s> query </s></s> document </s>, all of type 0."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    special = ["<s>", "<pad>", "</s>", "<mask>"]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet)
    )
    ids = [(token, made.token_to_id(token)) for token in ("<s>", "</s>")]
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ids
    )
    os.makedirs(directory, exist_ok=True)
    made.save(os.path.join(directory, "tokenizer.json"))
    roles = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "mask_token": "<mask>"}
    with open(os.path.join(directory, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", **roles}, file)
    return directory
