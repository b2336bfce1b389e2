"""A pre-BERT neural ranker (`neural_ir/`) as a `Scorer`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.baselines.neural_ir.groups import known_words
from harp_jax.baselines.neural_ir.interaction import NeuralConfig
from harp_jax.baselines.neural_ir.ranker import build, load_ranker, word_tables
from harp_jax.ranking.scoring import Pair, ProgressBar, score_by_length
from harp_jax.text.words import WordVocabulary

# Compiled document lengths; padding does not change scores.
LENGTHS = (32, 64, 128, 192, 256, 384, 512, 1024)


class NeuralScorer:
    """Scores (query words, document words).

    `max_length` is in document words, at most the model's. A batch has `batch_tokens` words.
    """

    remedy = "train with a larger --config.model.query_length"

    def __init__(
        self,
        config: NeuralConfig,
        params: Mapping[str, Any],
        words: WordVocabulary,
        max_length: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        if max_length is not None and max_length > config.document_length:
            raise InputError(f"max_length={max_length}: the model takes {config.document_length} words of a document")
        self.config, self.words = config, words
        self.max_length = max_length or config.document_length
        self.batch_tokens = batch_tokens or (16_384 if jax.default_backend() == "cpu" else 262_144)
        self.lengths = (*(n for n in LENGTHS if n < self.max_length), self.max_length)
        self.truncated_queries = 0
        module, tables = build(config), word_tables(config, words)
        self.use(jax.device_put(params))
        self._score = jax.jit(lambda p, query, document: module.apply({"params": p}, query, document, tables))

    @classmethod
    def load(cls, workdir: str, max_length: int | None = None, batch_tokens: int | None = None) -> "NeuralScorer":
        """Loads the parameters selected in training (`recorded.best`), or else the newest checkpoint's."""
        return cls(*load_ranker(workdir), max_length, batch_tokens)

    def use(self, params: Mapping[str, Any]) -> None:
        """See `Scorer.use`."""
        self._params = params

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All word ids of each text, int32."""
        return [np.asarray(self.words.encode(text), np.int32) for text in texts]

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """The first `limit` word ids of each text, int32 (default: as many as the model reads)."""
        return [np.asarray(ids, np.int32) for ids in self.words.encode_prefixes(texts, limit or self.max_length)]

    def room(self, query: np.ndarray) -> int:
        """Maximum document words, for any query."""
        return self.max_length

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Truncates both to the model's lengths."""
        self.truncated_queries += len(query) > self.config.query_length
        return query[: self.config.query_length], document[: self.max_length]

    def score(self, pairs: Sequence[Pair], bar: ProgressBar | None = None) -> np.ndarray:
        """Scores [pairs] float32, larger is more relevant."""
        sizes = np.array([len(document) for _, document in pairs], np.int64)
        return score_by_length(self._score_batch, pairs, sizes, self.lengths, self.batch_tokens, bar)

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """Notes on texts with few words in the vocabulary.

        Raises InputError where all scores would tie: no known word, or blank queries. Only DUET scores documents without
        matching them to the query, so it accepts blank queries.
        """
        if blank and self.config.name != "duet":
            raise InputError(
                f"--blank_query: {self.config.name} scores matches only, without a query all documents score the same; "
                "leave the option out (`harp priors` writes runs of document priors)"
            )
        texts = {"documents": documents} if blank else {"queries": queries, "documents": documents}
        remedy = "re-rank the collection that the model was trained on, or train on this one"
        return known_words(self.words, texts, self.max_length, 0.0, remedy)

    def _score_batch(self, pairs: list[Pair], rows: int, length: int) -> jax.Array:
        """Scores [rows] of pairs, documents padded to `length` words; unused rows are empty."""
        query = np.zeros((rows, self.config.query_length), np.int32)
        document = np.zeros((rows, length), np.int32)
        for row, (q, d) in enumerate(pairs):
            query[row, : len(q)] = q
            document[row, : len(d)] = d
        return self._score(self._params, query, document)
