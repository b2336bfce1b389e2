"""Query Disambiguation Modeling (HARP 3.2.2): the context of an ambiguous anchor identifies its page among the anchor's pages."""

from typing import NamedTuple

import numpy as np

from data_pipeline.tasks.pair import Anchor, Passages, Request, Sentence, Sides
from data_pipeline.tasks.rqp import context_query
from data_pipeline.tasks.sampling import Sampler
from data_pipeline.text.terms import Terms, join
from harp_jax.base.randomness import generator

TASK = "qdm"

# The negative: the destination of the anchor at the drawn rank. link_graph.py ranks each destination once (uniform) or once per
# occurrence.
NEGATIVES_SQL = """
    SELECT 'qdm' AS task, d.key AS key, r.destination AS destination
    FROM qdm_draws d JOIN anchor_destination r ON d.anchor = r.anchor AND d.rank = r.rank
"""


class Draw(NamedTuple):
    """The negative of the pair `key`: the destination of `anchor` at `rank`."""

    key: str
    anchor: str
    rank: int


def negative_rank(anchor: Anchor, rng: np.random.Generator) -> int:
    """A rank of the anchor text that leads to another page, uniform over all such ranks (P̃ of Eq. 9)."""
    rank = int(rng.integers(anchor.total - anchor.own))
    return rank if rank < anchor.first else rank + anchor.own


def chosen(anchor: Anchor, limit: int, positive: str, seed: int) -> bool:
    """Whether this occurrence of its anchor text becomes a pair: at most `limit` do (0: all).

    "first": the first ones of the corpus; "sampled": a random subset, the same for all occurrences of the text.
    """
    if not limit or anchor.occurrences <= limit or positive == "first":
        return not limit or anchor.occurrence < limit
    drawn = generator(seed, "qdm-positives", anchor.text).choice(anchor.occurrences, size=limit, replace=False)
    return anchor.occurrence in drawn


def request(
    sentence: Sentence, index: int, terms: Terms, sampler: Sampler, rng: np.random.Generator
) -> tuple[Request, Draw] | None:
    """The query S1 and page P of one link, and the draw of P̃; None for an anchor text with a single destination."""
    anchor = sentence.anchors[index]
    if anchor.total == anchor.own:
        return None
    query, _, _ = context_query(sentence, index, terms, sampler, rng)
    key = sentence.anchor_key(anchor)
    draw = Draw(key, anchor.text, negative_rank(anchor, rng))
    return Request(TASK, key, sentence.page, anchor.destination, join(query)), draw


def sides(request: Request, passages: Passages, sampler: Sampler, rng: np.random.Generator) -> Sides:
    """(S1, P) against (S1, P̃)."""
    return Sides(request.query, passages.positive, None, passages.negative)
