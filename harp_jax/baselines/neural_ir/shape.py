"""The shape of a pre-BERT neural ranker: DRMM, DUET, KNRM or Conv-KNRM, on word ids.

All have one signature: query [B, Lq] int32, document [B, Ld] int32, `WordTables`, → scores [B] float32. Id 0 is "no word"
(padding, or a word outside the vocabulary): it matches nothing, and more of it changes no score.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harp_jax.base.errors import InputError

NAMES = ("drmm", "duet", "knrm", "conv_knrm")
POSITIVE = ("dimension", "query_length", "document_length", "ngrams", "filters", "hidden", "pool", "graphs")


@dataclass(frozen=True)
class NeuralConfig:
    """The shape of a neural ranker; each model reads what it needs."""

    name: str
    vocab_size: int  # rows of word vectors, the one of id 0 included
    dimension: int = 100  # of word vectors (all but DUET)
    query_length: int = 20  # words; longer queries are truncated
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

    @property
    def drops(self) -> bool:
        """Whether training draws dropout masks."""
        return self.dropout > 0

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(f"model.name={self.name!r} is unknown; choose from {', '.join(NAMES)}")
        if self.gate not in ("idf", "vector"):
            raise InputError(f"model.gate={self.gate!r} is unknown; choose idf or vector")
        for name in POSITIVE:
            if getattr(self, name) < 1:
                raise InputError(f"{_field(name)}={getattr(self, name)}: use 1 or more")
        if self.bins < 2 or self.kernels < 2:
            raise InputError(f"model.bins={self.bins}, model.kernels={self.kernels}: use 2 or more")
        if not 0.0 <= self.dropout < 1.0:
            raise InputError(f"model.dropout={self.dropout}: use a share below 1")


def _field(name: str) -> str:
    """The name of a field of the shape in the config."""
    return "row_length" if name == "document_length" else f"model.{name}"


class WordTables(NamedTuple):
    """Word features besides vectors: idf [V] float32, n-graph ids [V, G] int32 (0: none)."""

    idf: np.ndarray
    graphs: np.ndarray
