"""Anchor Co-occurrence Modeling (HARP 3.2.4): words of a page match the page that is linked in the same sentence."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data_pipeline.tasks.pair import Anchor, Passages, Request, Sentence, Sides
from data_pipeline.tasks.rqp import anchor_words
from data_pipeline.tasks.sampling import NoPair, Sampler
from data_pipeline.text.terms import Terms, join

TASK = "acm"

# The negative: the first drawn candidate, or the first that is not co-linked with P1 in any sentence (P1 itself is).
NEGATIVES_SQL = {
    False: """
        SELECT 'acm' AS task, d.key AS key, c.doc AS destination
        FROM acm_draws d JOIN candidates c ON d.place = c.place WHERE d.draw = 0
    """,
    True: """
        SELECT 'acm' AS task, key, destination FROM (
            SELECT d.key AS key, c.doc AS destination, row_number() OVER (PARTITION BY d.key ORDER BY d.draw) AS position
            FROM acm_draws d
            JOIN candidates c ON d.place = c.place
            LEFT JOIN colinked l ON d.one = l.one AND c.doc = l.other
            WHERE l.one IS NULL
        ) WHERE position = 1
    """,
}


class Draw(NamedTuple):
    """A candidate for the negative of the pair `key`: the page at `place`; `one` is P1."""

    key: str
    draw: int
    one: int
    place: int


def choose(anchors: Sequence[Anchor], rng: np.random.Generator) -> tuple[int, int] | None:
    """Indices of two anchors with different pages, uniform over all ordered pairs; None if there are none."""
    if len({anchor.destination for anchor in anchors}) < 2:
        return None
    while True:
        one, two = rng.integers(len(anchors), size=2).tolist()
        if anchors[one].destination != anchors[two].destination:
            return one, two


def negative_places(
    rng: np.random.Generator, positive: Anchor, places: tuple[int, int], draws: int, similar: bool
) -> list[int]:
    """`draws` places from [low, high): uniform, or with `similar` near the positive's, where in-links are about equal.

    Candidates are ordered by in-links; "near" means within 1 % of all candidates, at least within 50.
    """
    low, high = places
    if similar:
        reach = max(50, (high - low) // 100)
        low, high = max(low, positive.place - reach), min(high, positive.place + reach + 1)
    return rng.integers(low, high, size=draws).tolist()


def request(
    sentence: Sentence,
    pair: tuple[int, int],
    terms: Terms,
    sampler: Sampler,
    rng: np.random.Generator,
    places: tuple[int, int],
    draws: int,
    similar: bool,
) -> tuple[Request, list[Draw]]:
    """The query is from (a1, P1), P2 is the positive page; the negative is one of the draws (Eq. 14)."""
    one, two = sentence.anchors[pair[0]], sentence.anchors[pair[1]]
    words = anchor_words(sentence, one, terms)
    key = f"{sentence.anchor_key(one)}+{two.number}"
    drawn = negative_places(rng, two, places, draws, similar)
    request = Request(
        TASK, key, sentence.page, two.destination, (), words, sampler.length(rng), words_of=one.destination
    )
    return request, [Draw(key, i, one.destination, place) for i, place in enumerate(drawn)]


def sides(
    request: Request, passages: Passages, sampler: Sampler, rng: np.random.Generator, anew: bool = False
) -> Sides:
    """S1 = a1 ∪ l words of P1 sampled by the attention of [CLS] (Eq. 13): (S1, P2) against (S1, P̃).

    `anew`: the words of the negative side are drawn independently, as in the authors' code.
    """
    assert passages.words is not None
    if passages.negative is None:
        raise NoPair("candidates-all-co-linked")
    if anew and list(passages.negative) == list(passages.positive):
        # Two queries drawn alike for one page: neither is better.
        raise NoPair("documents-equal")
    anchor = list(request.anchor)
    queries: list[list[int]] = []
    for length in [request.length, *([sampler.length(rng)] if anew else [])]:
        context = sampler.sample(rng, passages.words, sampler.outside(anchor), length, "page")
        queries.append(join(sampler.query(rng, context, anchor)))
    return Sides(queries[0], passages.positive, queries[1] if anew else None, passages.negative)
