"""The data that the pre-training tasks exchange.

Most tasks are two pure functions, before and after the join with the passages: `request` turns a sentence with its anchors into a
request (a query, and the pages it needs), `sides` turns a request and its passages into the token ids of the two sides. All
randomness comes from the generator argument. The controls ICT and PROP need no links and make pairs from one page in one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from data_pipeline.tasks.sampling import Weighted
from data_pipeline.text.terms import Word


class Anchor(NamedTuple):
    """An anchor of a sentence.

    number: code point of the page where it starts; text: normalised; start, end: words of the sentence; destination: page; place:
    rank of the destination among the candidates for negatives; the ranks [first, first + own) out of `total` of the anchor text
    are this destination's; occurrence: number of this link among the `occurrences` of the text.
    """

    number: int
    text: str
    start: int
    end: int
    destination: int
    place: int
    first: int
    own: int
    total: int
    occurrence: int = 0
    occurrences: int = 1


@dataclass(frozen=True)
class Sentence:
    """A sentence with links: attention from [CLS] (cls [words]), from each anchor (by_anchor [anchors, words]), and from each
    anchor to [CLS] (to_cls [anchors]), all float64.
    """

    page: str
    start: int
    words: Sequence[Word]
    tokens: Sequence[int]
    cls: np.ndarray
    by_anchor: np.ndarray
    anchors: Sequence[Anchor]
    to_cls: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def key(self) -> str:
        return f"{self.page}@{self.start}"

    def anchor_key(self, anchor: Anchor) -> str:
        return f"{self.page}@{anchor.number}"


@dataclass(frozen=True)
class Request:
    """A pair before its passages are known. Pages are `doc` numbers.

    query: token ids, empty if it depends on the page; anchor, length (l): for queries sampled from the page `words_of`; context:
    words of the sentence to choose from, in order of preference; negative: None if a join draws it, or if both sides have the
    same page.
    """

    task: str
    key: str
    page: str
    positive: int
    query: Sequence[int] = ()
    anchor: Sequence[Word] = ()
    length: int = 0
    context: Sequence[Word] = ()
    words_of: int | None = None
    negative: int | None = None


@dataclass(frozen=True)
class Passages:
    """The passages of a request: documents as token ids; the page `words_of` as weighted words, or as tokens with the ends of its
    sentences.
    """

    positive: Sequence[int]
    negative: Sequence[int] | None
    words: Weighted | None
    page: Sequence[int] = ()
    sentences: Sequence[int] = ()


class Sides(NamedTuple):
    """Token ids of a pair's two sides; None means the positive's."""

    pos_query: Sequence[int]
    pos_doc: Sequence[int]
    neg_query: Sequence[int] | None
    neg_doc: Sequence[int] | None
