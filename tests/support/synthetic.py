"""Synthetic pairs for tests: the query's words occur in the positive document."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harp_jax.base.randomness import generator
from harp_jax.input.packing import Group, pair_sequences, text_sequence
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer

VOCAB = 211
EMPTY = np.zeros(0, np.int32)


def tokenizer() -> Tokenizer:
    return Tokenizer.of_words((*SPECIAL_TOKENS, *(f"w{i}" for i in range(VOCAB - len(SPECIAL_TOKENS)))))


TEMPLATE = tokenizer().template


def pair(key: int, task: str) -> tuple:
    """(pos_query, pos_doc, neg_query, neg_doc): rqp shares the document, the other tasks the query."""
    rng = generator("synthetic", task, key)
    document = rng.integers(5, VOCAB, rng.integers(8, 50)).astype(np.int32)
    other = rng.integers(5, VOCAB, rng.integers(8, 50)).astype(np.int32)
    query = rng.choice(document, rng.integers(2, 7)).astype(np.int32)
    if task == "rqp":
        return query, document, rng.choice(other, len(query)).astype(np.int32), EMPTY
    return query, document, EMPTY, other


@dataclass(frozen=True)
class SyntheticReader:
    """A `packing.Reader` with an endless stream per lane, without files."""

    tasks: tuple[str, ...] = ("rqp", "qdm")
    records: int = 400
    lanes: int = 8
    length: int = 128

    @property
    def sizes(self) -> Mapping[str, int]:
        return dict.fromkeys(self.tasks, self.records)

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        keys = [((start + i) * self.lanes + lane) % self.records for i in range(count)]
        number = self.tasks.index(task)
        if task == "mlm":
            return [Group(number, (text_sequence(pair(k, task)[1], self.length, TEMPLATE),)) for k in keys]
        return [Group(number, pair_sequences(*pair(k, task), self.length, TEMPLATE)) for k in keys]
