"""Query Disambiguation Modeling (HARP 3.2.2): the context of an ambiguous anchor identifies its destination."""

from collections.abc import Iterator

from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, OCCURRENCES, SENTENCES
from data_pipeline.tasks.rqp import context_query
from data_pipeline.tasks.task import Anchor, Attempt, Request, Sentence, Setup, Task
from harp_jax.base.randomness import generator
from harp_jax.config import Field

FIELDS = {
    "qdm_positives": Field(
        10, "maximum occurrences of an ambiguous anchor text to make into pairs; 0: all", (0, 1 << 20)
    ),
    "qdm_negative": Field(
        "uniform",
        'negatives: "uniform" over the anchor\'s other destinations, or weighted by "occurrence"',
        ("uniform", "occurrence"),
    ),
}

# The destination of the anchor at the drawn rank. link_graph.py ranks each destination once (uniform) or once per occurrence.
NEGATIVES_SQL = """
    SELECT d.task, d.key, d.draw, r.destination
    FROM draws d JOIN anchor_destination r ON d.anchor = r.anchor AND d.rank = r.rank
"""


def attempts(sentence: Sentence, setup: Setup) -> Iterator[Attempt]:
    """Each chosen occurrence of an anchor text with several destinations."""
    c = setup.c
    for index, anchor in enumerate(sentence.anchors):
        if anchor.total > anchor.own and chosen(anchor, c["qdm_positives"], setup.sampler.official, c["seed"]):
            yield sentence.anchor_key(anchor), (sentence, index)


def chosen(anchor: Anchor, limit: int, official: bool, seed: int) -> bool:
    """Whether this occurrence of its anchor text becomes a pair: at most `limit` do (0: all). A random subset, the same for all
    occurrences of the text; in the authors' code the first ones of the corpus."""
    if not limit or anchor.occurrences <= limit or official:
        return not limit or anchor.occurrence < limit
    drawn = generator(seed, "qdm-positives", anchor.text).choice(anchor.occurrences, size=limit, replace=False)
    return anchor.occurrence in drawn


def request(sentence: Sentence, index: int, setup: Setup, rng: Generator) -> list[Request]:
    """The query S1 and page P of one link, and the draw of P̃: a rank of the anchor text that leads to another page, uniform over
    all such ranks (Eq. 9)."""
    anchor = sentence.anchors[index]
    query, _, _ = context_query(sentence, index, setup, rng)
    rank = int(rng.integers(anchor.total - anchor.own))
    draw = {"anchor": anchor.text, "rank": rank if rank < anchor.first else rank + anchor.own}
    key, ids = sentence.anchor_key(anchor), setup.terms.ids(query)
    return [Request(key, sentence.page, anchor.destination, ids, draws=[draw])]


TASK = Task(
    "qdm", reads=tables.SENTENCES, fields=FIELDS, attempts=attempts, request=request, negatives=lambda c: NEGATIVES_SQL,
    needs=lambda c: {LINKS, SENTENCES, *([OCCURRENCES] if c["qdm_negative"] == "occurrence" else [])},
)  # fmt: skip
