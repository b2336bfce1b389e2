"""A trained neural ranker: its files in a workdir, and the `Scorer` that re-ranks with it."""

import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import jax
import numpy as np
from flax.traverse_util import unflatten_dict

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import Progress
from harp_jax.baselines.neural_ir.models import NeuralConfig, build, word_tables
from harp_jax.baselines.neural_ir.words import WordVocabulary, load_words
from harp_jax.checkpoints.recorded import best, recorded_config
from harp_jax.ranking.rerank import DEFAULTS, Reranked, Reranking, rerank_with
from harp_jax.ranking.scorers import Pair, full_precision_matmul, score_by_length

STATE = "state.npz"  # the newest checkpoint, or the selected parameters
WORD_LENGTHS = (32, 64, 128, 192, 256, 384, 512, 1024)  # compiled document lengths
SAMPLE = 500  # texts of each kind to check


def save_state(directory: str, state: Mapping[str, Any]) -> None:
    """Replaces the checkpoint of a directory atomically: the arrays of a tree, such as "params/vectors". Its zip format has a
    checksum of every array."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(jax.device_get(state))
    with replacing(os.path.join(directory, STATE), "wb") as file:
        np.savez(file, **{jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves})


def read_state(directory: str) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint by name, such as "params/vectors"; none without one. InputError for a damaged one."""
    path = os.path.join(directory, STATE)
    if not os.path.exists(path):
        return {}
    try:
        with np.load(path) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise InputError(f"{path} is damaged ({error}); remove it to train again from step 0") from error


def load_ranker(workdir: str) -> tuple[NeuralConfig, dict[str, Any], WordVocabulary]:
    """Shape, parameters (numpy float32) and vocabulary of a trained neural ranker.

    The parameters are the ones selected in training (`recorded.best`), or else the newest checkpoint's. Raises InputError if
    there is nothing to load.
    """
    config = recorded_config(workdir)
    if "neural_ir" not in config:
        raise InputError(f"{workdir} holds no neural ranker; check the path")
    words = load_words(os.path.join(workdir, "tokenizer"))
    params = unflatten_dict(read_state(best(workdir).get("model", workdir)), sep="/").get("params")
    if not params:
        raise InputError(f"{workdir} holds no checkpoint yet; train first")
    return NeuralConfig(**config.neural_ir), params, words


def load_neural(
    directory: str,
    dtype: str = "float32",
    max_length: int | None = None,
    batch_tokens: int | None = None,
    cosine: bool = False,
    backend: str = "jax",
) -> "NeuralScorer":
    """The scorer of a workdir; options as in `ranking.rerank.load_scorer`. InputError for all but scores by JAX in float32."""
    if backend not in ("jax", "auto") or dtype != "float32" or cosine:
        raise InputError(
            f"the neural ranker {directory} scores by JAX in float32: leave out --backend, --dtype and --cosine"
        )
    return NeuralScorer(*load_ranker(directory), max_length, batch_tokens)


@once
def rerank_files(
    model: InputPath, docs: InputPath, queries: InputPath, run: InputPath, output: str, options: Reranking = DEFAULTS
) -> Reranked:
    """`ranking.rerank.rerank_files` by a neural ranker's workdir."""
    return rerank_with(load_neural, model, docs, queries, run, output, options)


class NeuralScorer:
    """Scores (query words, document words), a `Scorer`. `max_length` is in document words, at most the model's; a batch has
    `batch_tokens` words."""

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
            raise InputError(f"max_length={max_length}: the model reads {config.document_length} words of a document")
        self.config, self.words = config, words
        self.max_length = max_length or config.document_length
        self.batch_tokens = batch_tokens or (16_384 if jax.default_backend() == "cpu" else 262_144)
        self.lengths = (*(n for n in WORD_LENGTHS if n < self.max_length), self.max_length)
        self.truncated_queries = self.truncated_documents = 0
        module, tables = build(config), word_tables(config, words)
        self.use(jax.device_put(params))

        def score(p: Mapping[str, Any], query: jax.Array, document: jax.Array) -> Any:
            with full_precision_matmul("float32"):
                return module.apply({"params": p}, query, document, tables)

        self._score = jax.jit(score)

    def use(self, params: Mapping[str, Any]) -> None:
        self._params = params

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        return [np.asarray(self.words.encode(text), np.int32) for text in texts]

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        return [np.asarray(ids, np.int32) for ids in self.words.encode_prefixes(texts, limit or self.max_length)]

    def room(self, query: np.ndarray) -> int:
        return self.max_length

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        self.truncated_queries += len(query) > self.config.query_length
        return query[: self.config.query_length], document[: self.max_length]

    def score(self, pairs: Sequence[Pair], bar: Progress | None = None) -> np.ndarray:
        sizes = np.array([len(document) for _, document in pairs], np.int64)
        return score_by_length(self._score_batch, pairs, sizes, self.lengths, self.batch_tokens, bar)

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """Notes on texts with few words in the vocabulary.

        Raises InputError if all scores would tie: no known word, or blank queries. Only DUET scores documents without
        matching them to the query, so it accepts blank queries.
        """
        if blank and self.config.name != "duet":
            raise InputError(
                f"--blank_query: {self.config.name} scores only matches, so without a query all documents score the same; "
                "leave the option out (`harp priors` writes runs of document priors)"
            )
        texts = {"documents": documents} if blank else {"queries": queries, "documents": documents}
        remedy = "re-rank the collection that the model was trained on, or train on this one"
        return known_words(self.words, texts, self.max_length, 0.0, remedy)

    def _score_batch(self, pairs: list[Pair], rows: int, length: int) -> jax.Array:
        """Scores [rows] of pairs, documents padded to `length` words; unused rows are empty."""
        query = padded([query for query, _ in pairs], rows, self.config.query_length)
        return self._score(self._params, query, padded([document for _, document in pairs], rows, length))


def padded(texts: Sequence[np.ndarray], rows: int, length: int) -> np.ndarray:
    """Words [rows, length] int32 of texts, truncated or padded with 0."""
    words = np.zeros((rows, length), np.int32)
    for row, text in enumerate(texts):
        words[row, : len(text)] = text[:length]
    return words


def known_words(
    words: WordVocabulary, texts: Mapping[str, Iterable[str]], limit: int, least: float, remedy: str
) -> list[str]:
    """A note for each kind of texts (by name) with less than half of its words in the vocabulary.

    Counts the first `limit` words of the first SAMPLE texts. Raises InputError if none are in the vocabulary, or less than
    `least`: unknown words all have id 0, so documents would score the same.
    """
    notes = []
    for what, some in texts.items():
        ids = [i for text in islice(some, SAMPLE) for i in words.encode(text, limit)]
        known = sum(i > 0 for i in ids) / max(len(ids), 1)
        if not known or known < least:
            raise InputError(
                f"{known:.1%} of the words of the {what} are in the vocabulary ({words.size - 1} words, stemmer "
                f"{words.stemmer!r}); it comes from other texts or another stemmer: {remedy}"
            )
        if known < 0.5:
            notes.append(
                f"only {known:.0%} of the words of the {what} are in the vocabulary; was it made from this collection?"
            )
    return notes
