"""Term weights that need no encoder: "uniform" over wordpieces, or "idf" over the passages."""

import os
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from data_pipeline.engine.job import Job
from data_pipeline.engine.store import load_arrays, read
from data_pipeline.engine.tables import Row, table, unpack
from data_pipeline.text.terms import Span, load_terms, unpack_words
from data_pipeline.weights.word_weights import is_weighed, to_bytes
from harp_jax.base.files import replacing


def weigh_sentences(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over `sentences`: weights without an encoder; every anchor has the weights of [CLS]."""
    weigh = _weigher(job)
    rows = []
    for sentence in read(job, "sentences", number).to_pylist():
        span = _span(sentence)
        alpha, found = weigh(span), sentence["anchors"]
        # Without attention to [CLS], both directions of Eq. 10 are the mean over the anchor's pieces.
        to_cls = [alpha[a["start"] : a["end"]].sum() / span.lengths[a["start"] : a["end"]].sum() for a in found]
        rows.append(
            dict(
                doc=sentence["doc"], start=sentence["start"], cls=to_bytes(alpha),
                anchors=to_bytes(np.tile(alpha, len(found))), to_cls=to_bytes(np.array(to_cls)),
            )
        )  # fmt: skip
    return {"sentence_weights": table("sentence_weights", rows)}


def weigh_passages(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over `passages`: weights without an encoder."""
    weigh = _weigher(job)
    rows = []
    for passage in read(job, "passages", number).to_pylist():
        if is_weighed(passage, job):
            alpha = weigh(_span(passage))
            rows.append(dict(doc=passage["doc"], weights=to_bytes(alpha)))
    return {"passage_weights": table("passage_weights", rows)}


def _span(row: Row) -> Span:
    return Span(unpack_words(row["words"]), unpack(row["tokens"]), unpack(row["lengths"]))


def _weigher(job: Job) -> Callable[[Span], np.ndarray]:
    if job["config"]["encoder"] == "uniform":
        return lambda span: span.lengths / max(1, len(span.tokens))
    c = job["config"]
    terms = load_terms(c["tokenizer"], c["stopwords"], c["unit"])
    frequency = DocumentFrequency(os.path.join(job["work"], "document_frequency.npz"))

    def idf(span: Span) -> np.ndarray:
        alpha = frequency.idf(np.array([terms.hashed(word) for word in span.words], np.int64))
        return alpha / max(alpha.sum(), 1e-9)

    return idf


class DocumentFrequency:
    """Number of passages that contain a word, as sorted arrays: the words of a large corpus are too many for a dict."""

    def __init__(self, path: str) -> None:
        arrays = load_arrays(path)
        self.words, self.counts, self.passages = arrays["words"], arrays["counts"], int(arrays["passages"])

    def idf(self, words: np.ndarray) -> np.ndarray:
        """log((N + 1) / (df + 1/2)) of hashed words, [n]; positive for every word."""
        if not len(self.words):
            return np.full(len(words), np.log((self.passages + 1) / 0.5))
        at = np.minimum(np.searchsorted(self.words, words), len(self.words) - 1)
        counts = np.where(self.words[at] == words, self.counts[at], 0)
        return np.log((self.passages + 1) / (counts + 0.5))


def save_frequency(path: str, rows: Mapping[str, np.ndarray], passages: int) -> None:
    """Writes a `DocumentFrequency` file from the columns `word` (hash) and `n`."""
    order = np.argsort(rows["word"])
    with replacing(path, "wb") as file:
        np.savez(file, words=rows["word"][order], counts=rows["n"][order], passages=passages)
