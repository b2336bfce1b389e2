"""Term weights as files: one row a sentence or passage, float16, one number a word.

They are an artefact, made once and named by its sha256, because attention changes in its last bits with batch shapes and
hardware. "uniform" and "idf" weights need no encoder and are computed here; attention is computed in `term_weights.py`.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from data_pipeline.config import contrastive
from data_pipeline.engine.engine import Job, read
from data_pipeline.engine.tables import table, unpack
from data_pipeline.text.terms import Span
from harp_jax.errors import InputError
from harp_jax.files import replacing, sha256_file
from harp_jax.randomness import signed64

TABLES = ("sentence_weights", "passage_weights")
WITHOUT_ENCODER = ("uniform", "idf")
FOLDER, META = "term_weights", "meta.json"
FORMAT = 2


def word_sums(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Attention over wordpieces [..., pieces] to attention over words [..., words]: the sum over a word's pieces."""
    if not len(lengths):
        return rows[..., :0]
    return np.add.reduceat(rows, np.concatenate([[0], np.cumsum(lengths)[:-1]]), axis=-1)


def piece_spans(lengths: np.ndarray, anchors: list[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Each anchor's span of wordpieces, from its span of words."""
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return [(int(bounds[anchor["start"]]), int(bounds[anchor["end"]])) for anchor in anchors]


def attending(
    tokens: np.ndarray, lengths: np.ndarray, anchors: list[Mapping[str, Any]], anchor_row: str
) -> list[tuple[int, int]]:
    """The wordpieces whose attention weighs the context of each anchor (Eq. 1).

    "span": the anchor's own; "first_piece": its first wordpiece, where that occurs first in the sentence.
    """
    spans = piece_spans(lengths, anchors)
    if anchor_row == "span":
        return spans
    first = [int(np.argmax(tokens == tokens[start])) for start, _ in spans]
    return [(at, at + 1) for at in first]


def is_weighed(passage: Mapping[str, Any], c: dict[str, Any]) -> bool:
    """Do the words of a passage need weights? Without B-PROP only destinations of links do."""
    return passage["in_links"] > 0 or contrastive(c)


def to_bytes(weights: np.ndarray) -> bytes:
    return np.asarray(weights, np.float16).tobytes()


def from_bytes(data: bytes) -> np.ndarray:
    """[n] float64, so that all arithmetic after the stored float16 is exact to the same bits everywhere."""
    return np.frombuffer(data, np.float16).astype(np.float64)


def weigh_sentences(job: Job, number: int, _: Any) -> dict[str, pa.Table]:
    """Map over `sentences`: weights without an encoder; the rows of all anchors equal that of [CLS]."""
    weigh = _weigher(job)
    rows = []
    for sentence in read(job, "sentences", number).to_pylist():
        span = Span(unpack(sentence["tokens"]), unpack(sentence["lengths"]))
        alpha, found = weigh(span), sentence["anchors"]
        # Nothing attends to [CLS]: both directions of Eq. 10 are the mean over the anchor's pieces.
        to_cls = [alpha[a["start"] : a["end"]].sum() / span.lengths[a["start"] : a["end"]].sum() for a in found]
        rows.append(
            dict(
                doc=sentence["doc"], start=sentence["start"], cls=to_bytes(alpha),
                anchors=to_bytes(np.tile(alpha, len(found))), to_cls=to_bytes(np.array(to_cls)),
            )
        )  # fmt: skip
    return {"sentence_weights": table("sentence_weights", rows)}


def weigh_passages(job: Job, number: int, _: Any) -> dict[str, pa.Table]:
    """Map over `passages`: weights without an encoder."""
    weigh = _weigher(job)
    rows = []
    for passage in read(job, "passages", number).to_pylist():
        if is_weighed(passage, job["config"]):
            alpha = weigh(Span(unpack(passage["tokens"]), unpack(passage["lengths"])))
            rows.append(dict(doc=passage["doc"], weights=to_bytes(alpha)))
    return {"passage_weights": table("passage_weights", rows)}


def _weigher(job: Job) -> Any:
    if job["config"]["encoder"] == "uniform":
        return lambda span: span.lengths / max(1, len(span.tokens))
    frequency = DocumentFrequency(os.path.join(job["work"], "document_frequency.npz"))

    def idf(span: Span) -> np.ndarray:
        alpha = frequency.idf(np.array([signed64("word", *word) for word in span.words()], np.int64))
        return alpha / max(alpha.sum(), 1e-9)

    return idf


class DocumentFrequency:
    """How many passages hold a word: sorted arrays on disk, since the words of a large corpus fit no dict."""

    def __init__(self, path: str) -> None:
        with np.load(path) as arrays:
            self.words, self.counts, self.passages = arrays["words"], arrays["counts"], int(arrays["passages"])

    def idf(self, words: np.ndarray) -> np.ndarray:
        """log((N + 1) / (df + 1/2)) of hashed words, [n]; positive for every word."""
        if not len(self.words):
            return np.full(len(words), np.log((self.passages + 1) / 0.5))
        at = np.minimum(np.searchsorted(self.words, words), len(self.words) - 1)
        counts = np.where(self.words[at] == words, self.counts[at], 0)
        return np.log((self.passages + 1) / (counts + 0.5))


def save_frequency(path: str, rows: Mapping[str, np.ndarray], passages: int) -> None:
    """Writes the columns `word` and `n`, sorted by word."""
    order = np.argsort(rows["word"])
    with replacing(path, "wb") as file:
        np.savez(file, words=rows["word"][order], counts=rows["n"][order], passages=passages)


def digest(folder: str) -> str:
    """sha256 over the names and contents of an artefact's files."""
    state = hashlib.sha256()
    for name in TABLES:
        for parent, _, files in sorted(os.walk(os.path.join(folder, name))):
            # Not what a kill left under a temporary name.
            for file in sorted(name for name in files if name.endswith(".parquet")):
                path = os.path.join(parent, file)
                state.update(f"{os.path.relpath(path, folder)} {sha256_file(path)}\n".encode())
    return state.hexdigest()


def read_meta(folder: str) -> dict[str, Any]:
    """meta.json of finished term weights: format, encoder (its content), belongs_to (a digest of the input), sha256."""
    try:
        with open(os.path.join(folder, META), encoding="utf-8") as file:
            meta = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} holds no finished term weights ({error}); check config.term_weights") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise InputError(f"the term weights in {folder} have another format than {FORMAT}; make them again")
    return meta


def write_meta(folder: str, belongs_to: str, encoder: Mapping[str, Any]) -> None:
    """The last file of finished term weights."""
    with replacing(os.path.join(folder, META)) as file:
        fields = {"format": FORMAT, "encoder": encoder, "belongs_to": belongs_to, "sha256": digest(folder)}
        json.dump(fields, file, indent=1)


def open_artefact(folder: str, belongs_to: str, encoder: Mapping[str, Any] | None = None) -> str:
    """The sha256 of a finished artefact; InputError unless it is complete and made for this input (by this encoder)."""
    meta = read_meta(folder)
    if meta["belongs_to"] != belongs_to:
        raise InputError(
            f"the term weights in {folder} were made for other input, tokenizer or link settings; unset config.term_weights"
        )
    if encoder is not None and meta["encoder"] != encoder:
        raise InputError(f"the term weights in {folder} were made by another encoder; remove that directory")
    if digest(folder) != meta["sha256"]:
        raise InputError(f"the files in {folder} do not match its {META}; make the term weights again")
    return meta["sha256"]
