"""Tokenizing for scorers with an encoder, and truncating pairs to a cross-encoder's row."""

import itertools
from collections.abc import Iterable

import jax
import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.input.packing import fit
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.ranking.scoring import Pair
from harp_jax.text.tokenizer import NO_MARKS, Marks, Tokenizer

# Compiled row lengths; finer steps pad less and compile more. On real candidates, steps of 16 fill 91 to 95 % of the slots.
# Accelerators, where compiling costs more, use larger steps (85 %).
CPU_STEP = 16
LENGTHS = (*range(32, 192, 32), *range(192, 1 << 20, 64))  # of accelerators

SHORTEST = 8  # tokens of a row: room for part of a query and of a document


class EncoderTexts:
    """Tokenizes texts for an encoder; `max_length` defaults to the length in training."""

    remedy = "raise --max_length"

    def __init__(self, config: EncoderShape, tokenizer: Tokenizer, max_length: int | None, shortest: int) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.max_length = max_length or recorded_length(tokenizer, config)
        if not shortest <= self.max_length <= config.max_positions:
            raise InputError(
                f"max_length={self.max_length}: the model takes {shortest} to {config.max_positions} tokens"
            )
        on_cpu = jax.default_backend() == "cpu"
        steps = range(CPU_STEP, self.max_length, CPU_STEP) if on_cpu else LENGTHS
        self.lengths = (*itertools.takewhile(lambda n: n < self.max_length, steps), self.max_length)
        self.truncated_queries = self._longest_query = 0

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All token ids of each text, int32."""
        found = [np.asarray(encoding.ids, np.int32) for encoding in self.tokenizer.encode_batch(texts)]
        self._longest_query = max([self._longest_query, *map(len, found)])
        return found

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """The first `limit` token ids of each text, int32.

        Default: as many as fit in a row, but at least one more than the longest query so far, because `packing.fit` gives
        the odd token to the longer text.
        """
        limit = limit or max(self.max_length, self._longest_query + 1)
        return [np.asarray(ids, np.int32) for ids in self.tokenizer.encode_prefixes(texts, limit)]

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """No notes: subword tokenizers cover any text."""
        return []


class PairTexts(EncoderTexts):
    """Query and document with special tokens in one row of `max_length` tokens, truncated as in training (`packing.fit`)."""

    def __init__(
        self, config: EncoderShape, tokenizer: Tokenizer, max_length: int | None, marks: Marks = NO_MARKS
    ) -> None:
        super().__init__(config, tokenizer, max_length, SHORTEST)
        self.marks = marks

    def room(self, query: np.ndarray) -> int:
        """Document tokens that fit in a row with this query: at least half of the row (`packing.fit`)."""
        room, query = self.max_length - self.tokenizer.template.around_pair, self.marks.on_query(query)
        return max(1, max(room - len(query), room // 2) - (self.marks.document >= 0))

    def row_sizes(self, pairs: Iterable[Pair]) -> np.ndarray:
        """Row lengths [pairs] int64, including special tokens."""
        special = self.tokenizer.template.around_pair
        return np.array([len(query) + len(document) + special for query, document in pairs], np.int64)

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Adds the marks and truncates the pair to the row."""
        query, document = self.marks.on_query(query), self.marks.on_document(document)
        fitted = fit(query, document, self.max_length, self.tokenizer.template)
        self.truncated_queries += len(fitted[0]) < len(query)
        return fitted


def recorded_length(tokenizer: Tokenizer, config: EncoderShape) -> int:
    """The sequence length recorded with the tokenizer, or the model's maximum if that is out of range."""
    recorded = tokenizer.max_length
    return recorded if SHORTEST <= recorded <= config.max_positions else config.max_positions


def slots(batch_tokens: int | None) -> int:
    """Tokens per batch: small batches suit a CPU's caches, large ones keep an accelerator busy."""
    return batch_tokens or (4096 if jax.default_backend() == "cpu" else 65536)
