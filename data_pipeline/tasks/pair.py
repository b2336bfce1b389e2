"""The pre-training tasks. Each is two pure functions around the join that brings the pages' passages:

`request` turns a sentence with its anchors into a request (a query, and which pages it needs), `sides` turns a request and
its passages into the token ids of the two sides. Plain data in, plain data out; all randomness comes from the generator.
The controls ICT and PROP need no links: their pairs come from one page, in one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from data_pipeline.tasks.sampling import Weighted
from data_pipeline.text.terms import Word


class Anchor(NamedTuple):
    """An anchor of a sentence.

    number: where it starts in the page; text: normalised; words[start:end] of the sentence; destination: page; place: of
    the destination among the candidates for negatives; the anchor's ranks [first, first + own) of `total` lead to it;
    this is number `occurrence` of the `occurrences` of the text.
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
    """A sentence with links: cls [words] is the attention from [CLS], by_anchor [anchors, words] that from each anchor.

    to_cls [anchors] is what each anchor pays to [CLS].
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

    query: token ids, empty where it is made when the page is known; anchor and length (l): for queries sampled from the
    page `words_of`; context: words of the sentence to choose from, the first ones first; negative: None where it is
    drawn by a join, or where both sides show the same page.
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
    """What a request asked for: documents as token ids, and the page to sample words from, or to take a sentence from.

    sentences: where those of `words_of` end, in tokens.
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
