"""A neural ranker from before BERT (`neural_ir/`) as a `Scorer`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.baselines.neural_ir import known_words
from harp_jax.baselines.neural_ir.build import build, word_tables
from harp_jax.baselines.neural_ir.parameters import load_ranker
from harp_jax.baselines.neural_ir.shape import NeuralConfig
from harp_jax.ranking.scoring import Pair, ProgressBar, score_by_length
from harp_jax.text.words import WordVocabulary

# Document lengths that are compiled; padding changes no score, finer steps only pad less.
LENGTHS = (32, 64, 128, 192, 256, 384, 512, 1024)


class NeuralScorer:
    """Scores of (query words, document words).

    `max_length` counts words of the document: the model's length, or less. A batch has `batch_tokens` words.
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
        """The parameters that a training run selected (`recorded.best`), or those of its newest checkpoint."""
        return cls(*load_ranker(workdir), max_length, batch_tokens)

    def use(self, params: Mapping[str, Any]) -> None:
        """Replaces the parameters (device arrays of the same shapes); nothing is compiled again."""
        self._params = params

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All word ids of each text, int32."""
        return [np.asarray(self.words.encode(text), np.int32) for text in texts]

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """The first `limit` word ids of each text (by default as many as the model reads), int32."""
        return [np.asarray(ids, np.int32) for ids in self.words.encode_prefixes(texts, limit or self.max_length)]

    def room(self, query: np.ndarray) -> int:
        """Words of a document that the model reads, whatever the query."""
        return self.max_length

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Truncates the two to the model's lengths."""
        self.truncated_queries += len(query) > self.config.query_length
        return query[: self.config.query_length], document[: self.max_length]

    def score(self, pairs: Sequence[Pair], bar: ProgressBar | None = None) -> np.ndarray:
        """Scores [pairs] float32, larger is more relevant."""
        sizes = np.array([len(document) for _, document in pairs], np.int64)
        return score_by_length(self._score_batch, pairs, sizes, self.lengths, self.batch_tokens, bar)

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """Notes on texts of whose words the vocabulary knows few.

        Raises InputError where the model could not change the order of the run: no word known, or blank queries. DUET is the
        exception to the second: it scores documents by themselves too, the others only by their matches with the query.
        """
        if blank and self.config.name != "duet":
            raise InputError(
                f"--blank_query: {self.config.name} scores matches only, without a query all documents score the same; "
                "leave the option out (`harp priors` writes runs of document priors)"
            )
        texts = {"documents": documents} if blank else {"queries": queries, "documents": documents}
        remedy = "re-rank the collection that the model was trained on, or train on this one"
        return known_words.check(self.words, texts, self.max_length, 0.0, remedy)

    def _score_batch(self, pairs: list[Pair], rows: int, length: int) -> jax.Array:
        """Scores [rows] of pairs, documents padded to `length` words; spare rows are empty."""
        query = np.zeros((rows, self.config.query_length), np.int32)
        document = np.zeros((rows, length), np.int32)
        for row, (q, d) in enumerate(pairs):
            query[row, : len(q)] = q
            document[row, : len(d)] = d
        return self._score(self._params, query, document)
