"""A cross-encoder as a `Scorer`, without torch and without TensorFlow."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.encoder import load_ranker
from harp_jax.input.packing import pair_rows
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.ranking.encoder_texts import PairTexts, slots
from harp_jax.ranking.scoring import Pair, ProgressBar, score_by_length
from harp_jax.text.tokenizer import NO_MARKS, Marks, Tokenizer

PARTS = ("encoder", "pooler", "score")  # the subtrees of a model's parameters that scoring reads


class CrossEncoderScorer(PairTexts):
    """Scores one pair per row.

    `max_length` (default: as in training) includes special tokens; a batch has `batch_tokens` tokens, padding included.
    """

    def __init__(
        self,
        config: EncoderShape,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        marks: Marks = NO_MARKS,
    ) -> None:
        check_heads(params)
        super().__init__(config, tokenizer, max_length, marks)
        self.batch_tokens = slots(batch_tokens)
        self.use(jax.device_put({name: params[name] for name in PARTS}))
        self._score = jax.jit(partial(_score, config))

    @classmethod
    def load(
        cls, directory: str, dtype: str = "float32", max_length: int | None = None, batch_tokens: int | None = None
    ) -> "CrossEncoderScorer":
        """Loads a Hugging Face directory with a one-label classifier, such as an export, or a training workdir.

        A workdir scores like its export: with the selected parameters, length and marks.
        """
        config, params, tokenizer, marks = load_ranker(directory)
        return cls(config.computing_in(dtype), params, tokenizer, max_length, batch_tokens, marks)

    def use(self, params: Mapping[str, Any]) -> None:
        """See `Scorer.use`."""
        self._params = {name: params[name] for name in PARTS}

    def score(self, pairs: Sequence[Pair], bar: ProgressBar | None = None) -> np.ndarray:
        """Scores [pairs] float32: raw logits, larger is more relevant."""
        return score_by_length(self._score_batch, pairs, self.row_sizes(pairs), self.lengths, self.batch_tokens, bar)

    def _score_batch(self, pairs: list[Pair], rows: int, length: int) -> jax.Array:
        """Scores [rows] of pairs padded to `length` tokens; unused rows have length 0."""
        tokens, second, end = pair_rows(pairs, rows, length, self.tokenizer)
        return self._score(self._params, tokens, second, end)


def check_heads(params: Mapping[str, Any]) -> None:
    """Raises InputError for an encoder without the pooler and score heads."""
    missing = {"pooler", "score"} - set(params)
    if missing:
        raise InputError(f"the model has no {' and no '.join(sorted(missing))}; use a fine-tuned or pre-trained export")


def _score(config: EncoderShape, params: dict, tokens: jax.Array, second: jax.Array, end: jax.Array) -> jax.Array:
    """Scores [rows] of one sequence per row; segments, positions and types are computed on the device."""
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
    # The last layer computes only [CLS].
    cls = model.apply({"params": params}, batch, True, first, method="encode")
    scores: Any = model.apply({"params": params}, cls, first, method="scores")
    return scores[:, 0]
