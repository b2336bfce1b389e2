"""One weight per word: sums over its wordpieces; which wordpieces attend for an anchor; the stored form (float16)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from data_pipeline.engine.job import ALL_WEIGHTS, Job


def word_sums(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Attention over wordpieces [..., pieces] to attention over words [..., words]: the sum over a word's pieces."""
    if not len(lengths):
        return rows[..., :0]
    return np.add.reduceat(rows, np.concatenate([[0], np.cumsum(lengths)[:-1]]), axis=-1)


def piece_spans(lengths: np.ndarray, anchors: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Each anchor's span of wordpieces, from its span of words."""
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return [(int(bounds[anchor["start"]]), int(bounds[anchor["end"]])) for anchor in anchors]


def attending(
    tokens: np.ndarray, lengths: np.ndarray, anchors: Sequence[Mapping[str, Any]], anchor_row: str
) -> list[tuple[int, int]]:
    """For each anchor the span of wordpieces whose attention weighs its context (HARP Eq. 1).

    "span": the anchor's wordpieces; "first_token": the first occurrence of its first wordpiece in the sentence.
    """
    spans = piece_spans(lengths, anchors)
    if anchor_row == "span":
        return spans
    first = [int(np.argmax(tokens == tokens[start])) for start, _ in spans]
    return [(at, at + 1) for at in first]


def is_weighed(passage: Mapping[str, Any], job: Job) -> bool:
    """Whether a passage needs weights: destinations of links do, for some tasks all passages."""
    return passage["in_links"] > 0 or ALL_WEIGHTS in job["needs"]


def to_bytes(weights: np.ndarray) -> bytes:
    """The stored form: float16."""
    return np.asarray(weights, np.float16).tobytes()


def from_bytes(data: bytes) -> np.ndarray:
    """The stored weights as [n] float64, in which later arithmetic gives the same bits on every machine."""
    return np.frombuffer(data, np.float16).astype(np.float64)
