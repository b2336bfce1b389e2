"""Re-ranking by a neural ranker, straight from its training workdir: what `harp_jax.ranking.rerank --model=WORKDIR` uses."""

import os
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from harp_jax.errors import InputError
from harp_jax.neural_ir import known_words
from harp_jax.neural_ir.build import build, word_tables
from harp_jax.neural_ir.parameters import load_selected
from harp_jax.neural_ir.shape import NeuralConfig
from harp_jax.text.words import Words, load_words

# Document lengths that are compiled; padding changes no score, finer steps only pad less.
LENGTHS = (32, 64, 128, 192, 256, 384, 512, 1024)


Pair = tuple[np.ndarray, np.ndarray]  # word ids of query and document, cut to the model's lengths


class NeuralReranker:
    """Scores (query, document) pairs; the interface of `rerank.Reranker`.

    `max_length` counts words of the document and is the model's unless it is smaller; `batch_tokens` words go at a time.
    """

    remedy = "train with a larger --config.model.query_length"  # where queries were cut

    def __init__(
        self,
        config: NeuralConfig,
        params: dict[str, Any],
        words: Words,
        max_length: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        if max_length is not None and max_length > config.document_length:
            raise InputError(f"max_length={max_length}: the model takes {config.document_length} words of a document")
        self.config, self.words = config, words
        self.max_length = max_length or config.document_length
        self.batch_tokens = batch_tokens or (16_384 if jax.default_backend() == "cpu" else 262_144)
        self.lengths = (*(n for n in LENGTHS if n < self.max_length), self.max_length)
        self.cut_queries = 0
        module, tables = build(config), word_tables(config, words)
        self.use(jax.device_put(params))
        self._score = jax.jit(lambda p, query, document: module.apply({"params": p}, query, document, tables))

    def use(self, params: dict[str, Any]) -> None:
        """Takes other parameters of the same shapes (device arrays), without compiling anything again."""
        self._params = params

    @classmethod
    def from_workdir(cls, workdir: str, **options: Any) -> "NeuralReranker":
        """The parameters that a run of `configs/baselines/` selected (`selection.py`), or its newest checkpoint."""
        from harp_jax.checkpoints.checkpoint import load_params, read_config
        from harp_jax.checkpoints.selected import DIRECTORY, best

        config = read_config(workdir)
        if "neural_ir" not in config:
            raise InputError(f"{workdir} holds no neural ranker; export the model of a BERT run first")
        selected = best(os.path.join(workdir, DIRECTORY))
        if selected:
            params = load_selected(os.path.join(workdir, DIRECTORY, selected["model"]))
        else:
            params, _ = load_params(workdir)
        words = load_words(os.path.join(workdir, "tokenizer"))
        return cls(NeuralConfig(**config.neural_ir), _without_padding(params, words.size), words, **options)

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """Notes on a run to come, of some of its texts. InputError where the model could not change the run's order.

        Such are texts of which the vocabulary knows no word, and blank queries, unless DUET's: it alone looks at documents for
        themselves, the others at matches.
        """
        if blank and self.config.name != "duet":
            raise InputError(
                f"--blank_query: {self.config.name} sees nothing but matches, without a query all documents score the same; "
                "leave the option out (harp_jax.ranking.priors makes runs of document priors)"
            )
        texts = {"documents": documents} if blank else {"queries": queries, "documents": documents}
        remedy = "re-rank the collection that the model was trained on, or train on this one"
        return known_words.check(self.words, texts, self.max_length, 0.0, remedy)

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """Word ids of each text, `limit` at most (as many as the model takes)."""
        return [np.asarray(ids, np.int32) for ids in self.words.encode_prefixes(texts, limit or self.max_length)]

    def room(self, query: np.ndarray) -> int:
        """Words of a document that the model takes."""
        return self.max_length

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All word ids of each text."""
        return [np.asarray(self.words.encode(text), np.int32) for text in texts]

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Cuts the two to the model's lengths."""
        self.cut_queries += len(query) > self.config.query_length
        return query[: self.config.query_length], document[: self.max_length]

    def rerank(self, query: str, documents: list[str]) -> np.ndarray:
        """Relevance scores [documents] float32 in the given order; larger is better."""
        ids = self.encode_queries([query])[0]
        return self.score([self.pair(ids, document) for document in self.encode_documents(documents)])

    def score(self, pairs: list[Pair], bar: Any = None) -> np.ndarray:
        """Scores [pairs] float32, in batches of similar document lengths."""
        sizes = np.array([len(document) for _, document in pairs], np.int64)
        waiting = np.argsort(-sizes, kind="stable")
        sent: list[tuple[np.ndarray, jax.Array]] = []
        while len(waiting):
            length = next(n for n in self.lengths if n >= sizes[waiting[0]])
            rows = min(max(1, self.batch_tokens // length), 1 << max(3, int(len(waiting) - 1).bit_length()))
            chosen, waiting = waiting[:rows], waiting[rows:]
            query = np.zeros((rows, self.config.query_length), np.int32)
            document = np.zeros((rows, length), np.int32)
            for row, index in enumerate(chosen):
                q, d = pairs[index]
                query[row, : len(q)] = q
                document[row, : len(d)] = d
            sent.append((chosen, self._score(self._params, query, document)))
        scores = np.zeros(len(pairs), np.float32)
        for chosen, result in sent:
            scores[chosen] = np.asarray(result)[: len(chosen)]
            if bar is not None:
                bar.update(len(chosen))
        return scores


def _without_padding(params: dict, rows: int) -> dict:
    """Parameters without the word vectors that sharding padded."""
    return {name: tree[:rows] if name == "vectors" else tree for name, tree in params.items()}
