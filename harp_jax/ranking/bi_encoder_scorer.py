"""Baseline: the initial encoder's cosine of mean-pooled vectors, as sentence encoders rank.

A ranker trained from this encoder has to beat it.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from harp_jax.checkpoints.encoder import load_encoder, tokenizer_of
from harp_jax.checkpoints.huggingface import check_vocabulary
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.ranking.encoder_texts import EncoderTexts, slots
from harp_jax.ranking.scoring import Pair, ProgressBar, score_by_length
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

SHORTEST = 3  # tokens of a row: one of the text, and the special tokens


class BiEncoderScorer(EncoderTexts):
    """cos(mean of the query's hidden states, mean of the document's). Texts are encoded separately, each once per chunk."""

    def __init__(
        self,
        config: EncoderShape,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        super().__init__(config, tokenizer, max_length, SHORTEST)
        self.batch_tokens = slots(batch_tokens)
        self.use(jax.device_put({"encoder": params["encoder"]}))
        self._embed = jax.jit(partial(_embed, config))

    @classmethod
    def load(
        cls, directory: str, dtype: str = "float32", max_length: int | None = None, batch_tokens: int | None = None
    ) -> "BiEncoderScorer":
        """Loads the encoder of a Hugging Face directory or a training workdir; heads are not needed."""
        config, params = load_encoder(directory)
        tokenizer = load_tokenizer(tokenizer_of(directory))
        check_vocabulary(tokenizer, config, directory)
        return cls(config.computing_in(dtype), params, tokenizer, max_length, batch_tokens)

    def use(self, params: Mapping[str, Any]) -> None:
        """See `Scorer.use`."""
        self._params = {"encoder": params["encoder"]}

    def room(self, query: np.ndarray) -> int:
        """Maximum document tokens, for any query."""
        return self.max_length - self.tokenizer.template.around_text

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Both texts truncated to the encoder's length."""
        room = self.room(query)
        self.truncated_queries += len(query) > room
        return query[:room], document[:room]

    def score(self, pairs: Sequence[Pair], bar: ProgressBar | None = None) -> np.ndarray:
        """Cosines [pairs] float32."""
        place: dict[bytes, int] = {}
        texts: list[np.ndarray] = []
        ends = np.zeros((2, len(pairs)), np.int64)
        for i, pair in enumerate(pairs):
            for side, text in enumerate(pair):
                key = text.tobytes()
                if key not in place:
                    place[key] = len(texts)
                    texts.append(text)
                ends[side, i] = place[key]
        vectors = self.vectors(texts)
        if bar is not None:
            bar.update(len(pairs))
        return np.einsum("ph,ph->p", vectors[ends[0]], vectors[ends[1]])

    def vectors(self, texts: Sequence[np.ndarray]) -> np.ndarray:
        """Unit vectors [texts, hidden] float32 of token ids, in batches of similar length."""
        sizes = np.array([len(text) + self.tokenizer.template.around_text for text in texts], np.int64)
        return score_by_length(
            self._embed_batch, texts, sizes, self.lengths, self.batch_tokens, shape=(self.config.hidden,)
        )

    def _embed_batch(self, texts: list[np.ndarray], rows: int, length: int) -> jax.Array:
        """Unit vectors [rows, hidden] of texts padded to `length` tokens."""
        tokens = np.full((rows, length), self.tokenizer.pad, np.int32)
        end = np.zeros(rows, np.int32)
        for row, text in enumerate(texts):
            line = (*self.tokenizer.template.start, *text, *self.tokenizer.template.alone)
            end[row] = len(line)
            tokens[row, : end[row]] = line
        return self._embed(self._params, tokens, end)


def _embed(config: EncoderShape, params: dict, tokens: jax.Array, end: jax.Array) -> jax.Array:
    """Unit vectors [rows, hidden] float32 of one text per row; `end` [rows] is its length."""
    jnp = jax.numpy
    position = jnp.broadcast_to(jnp.arange(tokens.shape[1], dtype=jnp.int32), tokens.shape)
    real = position < end[:, None]
    batch = {
        "tokens": tokens,
        "segment_ids": real.astype(jnp.int32),
        "position_ids": position,
        "token_type_ids": jnp.zeros_like(tokens),
    }
    hidden: Any = Ranker(config).apply({"params": params}, batch, True, method="encode")
    mean = (hidden.astype(jnp.float32) * real[..., None]).sum(1) / jnp.maximum(end, 1)[:, None]
    return mean / jnp.maximum(jnp.linalg.norm(mean, axis=1, keepdims=True), 1e-9)
