"""Neural rankers of before BERT: DRMM, DUET, KNRM and Conv-KNRM, on word ids.

All are called alike: query [B, Lq] int32, document [B, Ld] int32, `WordTables`, → scores [B] float32. Id 0 is "no word"
(padding, or a word outside the vocabulary): it matches nothing, and more of it changes no score.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.errors import InputError

NAMES = ("drmm", "duet", "knrm", "conv_knrm")
POSITIVE = ("dimension", "query_length", "document_length", "ngrams", "filters", "hidden", "pool", "graphs")


@dataclass(frozen=True)
class NeuralConfig:
    """The shape of a neural ranker; each model reads what it needs."""

    name: str
    vocab_size: int  # rows of word vectors, the one of id 0 included
    dimension: int = 100  # of word vectors (all but DUET)
    query_length: int = 20  # words; longer queries are cut
    document_length: int = 300  # words
    train_vectors: bool = True  # KNRM, Conv-KNRM; DRMM's histogram has no gradient, its vectors stay
    gate: str = "idf"  # DRMM: or "vector"
    bins: int = 30  # DRMM, the one of exact matches included
    kernels: int = 11  # KNRM, Conv-KNRM, the one of exact matches included
    ngrams: int = 3  # Conv-KNRM: n-grams of 1 … ngrams words
    filters: int = 128  # Conv-KNRM, DUET
    hidden: int = 300  # DUET: of its dense layers
    pool: int = 100  # DUET: words of a window of the document's max-pooling
    graphs: int = 2000  # DUET: character n-graphs that are counted
    dropout: float = 0.0  # DUET
    dtype: str = "float32"

    attention_dropout: ClassVar[float] = 0.0  # the loop asks every shape for it

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(f"model.name={self.name!r} is unknown; choose from {', '.join(NAMES)}")
        if self.gate not in ("idf", "vector"):
            raise InputError(f"model.gate={self.gate!r} is unknown; choose idf or vector")
        for name in POSITIVE:
            if getattr(self, name) < 1:
                raise InputError(f"{_field(name)}={getattr(self, name)}: give 1 or more")
        if self.bins < 2 or self.kernels < 2:
            raise InputError(f"model.bins={self.bins}, model.kernels={self.kernels}: give 2 or more")
        if not 0.0 <= self.dropout < 1.0:
            raise InputError(f"model.dropout={self.dropout}: give a share below 1")


def _field(name: str) -> str:
    """What a config calls a field of the shape."""
    return "row_length" if name == "document_length" else f"model.{name}"


class WordTables(NamedTuple):
    """What models know of words beside their vectors: idf [V] float32, n-graph ids [V, G] int32 (0: none)."""

    idf: np.ndarray
    graphs: np.ndarray


def build(config: NeuralConfig) -> Any:
    """The Linen module of a shape."""
    from harp_jax.neural_ir.conv_knrm import ConvKnrm
    from harp_jax.neural_ir.drmm import Drmm
    from harp_jax.neural_ir.duet import Duet
    from harp_jax.neural_ir.knrm import Knrm

    return {"drmm": Drmm, "duet": Duet, "knrm": Knrm, "conv_knrm": ConvKnrm}[config.name](config)


def init_params(config: NeuralConfig, key: jax.Array) -> dict:
    """A fresh parameter tree, float32."""
    ids = jnp.zeros((1, 1), jnp.int32)
    tables = WordTables(np.zeros(1, np.float32), np.zeros((1, 1), np.int32))
    return build(config).init(key, ids, ids, tables)["params"]


def vectors(module: nn.Module, config: NeuralConfig) -> jax.Array:
    """The word vectors [V, dimension] as a parameter, which training leaves alone unless `train_vectors`."""
    found = module.param("vectors", nn.initializers.normal(0.1), (config.vocab_size, config.dimension))
    table = jnp.asarray(found)
    return table if config.train_vectors else jax.lax.stop_gradient(table)


def cosines(a: jax.Array, b: jax.Array) -> jax.Array:
    """Cosines [B, n, m] of the rows of a [B, n, d] and b [B, m, d]; 0 where a row is zero.

    In full float32 on every device: a TPU's bfloat16 product would put a word's similarity to itself beside the kernel of
    exact matches, whose width is 0.001.
    """
    return jnp.einsum("bnd,bmd->bnm", _unit(a), _unit(b), precision=jax.lax.Precision.HIGHEST)


def _unit(x: jax.Array) -> jax.Array:
    # Not x / norm: the gradient of the norm at zero is not a number.
    return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x * x, axis=-1, keepdims=True), 1e-12))
