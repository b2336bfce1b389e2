"""What the scorers of an encoder share: texts as token ids, and pairs truncated to a row of the cross-encoder."""

import itertools
from collections.abc import Iterable

import jax
import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.input.packing import fit
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.ranking.scoring import Pair
from harp_jax.text.marks import NO_MARKS, Marks
from harp_jax.text.tokenizer import Tokenizer

# Row lengths that are compiled; finer steps pad less and compile more. Steps of 16 fill 91 to 95 % of the slots on real
# candidates, those of an accelerator, where compiling costs more, 85 %.
CPU_STEP = 16
LENGTHS = (*range(32, 192, 32), *range(192, 1 << 20, 64))  # of accelerators

SHORTEST = 8  # tokens of a row that still holds part of a query and of a document


class EncoderTexts:
    """Texts of an encoder of at most `max_length` tokens, by default as in training."""

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

        By default as many as a row can hold, or one more than the longest query encoded so far: which of two long texts is the
        longer decides which keeps the odd token (`packing.fit`).
        """
        limit = limit or max(self.max_length, self._longest_query + 1)
        return [np.asarray(ids, np.int32) for ids in self.tokenizer.encode_prefixes(texts, limit)]

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """No notes: any text is split into tokens that the model knows."""
        return []


class PairTexts(EncoderTexts):
    """Pairs as a cross-encoder reads them: query and document with special tokens in a row of `max_length` tokens.

    The document is truncated, and the query if it has more than half of the row (`packing.fit`, as in training).
    """

    def __init__(
        self, config: EncoderShape, tokenizer: Tokenizer, max_length: int | None, marks: Marks = NO_MARKS
    ) -> None:
        super().__init__(config, tokenizer, max_length, SHORTEST)
        self.marks = marks

    def room(self, query: np.ndarray) -> int:
        """Tokens of a document that fit in a row with this query; at least half of the row (`packing.fit`)."""
        room, query = self.max_length - self.tokenizer.template.around_pair, self.marks.on_query(query)
        return max(1, max(room - len(query), room // 2) - (self.marks.document >= 0))

    def row_sizes(self, pairs: Iterable[Pair]) -> np.ndarray:
        """Tokens [pairs] int64 of each pair's row, with the special ones."""
        special = self.tokenizer.template.around_pair
        return np.array([len(query) + len(document) + special for query, document in pairs], np.int64)

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Puts the marks before the two and truncates them to the row."""
        query, document = self.marks.on_query(query), self.marks.on_document(document)
        fitted = fit(query, document, self.max_length, self.tokenizer.template)
        self.truncated_queries += len(fitted[0]) < len(query)
        return fitted


def recorded_length(tokenizer: Tokenizer, config: EncoderShape) -> int:
    """The sequence length that a tokenizer's directory records; all positions if that is out of range."""
    recorded = tokenizer.max_length
    return recorded if SHORTEST <= recorded <= config.max_positions else config.max_positions


def slots(batch_tokens: int | None) -> int:
    """Tokens of a batch: a CPU's caches prefer small batches, an accelerator needs large ones to be busy."""
    return batch_tokens or (4096 if jax.default_backend() == "cpu" else 65536)
