"""A BERT cross-encoder as a `Scorer`, without torch and without TensorFlow."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from harp_jax.checkpoints.encoder import load_ranker
from harp_jax.errors import InputError
from harp_jax.input.packing import fit
from harp_jax.input.pair_rows import pair_rows
from harp_jax.model.bert import BertConfig
from harp_jax.model.cross_encoder import Ranker
from harp_jax.ranking.scoring import Pair, ProgressBar, score_by_length
from harp_jax.text.marks import NO_MARKS, Marks
from harp_jax.text.tokenizer import Tokenizer

# Row lengths that are compiled; finer steps pad less and compile more. Steps of 16 fill 91 to 95 % of the slots on real
# candidates, those of an accelerator, where compiling costs more, 85 %.
CPU_LENGTHS = tuple(range(16, 513, 16))
LENGTHS = (32, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512)

SHORTEST = 8  # tokens of a row that still holds part of a query and of a document

PARTS = ("bert", "pooler", "score")  # the subtrees of a model's parameters that scoring reads


class CrossEncoderScorer:
    """Scores of [CLS] query [SEP] document [SEP], one pair to a row.

    `max_length` counts tokens with [CLS] and both [SEP], by default as in training; a batch has `batch_tokens` slots. The
    document is truncated, and the query if it has more than half of the row (`packing.fit`, as in training).
    """

    remedy = "raise --max_length"

    def __init__(
        self,
        config: BertConfig,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        marks: Marks = NO_MARKS,
    ) -> None:
        missing = {"pooler", "score"} - set(params)
        if missing:
            raise InputError(
                f"the model has no {' and no '.join(sorted(missing))}; use a fine-tuned or pre-trained export"
            )
        self.config, self.tokenizer = config, tokenizer
        self.max_length = max_length or recorded_length(tokenizer, config)
        if not SHORTEST <= self.max_length <= config.max_positions:
            raise InputError(
                f"max_length={self.max_length}: the model takes {SHORTEST} to {config.max_positions} tokens"
            )
        # A CPU's caches prefer small batches, an accelerator needs large ones to be busy.
        self.batch_tokens = batch_tokens or (4096 if jax.default_backend() == "cpu" else 65536)
        lengths = CPU_LENGTHS if jax.default_backend() == "cpu" else LENGTHS
        self.lengths = (*(n for n in lengths if n < self.max_length), self.max_length)
        self.truncated_queries = self._longest_query = 0
        self.marks = marks
        self.use(jax.device_put({name: params[name] for name in PARTS}))
        self._score = jax.jit(partial(_score, config))

    @classmethod
    def load(
        cls, directory: str, dtype: str = "float32", max_length: int | None = None, batch_tokens: int | None = None
    ) -> "CrossEncoderScorer":
        """Loads a Hugging Face directory with a one-label classifier, such as an export, or a BERT training workdir.

        A workdir scores as its export would: the selected parameters, the length and the marks of the training.
        """
        config, params, tokenizer, marks = load_ranker(directory)
        return cls(config.computing_in(dtype), params, tokenizer, max_length, batch_tokens, marks)

    def use(self, params: Mapping[str, Any]) -> None:
        """Replaces the parameters (device arrays of the same shapes); nothing is compiled again."""
        self._params = {name: params[name] for name in PARTS}

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

    def room(self, query: np.ndarray) -> int:
        """Tokens of a document that fit in a row with this query; at least half of the row (`packing.fit`)."""
        room, query = self.max_length - 3, self.marks.on_query(query)
        return max(1, max(room - len(query), room // 2) - (self.marks.document >= 0))

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Puts the marks before the two and truncates them to the row."""
        query, document = self.marks.on_query(query), self.marks.on_document(document)
        fitted = fit(query, document, self.max_length)
        self.truncated_queries += len(fitted[0]) < len(query)
        return fitted

    def score(self, pairs: Sequence[Pair], bar: ProgressBar | None = None) -> np.ndarray:
        """Scores [pairs] float32: raw logits, larger is more relevant."""
        sizes = np.array([len(query) + len(document) + 3 for query, document in pairs], np.int64)
        return score_by_length(self._score_batch, pairs, sizes, self.lengths, self.batch_tokens, bar)

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """No notes: WordPiece splits any text into tokens that the model knows."""
        return []

    def _score_batch(self, pairs: list[Pair], rows: int, length: int) -> jax.Array:
        """Scores [rows] of pairs in rows of `length` tokens; spare rows end at 0."""
        tokens, second, end = pair_rows(pairs, rows, length, self.tokenizer)
        return self._score(self._params, tokens, second, end)


def recorded_length(tokenizer: Tokenizer, config: BertConfig) -> int:
    """The sequence length that a tokenizer's directory records; 512, or all positions, if that is out of range."""
    recorded = tokenizer.max_length if SHORTEST <= tokenizer.max_length <= config.max_positions else 512
    return min(recorded, config.max_positions)


def _score(config: BertConfig, params: dict, tokens: jax.Array, second: jax.Array, end: jax.Array) -> jax.Array:
    """Scores [rows] of one sequence a row; segments, positions and types are computed on the device."""
    jnp = jax.numpy
    position = jnp.broadcast_to(jnp.arange(tokens.shape[1], dtype=jnp.int32), tokens.shape)
    real = position < end[:, None]
    batch = {
        "tokens": tokens,
        "segment_ids": real.astype(jnp.int32),
        "position_ids": position,
        "token_type_ids": (real & (position >= second[:, None])).astype(jnp.int32),
    }
    model = Ranker(config)
    first = jnp.zeros((tokens.shape[0], 1), jnp.int32)
    # The last layer computes [CLS] alone.
    cls = model.apply({"params": params}, batch, True, first, method="encode")
    scores: Any = model.apply({"params": params}, cls, first, method="scores")
    return scores[:, 0]
