"""Long documents: the best of several windows (MaxP, Dai and Callan 2019) instead of the first tokens (FirstP)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.ranking.scoring import Pair, ProgressBar, Scorer


@dataclass(frozen=True)
class Windows:
    """At most `count` windows of `size` tokens, each starting `stride` tokens after the one before.

    size 0: what the query leaves of the row; stride 0: half a window. The last window is the one that reaches the end of
    the document. Where the row has room for less than the stride, windows follow each other without a gap.
    """

    count: int
    size: int = 0
    stride: int = 0

    def __post_init__(self) -> None:
        whole = all(isinstance(given, int) for given in (self.count, self.size, self.stride))
        if not whole or self.count < 1 or self.size < 0 or self.stride < 0:
            raise InputError(
                f"windows={self.count}, window={self.size}, stride={self.stride}: use whole, positive numbers"
            )
        if self.size and self.stride > self.size:
            raise InputError(
                f"stride={self.stride} leaves tokens unread between windows of {self.size}; use a stride of at most that"
            )

    def reach(self, max_length: int) -> int:
        """Upper bound of the tokens of a document that are read."""
        size = self.size or max_length
        return size + (self.count - 1) * (self.stride or max(1, size // 2))

    def of(self, document: np.ndarray, room: int) -> list[np.ndarray]:
        """The windows of a document's tokens [n], each at most `room` long; always at least one, which may be empty."""
        size = min(self.size, room) if self.size else room
        stride = min(self.stride or max(1, size // 2), size)
        found = [document[:size]]
        while len(found) < self.count and (len(found) - 1) * stride + size < len(document):
            start = len(found) * stride
            found.append(document[start : start + size])
        return found


def best_of(
    scorer: Scorer, texts: Sequence[Pair], windows: Windows | None, bar: ProgressBar | None = None
) -> np.ndarray:
    """Scores [texts] float32 of (query ids, document ids), untruncated: of the first tokens, or the best window's."""
    if windows is None:
        return scorer.score([scorer.pair(query, document) for query, document in texts], bar)
    rows: list[Pair] = []
    starts: list[int] = []
    for query, document in texts:
        starts.append(len(rows))
        rows.extend(scorer.pair(query, window) for window in windows.of(document, scorer.room(query)))
    if not rows:
        return np.zeros(0, np.float32)
    found = np.maximum.reduceat(scorer.score(rows), starts)
    if bar is not None:
        bar.update(len(texts))
    return found
