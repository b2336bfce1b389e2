"""Wiki Link Prediction, a control (after Chang et al., ICLR 2020): a sentence of a page matches the pages that link to it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data_pipeline.tasks.pair import Passages, Request, Sides
from data_pipeline.tasks.sampling import NoPair, Sampler

TASK = "wlp"

# The negative: the first drawn page, by number or by place among the candidates, that does not link to A.
NEGATIVES_SQL = """
    SELECT 'wlp' AS task, key, destination FROM (
        SELECT d.key AS key, COALESCE(d.doc, c.doc) AS destination,
            row_number() OVER (PARTITION BY d.key ORDER BY d.draw) AS position
        FROM wlp_draws d
        LEFT JOIN candidates c ON d.place = c.place
        LEFT JOIN linked l ON COALESCE(d.doc, c.doc) = l.one AND d.one = l.other
        WHERE l.one IS NULL AND COALESCE(d.doc, c.doc) <> d.one
    ) WHERE position = 1
"""


class Draw(NamedTuple):
    """A candidate for the negative of a pair: `doc`, or the page at `place`; `one` is A."""

    key: str
    draw: int
    one: int
    doc: int | None
    place: int | None


def neighbours(destinations: Sequence[int], at: int, draws: int, rng: np.random.Generator) -> list[int]:
    """Up to `draws` pages that B links to, except A (destination number `at`), in random order; NoPair if there are none."""
    others = len(destinations) - 1
    if not others:
        raise NoPair("page-has-one-destination")
    drawn = rng.choice(others, size=min(draws, others), replace=False).tolist()
    return [destinations[i + (i >= at)] for i in drawn]


def request(
    page: str,
    b: int,
    destinations: Sequence[int],
    at: int,
    number: int,
    places: int | None,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Request, list[Draw]]:
    """Page B, whose first link to A is at `number`, as the positive; the draws for the negative C.

    A is number `at` of `destinations`, the distinct pages that B links to. Candidates for C are the other destinations, or with
    `places` all pages of the corpus.
    """
    a = destinations[at]
    key = f"{page}@{number}"
    if places is None:
        drawn = [Draw(key, i, a, doc, None) for i, doc in enumerate(neighbours(destinations, at, draws, rng))]
    else:
        drawn = [Draw(key, i, a, None, int(place)) for i, place in enumerate(rng.integers(places, size=draws))]
    return Request(TASK, key, page, b, words_of=a), drawn


def sides(request: Request, passages: Passages, sampler: Sampler, rng: np.random.Generator) -> Sides:
    """(s, B) against (s, C): s is a random sentence of A's first section; B links to A, C does not."""
    if passages.negative is None:
        raise NoPair("candidates-all-link-to-the-page")
    ends = list(passages.sentences)
    if not ends:
        raise NoPair("page-without-sentences")
    at = int(rng.integers(len(ends)))
    sentence = list(passages.page[ends[at - 1] if at else 0 : ends[at]])
    return Sides(sentence, passages.positive, None, passages.negative)
