"""`Reranker`: a trained model of any kind as an object that ranks texts."""

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.ranking.bi_encoder_scorer import BiEncoderScorer
from harp_jax.ranking.cross_encoder_scorer import CrossEncoderScorer
from harp_jax.ranking.maxp import Windows, best_of
from harp_jax.ranking.neural_scorer import NeuralScorer
from harp_jax.ranking.runtime_scorer import RuntimeScorer
from harp_jax.ranking.runtimes import chosen_backend
from harp_jax.ranking.scoring import Scorer


def load_scorer(
    directory: str,
    dtype: str = "float32",
    max_length: int | None = None,
    batch_tokens: int | None = None,
    cosine: bool = False,
    backend: str = "jax",
) -> Scorer:
    """The scorer of an export, of any Hugging Face directory with a one-label BERT classifier, or of a training workdir.

    `cosine`: the encoder alone, as a bi-encoder. `backend` of cross-encoders: jax, openvino, onnx, or auto (`runtimes`). Neural
    rankers compute in float32, and they and the bi-encoder with JAX: InputError for others, or where there is nothing to load.
    """
    if cosine or is_neural(directory):
        if backend not in ("jax", "auto"):
            what = "--cosine" if cosine else f"the neural ranker {directory}"
            raise InputError(f"--backend={backend}: {what} is computed with JAX; leave it out")
        if dtype == "int8":
            raise InputError("--dtype=int8 is for cross-encoders; leave it out")
    else:
        backend = chosen_backend(backend, dtype, directory)
    if cosine:
        return BiEncoderScorer.load(directory, dtype, max_length, batch_tokens)
    if is_neural(directory):
        if dtype != "float32":
            raise InputError(
                f"--dtype={dtype}: {directory} is a neural ranker, which computes in float32; leave it out"
            )
        return NeuralScorer.load(directory, max_length, batch_tokens)
    if backend != "jax":
        return RuntimeScorer.load(directory, backend, dtype, max_length, batch_tokens)
    return CrossEncoderScorer.load(directory, dtype, max_length, batch_tokens)


def is_neural(directory: str) -> bool:
    """Whether a directory is the workdir of a neural ranker from before BERT."""
    return os.path.isfile(os.path.join(directory, "tokenizer", "words.json"))


class Reranker:
    """A trained ranker: a BERT cross-encoder, or a neural ranker from before BERT.

    `rank` and `predict` take and return what sentence-transformers' `CrossEncoder.rank` and `.predict` do, with the same
    scores. Neither torch nor TensorFlow is needed.

    >>> import harp_jax as hj
    >>> model = hj.Reranker.from_pretrained("ranker")
    >>> model.rank("red cat", ["a blue dog", "the red cat sat"], top_k=1)
    [{'corpus_id': ..., 'score': ...}]
    >>> model.predict([("red cat", "a blue dog"), ("red cat", "the red cat sat")]).shape
    (2,)
    """

    def __init__(self, scorer: Scorer, directory: str = "") -> None:
        self.scorer = scorer
        self.directory = directory  # that it was loaded from

    @classmethod
    def from_pretrained(
        cls,
        directory: str,
        dtype: str = "float32",
        max_length: int | None = None,
        batch_tokens: int | None = None,
        backend: str = "jax",
    ) -> Self:
        """Loads an export, a Hugging Face directory with a one-label BERT classifier, or a training workdir.

        `max_length` counts tokens of query and document together, with the three special ones (neural rankers: words of
        the document), by default as in training. `dtype` is float32 or bfloat16; int8 where the export has it and the backend is
        not jax. `backend` is jax, openvino, onnx, or auto: the fastest that is installed. A batch has `batch_tokens` slots
        (4096 on CPU, 65536 on accelerators). Raises InputError where there is no model to load.
        """
        return cls(load_scorer(directory, dtype, max_length, batch_tokens, backend=backend), directory)

    def predict(self, pairs: Sequence[tuple[str, str]], windows: Windows | None = None) -> np.ndarray:
        """Scores [pairs] float32 of (query, document) texts; larger is more relevant, cross-encoders return raw logits.

        Of a document that is too long the first tokens count, or the best of its `windows` (MaxP).
        """
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise InputError("predict takes pairs of texts: [(query, document), …]")
        if windows is not None and not isinstance(windows, Windows):
            raise InputError(f"windows={windows!r}: use harp_jax.ranking.maxp.Windows(…)")
        limit = None if windows is None else windows.reach(self.scorer.max_length)
        queries = list(dict.fromkeys(query for query, _ in pairs))
        documents = list(dict.fromkeys(document for _, document in pairs))
        query_ids = dict(zip(queries, self.scorer.encode_queries(queries)))
        document_ids = dict(zip(documents, self.scorer.encode_documents(documents, limit)))
        return best_of(self.scorer, [(query_ids[query], document_ids[document]) for query, document in pairs], windows)

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
        windows: Windows | None = None,
    ) -> list[dict[str, Any]]:
        """The documents by decreasing score, ties in the given order: {"corpus_id", "score"} each.

        "corpus_id" is the position in `documents`; `return_documents` adds their "text"; `top_k` keeps so many.
        """
        if top_k is not None and top_k < 1:
            raise InputError(f"top_k={top_k}: use 1 or more, or None for all documents")
        scores = self.rerank(query, documents, windows)
        order = np.argsort(-scores, kind="stable")[:top_k].tolist()
        hits: list[dict[str, Any]] = [{"corpus_id": i, "score": float(scores[i])} for i in order]
        return [{**hit, "text": documents[hit["corpus_id"]]} for hit in hits] if return_documents else hits

    def rerank(self, query: str, documents: Sequence[str], windows: Windows | None = None) -> np.ndarray:
        """Scores [documents] float32 in the given order; as `predict` for one query."""
        if isinstance(documents, str):
            raise TypeError("documents is one string; pass a list of them")
        return self.predict([(query, document) for document in documents], windows)
