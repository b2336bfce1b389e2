"""The interface of an encoder: its shape, with the tables and methods through which all other code uses it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import flax.linen as nn
import numpy as np
from jax.sharding import PartitionSpec as P

from harp_jax.base.errors import InputError

Tensors = dict[str, np.ndarray]  # by their Hugging Face names
WORDS = ("embeddings", "word", "embedding")
# A field of config.json: our name and its range; an integer if the lower bound is one.
Field = tuple[str, int | float, int | float]


class Leaf(NamedTuple):
    """A tensor: its path in the tree, its Hugging Face name, its shape in the tree and as stored (kernels are transposed)."""

    path: tuple[str, ...]
    name: str
    shape: tuple[int, ...]
    stored: tuple[int, ...]

    @property
    def transposed(self) -> bool:
        return self.path[-1] == "kernel"


class HeadNames(NamedTuple):
    """Hugging Face's names of the heads' layers, and of the bias of the MLM decoder."""

    pooler: str
    score: str
    transform: str
    norm: str
    decoder: str
    bias: str


@dataclass(frozen=True)
class EncoderConfig(ABC):
    """The sizes and computation options of an encoder. Every architecture is a subclass; other code knows only what is here. Its
    word embeddings are at WORDS in the tree "encoder", its layers are called layer_0, layer_1, … `dtype` is that of the
    computation; parameters have their own, float32 in training. InputError for an inconsistent shape."""

    vocab_size: int
    layers: int
    hidden: int
    heads: int
    intermediate: int
    max_positions: int
    type_vocab: int = 0  # number of token types; 0: the encoder does not read them
    layer_norm_eps: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.0
    dtype: str = "float32"
    attention: str = "auto"  # see attention.py
    remat: str = "none"  # see `layers.rematerialised`
    initializer_range: float = 0.02
    pooling: str = "cls"  # the score is computed from a sequence's first hidden state, or from the "mean" of all
    pad: int = 0  # id of the padding token; RoBERTa counts positions from the one after it
    model_type: str = ""  # Hugging Face's; the key of ENCODERS

    biased: ClassVar[bool] = True  # dense layers and norms have biases
    mlp_kernels: ClassVar[int] = 2  # of hidden × intermediate
    # Of the published models: intermediate / hidden, for models from scratch; vocabulary size, for a dry run without files.
    widening: ClassVar[float] = 4.0
    vocabulary: ClassVar[int]
    rules: ClassVar[tuple[tuple[str, P], ...]]  # (regex on the parameter's path, PartitionSpec), see sharding.py
    names: ClassVar[HeadNames]
    fields: ClassVar[Mapping[str, Field]]  # of config.json
    fixed: ClassVar[Mapping[str, Any]]  # fields with the only values that the architecture's file computes
    prefix: ClassVar[str]  # of Hugging Face's classes
    pretraining: ClassVar[str] = ""  # Hugging Face's class for both heads; "": the classifier's, which re-rankers load
    # Hugging Face's module whose first output only the last layer's MLP reads, with {} for the layer's number; "": unknown.
    last_attention: ClassVar[str] = ""
    # Modules of sentence-transformers that are equivalent to the pooler; an activation means a dense layer with it.
    modules: ClassVar[tuple[str, ...]]
    poolings: ClassVar[tuple[str, ...]] = ("cls",)  # values that config.json may have

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise InputError(f"model.hidden={self.hidden} is not a multiple of model.heads={self.heads}; change one")
        if self.attention_dropout and self.attention not in ("auto", "xla"):
            raise InputError(
                f"model.attention={self.attention!r} does not support attention dropout; set model.attention_dropout=0 or "
                "model.attention='xla'"
            )

    @property
    def first_position(self) -> int:
        """The row of the position table for the first token of a sequence."""
        return 0

    @property
    def position_rows(self) -> int:
        """Rows of the position table; 0: there is none."""
        return self.first_position + self.max_positions

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def drops(self) -> bool:
        """Whether training uses dropout."""
        return self.dropout > 0 or self.attention_dropout > 0

    @property
    def padded(self) -> Self:
        """The vocabulary padded to a multiple of 128, the tile width, so that checkpoints fit any mesh; export removes the rest."""
        return replace(self, vocab_size=-(-self.vocab_size // 128) * 128)

    def computing_in(self, dtype: str) -> Self:
        return replace(self, dtype=dtype)

    def reach(self, layer: int) -> int:
        """The largest distance, in tokens, at which a layer attends; 0: any."""
        return 0

    def forward_flops(self, rows: int, length: int, positions: float) -> float:
        """FLOPs of the forward pass (2 per multiply-add) of `rows` of `length` slots; of these the last layer computes
        `positions`."""
        h, tokens, total = self.hidden, rows * length, 0.0
        for i in range(self.layers):
            queries = tokens if i < self.layers - 1 else rows * positions
            keys = min(length, 2 * self.reach(i) + 1) if self.reach(i) else length
            mlp = 2 * self.mlp_kernels * h * self.intermediate
            # Two kernels each: keys and values, queries and output; then scores and their products with the values.
            total += 4 * h * h * (tokens + queries) + queries * (mlp + 4 * keys * h)
        return total

    @classmethod
    @abstractmethod
    def from_config(cls, config: Mapping[str, Any], where: str) -> Self:
        """From config.json as `tokenizer.read_model_config` returns it, and its path; InputError for another architecture."""

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """The inverse."""

    @abstractmethod
    def module(self, name: str | None = None) -> nn.Module:
        """A Linen module: `__call__(batch, deterministic, positions)` returns hidden states [rows, T, hidden], or only those at
        `positions` [rows, Q]; `attention_rows(batch, positions)` returns the attention [rows, Q, T] float32 of the last layer
        without a window, averaged over heads; `embeddings.word` is a `layers.Words`."""

    @abstractmethod
    def pooler(self) -> nn.Module:
        """A Linen module: pooled hidden states [rows, K, hidden] → the input of the score."""

    @abstractmethod
    def leaves(self) -> dict[str, list[Leaf]]:
        """The tensors of "encoder" and of each head, without the tied MLM decoder."""

    @classmethod
    @abstractmethod
    def read(cls, tensors: Tensors, where: str) -> Tensors:
        """Converts the tensors of any file of this architecture to those of `leaves`; `where`: the file, for errors."""

    @classmethod
    def written(cls, state: Tensors) -> Tensors:
        """The inverse of `read`, with tensors that Hugging Face's class adds."""
        return state

    @classmethod
    def exported_as(cls, heads: Collection[str]) -> str:
        """Hugging Face's class for these heads."""
        if cls.pretraining and {"mlm", "score"} <= {*heads}:
            return cls.pretraining
        task = "ForSequenceClassification" if "score" in heads else "ForMaskedLM" if "mlm" in heads else "Model"
        return cls.prefix + task


