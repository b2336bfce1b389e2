"""The interface of a ranker (`Scorer`), and batches of few shapes (`score_by_length`).

A long document is scored by its first tokens (FirstP), or by the best of several windows (MaxP, Dai and Callan 2019: `best_of`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import jax
import numpy as np

from harp_jax.base.errors import InputError

Pair = tuple[np.ndarray, np.ndarray]  # token or word ids of query and document, int32, truncated to the model's lengths


class ProgressBar(Protocol):
    """A progress bar such as tqdm's."""

    def update(self, n: int) -> object:
        """Counts `n` pairs as done."""


class Scorer(Protocol):
    """A trained ranker: texts to ids, ids to pairs that fit the model, pairs to scores.

    Implemented by `CrossEncoderScorer`, `RuntimeScorer`, `BiEncoderScorer` and `NeuralScorer`.
    """

    max_length: int  # tokens of a row (cross-encoder), or words of a document (neural rankers)
    truncated_queries: int  # pairs so far whose query was truncated
    remedy: str  # what to do about truncated queries

    def use(self, params: Any) -> None:
        """Replaces the parameters (device arrays of the same shapes) without recompiling."""

    def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        """All ids of each text, int32."""

    def encode_documents(self, texts: list[str], limit: int | None = None) -> list[np.ndarray]:
        """The first `limit` ids of each text, int32; by default as many as the model can read."""

    def room(self, query: np.ndarray) -> int:
        """The maximum number of document ids with this query (ids)."""

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Both (ids) truncated to the model's lengths."""

    def score(self, pairs: Sequence[Pair], bar: ProgressBar | None = None) -> np.ndarray:
        """Scores [pairs] float32, larger is more relevant."""

    def check(self, queries: Iterable[str], documents: Iterable[str], blank: bool) -> list[str]:
        """Notes on texts to be scored (`blank`: with empty queries). Raises InputError if all scores would be equal."""


Item = TypeVar("Item")  # a pair, or a text


def score_by_length(
    score_batch: Callable[[list[Item], int, int], jax.Array],
    items: Sequence[Item],
    sizes: np.ndarray,
    lengths: Sequence[int],
    batch_tokens: int,
    bar: ProgressBar | None = None,
    shape: tuple[int, ...] = (),
) -> np.ndarray:
    """Results [items, *shape] float32, computed in batches of similar length, longest first.

    `score_batch(some, rows, length)` returns results [rows, *shape] for at most `rows` items padded to `length`. `sizes` [items]
    int64 are the items' lengths, `lengths` the compiled lengths in increasing order, `batch_tokens` the tokens per batch. All
    batches are dispatched before the first result is read.
    """
    sent = [
        (chosen, score_batch([items[i] for i in chosen], rows, length))
        for chosen, rows, length in batches_by_length(sizes, lengths, batch_tokens)
    ]
    results = np.zeros((len(items), *shape), np.float32)
    for chosen, result in sent:
        results[chosen] = np.asarray(result)[: len(chosen)]
        if bar is not None:
            bar.update(len(chosen))
    return results


def batches_by_length(
    sizes: np.ndarray, lengths: Sequence[int], batch_tokens: int
) -> Iterator[tuple[np.ndarray, int, int]]:
    """Batches as (item indices, rows, length), longest items first; arguments as in `score_by_length`.

    Rows are capped at the power of two (at least 8) that holds the remaining items: few items make a small batch, and few
    shapes are compiled.
    """
    waiting = np.argsort(-sizes, kind="stable")
    while len(waiting):
        length = next(n for n in lengths if n >= sizes[waiting[0]])
        rows = min(max(1, batch_tokens // length), 1 << max(3, int(len(waiting) - 1).bit_length()))
        chosen, waiting = waiting[:rows], waiting[rows:]
        yield chosen, rows, length


@dataclass(frozen=True)
class Windows:
    """At most `count` windows of a document, each starting half a window after the one before.

    A window is as long as the row without the query. The last one is the first to reach the end of the document.
    """

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"windows={self.count}: use 1 or more")

    def reach(self, max_length: int) -> int:
        """Upper bound of the document tokens that are read."""
        return max_length + (self.count - 1) * max(1, max_length // 2)

    def of(self, document: np.ndarray, room: int) -> list[np.ndarray]:
        """Windows of a document's tokens [n], each at most `room` long; at least one, which may be empty."""
        stride = max(1, room // 2)
        found = [document[:room]]
        while len(found) < self.count and (len(found) - 1) * stride + room < len(document):
            start = len(found) * stride
            found.append(document[start : start + room])
        return found


def best_of(
    scorer: Scorer, texts: Sequence[Pair], windows: Windows | None, bar: ProgressBar | None = None
) -> np.ndarray:
    """Scores [texts] float32 of untruncated (query ids, document ids): of the first tokens, or of the best window."""
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
