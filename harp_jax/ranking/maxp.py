"""Long documents: the best of several windows (MaxP, Dai and Callan 2019) instead of the first tokens (FirstP)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harp_jax.errors import InputError


@dataclass(frozen=True)
class Windows:
    """At most `count` windows of `size` tokens, each `stride` tokens after the one before.

    size 0: what the query leaves of the row; stride 0: half a window. The last window is the one that reaches the end.
    Where the row leaves a window less than the stride, windows follow each other without a gap.
    """

    count: int
    size: int = 0
    stride: int = 0

    def __post_init__(self) -> None:
        if self.count < 1 or self.size < 0 or self.stride < 0:
            raise InputError(f"windows={self.count}, window={self.size}, stride={self.stride}: give positive numbers")
        if self.size and self.stride > self.size:
            raise InputError(
                f"stride={self.stride} leaves tokens unread between windows of {self.size}; give a stride of at most that"
            )

    def reach(self, max_length: int) -> int:
        """Tokens of a document that are looked at, at most."""
        size = self.size or max_length
        return size + (self.count - 1) * (self.stride or max(1, size // 2))

    def of(self, document: np.ndarray, room: int) -> list[np.ndarray]:
        """The windows of a document's tokens [n]; `room` is what the row has for them. One at least, if empty."""
        size = min(self.size, room) if self.size else room
        stride = min(self.stride or max(1, size // 2), size)
        found = [document[:size]]
        while len(found) < self.count and (len(found) - 1) * stride + size < len(document):
            start = len(found) * stride
            found.append(document[start : start + size])
        return found


def best_of(
    reranker: Any, pairs: list[tuple[np.ndarray, np.ndarray]], windows: Windows | None, bar: Any = None
) -> np.ndarray:
    """Scores [pairs] float32 of (query ids, document ids): of the first tokens, or the largest of the windows'."""
    if windows is None:
        return reranker.score([reranker.pair(query, document) for query, document in pairs], bar)
    rows: list[Any] = []
    starts: list[int] = []
    for query, document in pairs:
        starts.append(len(rows))
        rows.extend(reranker.pair(query, window) for window in windows.of(document, reranker.room(query)))
    if not rows:
        return np.zeros(0, np.float32)
    found = np.maximum.reduceat(reranker.score(rows), starts)
    if bar is not None:
        bar.update(len(pairs))
    return found