Encoder = type[EncoderConfig]


def dense_leaves(path: str, name: str, into: tuple[int, ...], out: tuple[int, ...], biased: bool = True) -> list[Leaf]:
    """A dense layer between arrays whose last dimensions are `into` and `out`; stored as a matrix [out, in] and a vector."""
    parts, (rows, columns) = tuple(path.split("/")), map(math.prod, (out, into))
    kernel = Leaf((*parts, "kernel"), f"{name}.weight", (*into, *out), (rows, columns))
    return [kernel, Leaf((*parts, "bias"), f"{name}.bias", out, (rows,))][: 1 + biased]


def norm_leaves(path: str, name: str, size: int, biased: bool = True) -> list[Leaf]:
    leaves = (("scale", "weight"), ("bias", "bias"))[: 1 + biased]
    return [Leaf((*path.split("/"), ours), f"{name}.{theirs}", (size,), (size,)) for ours, theirs in leaves]


def head_leaves(names: HeadNames, c: EncoderConfig) -> dict[str, list[Leaf]]:
    """The score and the MLM head, without its tied decoder."""
    norm = norm_leaves("mlm/norm", names.norm, c.hidden, c.biased)
    bias = Leaf(("mlm", "bias"), names.bias, (c.vocab_size,), (c.vocab_size,))
    return {
        "score": dense_leaves("score", names.score, (c.hidden,), (1,)),
        "mlm": [*dense_leaves("mlm/transform", names.transform, (c.hidden,), (c.hidden,), c.biased), *norm, bias],
    }


def with_heads(state: Tensors, names: HeadNames, words: str, where: str) -> Tensors:
    """The tensors without the pooler and score of a classifier of several labels, which is not a score, and with the decoder's bias
    under its name in `names`. InputError unless the decoder's weights are the word embeddings `words`."""
    classifier = state.get(f"{names.score}.weight")
    if classifier is not None and len(classifier) != 1:
        roots = {f"{name.partition('.')[0]}." for name in (names.pooler, names.score)} - {f"{words.partition('.')[0]}."}
        state = {name: tensor for name, tensor in state.items() if not name.startswith(tuple(roots))}
    if f"{names.decoder}.bias" in state:
        state = {names.bias: state[f"{names.decoder}.bias"], **state}
    weights = state.get(f"{names.decoder}.weight")
    if weights is not None and words in state and not np.array_equal(weights, state[words]):
        raise InputError(f"{where}: the MLM decoder is not tied to the word embeddings; use a model where it is")
    return state


SIZES: dict[str, Field] = {
    "vocab_size": ("vocab_size", 1, 1 << 24),
    "num_hidden_layers": ("layers", 1, 1000),
    "hidden_size": ("hidden", 1, 1 << 16),
    "num_attention_heads": ("heads", 1, 1024),
    "intermediate_size": ("intermediate", 1, 1 << 20),
    "initializer_range": ("initializer_range", 0.0, 100.0),
}


def read_fields(
    config: Mapping[str, Any], fields: Mapping[str, Field], fixed: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """The fields of a config.json under our names; InputError for a bad value, or if a field of `fixed` differs."""
    for field, value in fixed.items():
        if config.get(field, value) != value:
            raise InputError(f"{where}: {field} is {config[field]!r}; only {value!r} is supported; use another model")
    shape: dict[str, Any] = {}
    for field, (ours, low, high) in fields.items():
        value, kind = config.get(field), int if isinstance(low, int) else int | float
        if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
            noun = "whole number" if kind is int else "number"
            said = repr(value)[:60]
            raise InputError(f"{where}: {field} is {said}, not a {noun} from {low} to {high}; write or fetch it again")
        shape[ours] = value
    return shape
