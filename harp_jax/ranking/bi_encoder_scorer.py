"""An encoder without training as a `Scorer`: the cosine of mean-pooled vectors, as sentence encoders rank.

What a start knows before any pre-training: a ranker that begins from it has to beat this row.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from harp_jax.checkpoints.encoder import load_encoder, tokenizer_of
from harp_jax.checkpoints.huggingface import check_vocabulary
from harp_jax.errors import InputError
from harp_jax.model.bert import BertConfig
from harp_jax.model.cross_encoder import Ranker
from harp_jax.ranking.cross_encoder_scorer import CPU_LENGTHS, LENGTHS, recorded_length
from harp_jax.ranking.scoring import Pair, ProgressBar
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer


class BiEncoderScorer:
    """cos(mean of the query's hidden states, mean of the document's), each text encoded once a chunk as [CLS] text [SEP]."""

    remedy = "raise --max_length"

    def __init__(
        self,
        config: BertConfig,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.max_length = max_length or recorded_length(tokenizer, config)
        if not 3 <= self.max_length <= config.max_positions:
            raise InputError(f"max_length={self.max_length}: the model takes 3 to {config.max_positions} tokens")
        on_cpu = jax.default_backend() == "cpu"
        self.batch_tokens = batch_tokens or (4096 if on_cpu else 65536)
        self.lengths = (*(n for n in (CPU_LENGTHS if on_cpu else LENGTHS) if n < self.max_length), self.max_length)
        self.truncated_queries = 0
        self.use(jax.device_put({"bert": params["bert"]}))
        self._embed = jax.jit(partial(_embed, config))

    @classmethod
    def load(
        cls, directory: str, dtype: str = "float32", max_length: int | None = None, batch_tokens: int | None = None
    ) -> "BiEncoderScorer":
        """Loads the encoder of a Hugging Face BERT directory or of a training workdir; heads are not needed."""
        config, params = load_encoder(directory)
        tokenizer = load_tokenizer(tokenizer_of(directory))
        check_vocabulary(tokenizer, config, directory)
        return cls(config.computing_in(dtype), params, tokenizer, max_length, batch_tokens)

    def use(self, params: Mapping[str, Any]) -> None:
        """Replaces the parameters (device arrays of the same shapes); nothing is compiled again."""
        self._params = {"bert": params["bert"]}

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All token ids of each text, int32."""
        return [np.asarray(encoding.ids, np.int32) for encoding in self.tokenizer.encode_batch(texts)]

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """The first `limit` token ids of each text (by default as many as the encoder can read), int32."""
        return [np.asarray(ids, np.int32) for ids in self.tokenizer.encode_prefixes(texts, limit or self.max_length)]

    def room(self, query: np.ndarray) -> int:
        """Tokens of a document that the encoder reads, whatever the query."""
        return self.max_length - 2

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Both texts truncated to the encoder's length."""
        self.truncated_queries += len(query) > self.max_length - 2
        return query[: self.max_length - 2], document[: self.max_length - 2]

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
        """Unit vectors [texts, hidden] float32 of token ids, in batches of texts of similar length."""
        sizes = np.array([len(text) + 2 for text in texts], np.int64)
        waiting = np.argsort(-sizes, kind="stable")
        out = np.zeros((len(texts), self.config.hidden), np.float32)
        while len(waiting):
            length = next(n for n in self.lengths if n >= sizes[waiting[0]])
            rows = max(1, self.batch_tokens // length)
            chosen, waiting = waiting[:rows], waiting[rows:]
            tokens = np.full((rows, length), self.tokenizer.pad, np.int32)
            end = np.zeros(rows, np.int32)
            for row, i in enumerate(chosen):
                end[row] = sizes[i]
                tokens[row, : end[row]] = [self.tokenizer.cls, *texts[i], self.tokenizer.sep]
            out[chosen] = np.asarray(self._embed(self._params, tokens, end))[: len(chosen)]
        return out

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """No notes: WordPiece splits any text into tokens that the model knows."""
        return []


def _embed(config: BertConfig, params: dict, tokens: jax.Array, end: jax.Array) -> jax.Array:
    """Unit vectors [rows, hidden] float32 of one text a row, which ends at `end` [rows]."""
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
