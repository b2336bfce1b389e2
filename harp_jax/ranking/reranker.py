"""The cross-encoder as an object: scores for (query, document) pairs, without torch and without TensorFlow.

    Reranker.from_pretrained(directory).rerank(query, documents)

Pairs are sorted by length and scored in batches of a few static shapes, so that little is padded and little is compiled.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from harp_jax.checkpoints.huggingface import check_vocabulary, load_hf
from harp_jax.errors import InputError
from harp_jax.input.packing import fit
from harp_jax.model.bert import BertConfig
from harp_jax.model.cross_encoder import Ranker
from harp_jax.ranking.maxp import Windows, best_of
from harp_jax.text.marks import NO_MARKS, Marks, recorded_marks
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

# Row lengths that are compiled; finer steps pad less and compile more. Steps of 16 fill 91 to 95 % of the slots on real
# candidates, those of an accelerator, where compiling costs more, 85 %.
CPU_LENGTHS = tuple(range(16, 513, 16))
LENGTHS = (32, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512)

SHORTEST = 8  # tokens of a row that still holds something of a query and of a document

Pair = tuple[np.ndarray, np.ndarray]  # token ids of query and document, cut to fit


PARTS = ("bert", "pooler", "score")  # of a model's parameters, that scoring takes


class Reranker:
    """A cross-encoder that scores (query, document) pairs.

    `max_length` counts tokens with [CLS] and both [SEP], by default as in training; `batch_tokens` slots go through the
    encoder at a time. Only the document is cut, unless the query alone nearly fills the row (`packing.fit`, the same as
    in training).
    """

    remedy = "raise --max_length"  # where queries were cut

    def __init__(
        self,
        config: BertConfig,
        params: dict[str, Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        marks: Marks = NO_MARKS,
    ) -> None:
        missing = {"pooler", "score"} - set(params)
        if missing:
            raise InputError(
                f"the model has no {' and no '.join(sorted(missing))}; give a fine-tuned or pre-trained export"
            )
        self.config, self.tokenizer = config, tokenizer
        self.max_length = max_length or recorded_length(tokenizer, config)
        if not SHORTEST <= self.max_length <= config.max_positions:
            raise InputError(
                f"max_length={self.max_length}: the model takes {SHORTEST} to {config.max_positions} tokens"
            )
        # A CPU's caches like small batches, an accelerator needs large ones to be busy.
        self.batch_tokens = batch_tokens or (4096 if jax.default_backend() == "cpu" else 65536)
        lengths = CPU_LENGTHS if jax.default_backend() == "cpu" else LENGTHS
        self.lengths = (*(n for n in lengths if n < self.max_length), self.max_length)
        self.cut_queries = 0
        self.marks = marks
        self.use(jax.device_put({name: params[name] for name in PARTS}))
        self._score = jax.jit(partial(_score, config))

    @classmethod
    def from_pretrained(cls, directory: str, dtype: str = "float32", **options: Any) -> "Reranker":
        """Loads a Hugging Face directory with a one-label classifier, such as `harp_jax.export` writes."""
        config, params = load_hf(directory)
        tokenizer = load_tokenizer(directory)
        check_vocabulary(tokenizer, config, directory)
        marks = recorded_marks(directory, tokenizer)
        return cls(config.computing_in(dtype), params, tokenizer, marks=marks, **options)

    def use(self, params: dict[str, Any]) -> None:
        """Takes other parameters of the same shapes (device arrays), without compiling anything again."""
        self._params = {name: params[name] for name in PARTS}

    def rerank(self, query: str, documents: Sequence[str], windows: Windows | None = None) -> np.ndarray:
        """Relevance scores [documents] float32 in the given order; larger is better.

        Of a long document the first tokens count, or the best of its `windows` (MaxP).
        """
        if isinstance(documents, str):
            raise TypeError("documents is one string; give a list of them")
        (ids,) = self.encode_queries([query])
        found = self.encode_documents(list(documents), None if windows is None else windows.reach(self.max_length))
        return best_of(self, [(ids, document) for document in found], windows)

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All token ids of each text."""
        return [np.asarray(encoding.ids, np.int32) for encoding in self.tokenizer.encode_batch(texts)]

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """Token ids of each text, `limit` at most (as many as a row can take)."""
        return [np.asarray(ids, np.int32) for ids in self.tokenizer.encode_prefixes(texts, limit or self.max_length)]

    def room(self, query: np.ndarray) -> int:
        """Tokens of a document that a row has room for beside this query; an eighth of the row is its own (`packing.fit`)."""
        marks = len(self.marks.ids)
        return max(1, self.max_length // 8 - bool(marks), self.max_length - len(query) - 3 - marks)

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Puts the marks before the two and cuts them to the row."""
        query, document = self.marks.on_query(query), self.marks.on_document(document)
        fitted = fit(query, document, self.max_length)
        self.cut_queries += len(fitted[0]) < len(query)
        return fitted

    def score(self, pairs: list[Pair], bar: Any = None) -> np.ndarray:
        """Scores [pairs] float32. All batches are sent before the first result is waited for."""
        sizes = np.array([len(query) + len(document) + 3 for query, document in pairs], np.int64)
        waiting = np.argsort(-sizes, kind="stable")
        sent: list[tuple[np.ndarray, jax.Array]] = []
        while len(waiting):
            length = next(n for n in self.lengths if n >= sizes[waiting[0]])
            rows = min(max(1, self.batch_tokens // length), 1 << max(3, int(len(waiting) - 1).bit_length()))
            chosen, waiting = waiting[:rows], waiting[rows:]
            sent.append((chosen, self._score(self._params, *self._batch([pairs[i] for i in chosen], rows, length))))
        scores = np.zeros(len(pairs), np.float32)
        for chosen, result in sent:
            scores[chosen] = np.asarray(result)[: len(chosen)]
            if bar is not None:
                bar.update(len(chosen))
        return scores

    def _batch(self, pairs: list[Pair], rows: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tokens [rows, length], start of the document and end of the sequence [rows], int32; spare rows end at 0."""
        tokens = np.full((rows, length), self.tokenizer.pad, np.int32)
        second, end = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        for row, (query, document) in enumerate(pairs):
            q, n = len(query) + 2, len(query) + len(document) + 3
            tokens[row, 0] = self.tokenizer.cls
            tokens[row, 1 : q - 1] = query
            tokens[row, q - 1] = self.tokenizer.sep
            tokens[row, q : n - 1] = document
            tokens[row, n - 1] = self.tokenizer.sep
            second[row], end[row] = q, n
        return tokens, second, end


def recorded_length(tokenizer: Tokenizer, config: BertConfig) -> int:
    """The length of sequences that a directory's tokenizer records; 512, or all positions, where that cannot be it."""
    recorded = tokenizer.max_length if SHORTEST <= tokenizer.max_length <= config.max_positions else 512
    return min(recorded, config.max_positions)


def _score(config: BertConfig, params: dict, tokens: jax.Array, second: jax.Array, end: jax.Array) -> jax.Array:
    """Scores [rows] of one sequence a row; segments, positions and types are made on the device."""
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
    # Of the last layer [CLS] alone is needed.
    cls = model.apply({"params": params}, batch, True, first, method="encode")
    scores: Any = model.apply({"params": params}, cls, first, method="scores")
    return scores[:, 0]
