"""The record `Task`, which describes a pre-training task, and the data that tasks exchange with the rest of the job.

There are two kinds of tasks. Most make requests: `request` turns a sentence with links (or a page, or the links of a page) into
queries and the pages that they need, a join reads those pages, and `sides` turns both into the two sides of a pair. Tasks that need
no other page make their records in one step (`records`). All randomness comes from generators keyed by (seed, task, key).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import Config, Engine, Job
from data_pipeline.engine.tables import Table
from data_pipeline.tasks.sampling import NoPair, Sampler, Weighted
from data_pipeline.text.terms import Terms, Word, terms_of
from harp_jax.base.randomness import generator
from harp_jax.config import Field
from harp_jax.input.records import TextRecord


class Anchor(NamedTuple):
    """An anchor of a sentence. number: code point of the page where it starts; text: normalised; start, end: words of the sentence;
    destination: page; place: rank of the destination among the candidates for negatives; of the `total` ranks of the anchor text,
    [first, first + own) belong to this destination; occurrence: index of this link among the `occurrences` of the text."""

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
    anchor to [CLS] (to_cls [anchors]), all float64; lengths [words]: tokens of each word."""

    page: str
    start: int
    words: Sequence[Word]
    tokens: Sequence[int]
    cls: np.ndarray
    by_anchor: np.ndarray
    anchors: Sequence[Anchor]
    to_cls: np.ndarray
    lengths: np.ndarray

    @property
    def key(self) -> str:
        return f"{self.page}@{self.start}"

    def anchor_key(self, anchor: Anchor) -> str:
        return f"{self.page}@{anchor.number}"

    def words_of(self, anchor: Anchor, terms: Terms) -> list[Word]:
        """The words of the anchor text, without its punctuation; NoPair if there are none."""
        words = [word for word in self.words[anchor.start : anchor.end] if terms.has_content(word)]
        if not words:
            raise NoPair("anchor-without-words")
        return words


class Page(tables.PassageRow):  # with the id and title of its page
    id: str
    title: str


@dataclass(frozen=True)
class Request:
    """A pair before its passages are known. Pages are `doc` numbers. query: token ids, empty if it depends on the page; anchor,
    length (l): for queries sampled from the page `words_of`; context: words of the sentence to choose from, in order of preference;
    negative: None if the draws or another table decide it, or if both sides have the same page; draws: candidates for the negative
    in order, as columns of the table `draws`."""

    key: str
    page: str
    positive: int
    query: Sequence[int] = ()
    anchor: Sequence[Word] = ()
    length: int = 0
    context: Sequence[Word] = ()
    words_of: int | None = None
    negative: int | None = None
    draws: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Passages:
    """The passages of a request: documents as token ids (`negative`: empty if there is none; `more`: further negatives); the page
    `words_of` as weighted words, and as tokens with the ends of its sentences."""

    positive: Sequence[int]
    negative: Sequence[int]
    words: Weighted = field(default_factory=lambda: Weighted([], np.zeros(0)))
    page: Sequence[int] = ()
    sentences: Sequence[int] = ()
    more: Sequence[Sequence[int]] = ()


class PairTokens(NamedTuple):
    """Token ids of a pair's two sides; an empty text on the negative side reuses the positive's; expanded at packing. more_docs:
    further negative documents of the positive query."""

    pos_query: Sequence[int]
    pos_doc: Sequence[int]
    neg_query: Sequence[int]
    neg_doc: Sequence[int]
    more_docs: Sequence[Sequence[int]] = ()


class Pair(NamedTuple):
    """A pair that `sides()` makes, or raises NoPair; in-links are those of the documents' pages (negative None: the same page)."""

    key: str
    page: str
    sides: Callable[[], PairTokens]
    positive_in_links: int
    negative_in_links: int | None = None


@dataclass(frozen=True)
class Setup:
    """What the tasks of a job share: its config, which words are terms, and how words are sampled. candidates: number of pages that
    negatives are drawn from, ordered by in-links; the first `unlinked` of them have none."""

    c: Config
    terms: Terms
    sampler: Sampler
    candidates: int = 0
    unlinked: int = 0

    def rng(self, *key: str) -> Generator:
        return generator(self.c["seed"], *key)


def setup_of(job: Job, candidates: int = 0, unlinked: int = 0) -> Setup:
    """The setup of a job; the sampler takes its fields from the config's fields of the same names."""
    c, terms = job.config, terms_of(job.config)
    sampler = Sampler(terms.is_term, **{each.name: c[each.name] for each in fields(Sampler) if each.name in c})
    return Setup(c, terms, sampler, candidates, unlinked)


def documents_apart(request: Request, passages: Passages, setup: Setup, rng: Generator) -> PairTokens:
    """(query, P) against (query, P̃) and more P̃: the `sides` of tasks whose query is known before the passages."""
    return PairTokens(request.query, passages.positive, (), passages.negative, passages.more)


Attempt = tuple[str, tuple]  # a key, and what `Task.request` makes its requests of


@dataclass(frozen=True)
class Task:
    """A pre-training task: the rest of the job loops over `TASKS` and reads these fields.

    name: of the task, used for its splits too. fields: its config fields. needs: what the job must make for it (engine/job.py).
    reads: the table whose buckets it starts from. With requests: `attempts(item, setup)`, where an item is a sentence
    ("sentences"), the links of a page ("ranked") or a page ("passages"); `request(*arguments, setup, rng)` of each attempt with the
    generator of its key, or NoPair; `prepare(engine)` runs after all requests are made, and may make the table `mined`;
    `negatives(config)` is SQL for (task, key, draw, destination): the draws that are allowed, of which the first counts; then
    `sides(request, passages, setup, rng)`, or NoPair(missing) if the task needs a negative and there is none. Without: `prepare`,
    then `records(job, bucket)`."""

    name: str
    reads: Table
    needs: Callable[[Config], set[str]]
    fields: Mapping[str, Field] = field(default_factory=dict)
    attempts: Callable[[Any, Setup], Iterable[Attempt]] | None = None
    request: Callable[..., list[Request]] | None = None
    prepare: Callable[[Engine], None] | None = None
    negatives: Callable[[Config], str] | None = None
    missing: str = ""
    sides: Callable[[Request, Passages, Setup, Generator], PairTokens] = documents_apart
    records: Callable[[Job, int], Iterator[Pair | TextRecord]] | None = None
