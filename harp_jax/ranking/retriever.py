"""`Retriever`: texts to vectors and nearest documents, in memory; `ranking.vectors` does the same on disk."""

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import ordered
from harp_jax.ranking.runtimes import sentence_encoder
from harp_jax.ranking.scorers import BiEncoderScorer, Windows
from harp_jax.ranking.vectors import BLOCK, PASSAGES, passage_vectors


class Retriever:
    """A sentence encoder: one trained on links (`harp train --config=retriever`), or any that sentence-transformers loads.

    Vectors and cosines equal those of `SentenceTransformer.encode_query` and `.encode_document`; torch is not needed.

    >>> import harp_jax as hj
    >>> model = hj.Retriever.from_pretrained("sentence-encoder")
    >>> model.encode(["a red cat", "a blue dog"]).shape
    (2, 32)
    >>> model.search({"q1": "cats"}, {"d1": "a red cat", "d2": "a blue dog"}, k=1)
    {'q1': {...}}
    """

    def __init__(self, scorer: BiEncoderScorer) -> None:
        self.scorer = scorer

    @classmethod
    def from_pretrained(
        cls,
        directory: str | os.PathLike[str],
        dtype: str = "float32",
        max_length: int | None = None,
        batch_tokens: int | None = None,
        backend: str = "jax",
    ) -> Self:
        """Loads an export or another sentence-transformers directory, or a training workdir.

        Pooling, prompts and `max_length` (tokens of a text) are those that it records; without, the mean of hidden states. `dtype`:
        float32 or bfloat16. `backend`: jax, openvino, onnx, or auto, the fastest installed. Raises InputError if there is no
        encoder to load.
        """
        return cls(sentence_encoder(os.fspath(directory), dtype, max_length, batch_tokens, backend))

    def encode(self, texts: Sequence[str], as_queries: bool = False) -> np.ndarray:
        """Unit vectors [texts, size] float32 of the first `max_length` tokens, with the prompt of documents or of queries."""
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError("texts are a list of strings; put a single text into a list")
        if not texts:
            return np.zeros((0, self.scorer.size), np.float32)
        if as_queries:
            ids = [self.scorer.as_query(each) for each in self.scorer.encode_queries(list(texts))]
        else:
            ids = [self.scorer.as_document(each) for each in self.scorer.encode_documents(list(texts))]
        return self.scorer.vectors(ids)

    def search(
        self, queries: Mapping[str, str], docs: Mapping[str, str] | Documents, k: int = 10, passages: int = PASSAGES
    ) -> dict[str, dict[str, float]]:
        """{qid: {docid: cosine}} of the `k` nearest documents, best first; a document counts by the best of its first `passages`.

        Embeds all documents: for many searches keep the vectors (`encode`), or use `harp first-stage --model=vectors`.
        """
        if k < 1:
            raise InputError(f"k={k}: use 1 or more")
        named = list(docs.texts() if isinstance(docs, Documents) else docs.items())
        if not named:
            raise InputError("no documents to search")
        blocks = [[text for _, text in named[start : start + BLOCK]] for start in range(0, len(named), BLOCK)]
        vectors, counts = zip(*(passage_vectors(self.scorer, block, Windows(passages)) for block in blocks))
        starts = np.cumsum([0, *itertools.chain(*counts)])[:-1]
        asked = self.encode(list(queries.values()), as_queries=True)
        cosines = np.maximum.reduceat(asked @ np.concatenate(vectors).T, starts, axis=1)
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        runs = ordered(
            (qid, [named[i][0] for i in best], scores[best]) for qid, best, scores in zip(queries, nearest, cosines)
        )
        return {qid: {run.docids[i]: float(run.scores[i]) for i in run.order()} for qid, run in runs}
