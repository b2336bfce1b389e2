"""Hugging Face's BERT and ours: names and shapes of the tensors, and the fields of config.json.

One table (`leaves_of`) has every tensor once: its path in the parameter tree, its Hugging Face name, and its shapes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.sentence_transformers_layout import IDENTITY
from harp_jax.model.bert import BertConfig

# The fields of config.json that are read: their ranges, whole numbers where the lower end is one, and their defaults.
LIMITS: dict[str, tuple[int | float, int | float]] = {
    "vocab_size": (1, 1 << 24), "num_hidden_layers": (1, 1000), "hidden_size": (1, 1 << 16), "num_attention_heads": (1, 1024),
    "intermediate_size": (1, 1 << 20), "max_position_embeddings": (1, 1 << 20), "type_vocab_size": (1, 1 << 10),
    "layer_norm_eps": (0.0, 1.0), "hidden_dropout_prob": (0.0, 1.0), "initializer_range": (0.0, 100.0),
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02,
}  # fmt: skip


class Leaf(NamedTuple):
    """A tensor: its path in the tree, its Hugging Face name, its shape in the tree and as stored (kernels are transposed)."""

    path: tuple[str, ...]
    name: str
    shape: tuple[int, ...]
    stored: tuple[int, ...]

    @property
    def transposed(self) -> bool:
        return self.path[-1] == "kernel"


Shape = tuple[int, ...]


def _dense(path: str, name: str, into: int, out: int, kernel: Shape = (), bias: Shape = ()) -> list[Leaf]:
    parts = tuple(path.split("/"))
    return [
        Leaf((*parts, "kernel"), f"{name}.weight", kernel or (into, out), (out, into)),
        Leaf((*parts, "bias"), f"{name}.bias", bias or (out,), (out,)),
    ]


def _norm(path: str, name: str, size: int) -> list[Leaf]:
    parts = tuple(path.split("/"))
    leaves = (((*parts, "scale"), f"{name}.weight"), ((*parts, "bias"), f"{name}.bias"))
    return [Leaf(ours, theirs, (size,), (size,)) for ours, theirs in leaves]


def _encoder_leaves(c: BertConfig) -> Iterator[Leaf]:
    for name, rows in (("word", c.vocab_size), ("position", c.max_positions), ("token_type", c.type_vocab)):
        path = ("bert", "embeddings", name, "embedding")
        yield Leaf(path, f"bert.embeddings.{name}_embeddings.weight", (rows, c.hidden), (rows, c.hidden))
    yield from _norm("bert/embeddings/norm", "bert.embeddings.LayerNorm", c.hidden)
    for i in range(c.layers):
        ours, theirs = f"bert/layer_{i}", f"bert.encoder.layer.{i}"
        split = (c.heads, c.head_dim)
        for part in ("query", "key", "value"):
            name = f"{theirs}.attention.self.{part}"
            yield from _dense(f"{ours}/attention/{part}", name, c.hidden, c.hidden, (c.hidden, *split), split)
        name = f"{theirs}.attention.output"
        yield from _dense(f"{ours}/attention/output", f"{name}.dense", c.hidden, c.hidden, (*split, c.hidden))
        yield from _norm(f"{ours}/attention/norm", f"{name}.LayerNorm", c.hidden)
        yield from _dense(f"{ours}/mlp/up", f"{theirs}.intermediate.dense", c.hidden, c.intermediate)
        yield from _dense(f"{ours}/mlp/down", f"{theirs}.output.dense", c.intermediate, c.hidden)
        yield from _norm(f"{ours}/mlp/norm", f"{theirs}.output.LayerNorm", c.hidden)


def leaves_of(c: BertConfig) -> dict[str, list[Leaf]]:
    """The tensors of the encoder ("bert") and of each head; the MLM decoder is tied and so not among them."""
    mlm = "cls.predictions"
    return {
        "bert": list(_encoder_leaves(c)),
        "pooler": _dense("pooler", "bert.pooler.dense", c.hidden, c.hidden),
        "score": _dense("score", "classifier", c.hidden, 1),
        "mlm": [
            *_dense("mlm/transform", f"{mlm}.transform.dense", c.hidden, c.hidden),
            *_norm("mlm/norm", f"{mlm}.transform.LayerNorm", c.hidden),
            Leaf(("mlm", "bias"), f"{mlm}.bias", (c.vocab_size,), (c.vocab_size,)),
        ],
    }


def bert_config_from_hf(config: dict[str, Any], where: str = "config.json") -> BertConfig:
    """The encoder's shape from a Hugging Face config; InputError where `model/bert.py` computes another architecture.

    Attention dropout is not read: it is off here unless a training config turns it on.
    """
    wanted = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
    for field, value in wanted.items():
        default = None if field == "model_type" else value
        given = config.get(field, default)
        if given != value:
            raise InputError(f"{where}: {field} is {given!r}, only {value!r} is supported; use another model")
    given = {field: config.get(field, default) for field, default in DEFAULTS.items()}
    for field, (low, high) in LIMITS.items():
        whole = isinstance(low, int)
        if field not in DEFAULTS and field not in config:
            raise InputError(f"{where} lacks {field!r}; it is no complete BERT config")
        value = given.setdefault(field, config.get(field))
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not low <= value <= high:
            kind = "whole number" if whole else "number"
            raise InputError(
                f"{where}: {field} is {repr(value)[:60]}, not a {kind} of {low} to {high}; write or fetch it again"
            )
    return BertConfig(
        vocab_size=given["vocab_size"],
        layers=given["num_hidden_layers"],
        hidden=given["hidden_size"],
        heads=given["num_attention_heads"],
        intermediate=given["intermediate_size"],
        max_positions=given["max_position_embeddings"],
        type_vocab=given["type_vocab_size"],
        layer_norm_eps=given["layer_norm_eps"],
        dropout=given["hidden_dropout_prob"],
        initializer_range=given["initializer_range"],
    )


def bert_config_to_hf(config: BertConfig, pad_token_id: int = 0) -> dict[str, Any]:
    """The inverse of `bert_config_from_hf`, with one label, so that sequence classification returns the score."""
    return {
        "model_type": "bert",
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "intermediate_size": config.intermediate,
        "max_position_embeddings": config.max_positions,
        "type_vocab_size": config.type_vocab,
        "layer_norm_eps": config.layer_norm_eps,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "initializer_range": config.initializer_range,
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        "pad_token_id": pad_token_id,
        "num_labels": 1,
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        # Without it CrossEncoder of sentence-transformers 4 and 5, and vLLM, put a sigmoid on the score.
        "sentence_transformers": {"activation_fn": IDENTITY},
        "torch_dtype": "float32",
    }
