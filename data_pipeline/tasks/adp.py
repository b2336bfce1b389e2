"""Anchor Destination Prediction (beyond the paper): an anchor in context matches its page, not one that shares its words.

The other tasks draw their negatives from the link graph, so that the topic or the in-links often give the answer away. Here the
negatives are pages that BM25 returns for the anchor text (hard_negatives.py), and the words around the anchor decide: the task of
a re-ranker.
"""

from functools import partial

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, SENTENCES
from data_pipeline.tasks import hard_negatives
from data_pipeline.tasks.rqp import context_query, each_link
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Anchor, PairTokens, Passages, Request, Sentence, Setup, Task, anchor_words
from data_pipeline.text.terms import Terms, Word
from harp_jax.config import Field

STYLES = ("sampled", "anchor", "short", "window", "sentence")
FIELDS = {
    "adp_queries": Field(
        ("sampled",),
        'query styles, one drawn per link: "sampled": S1, sampled as in RQP; the "anchor" alone; with one or two words around it '
        '("short"), six on average ("window"), or up to thirty ("sentence")',
        STYLES,
    ),
    **hard_negatives.FIELDS,
}
WINDOW, SENTENCE = 6.0, 30  # words around the anchor: on average, and at most


def request(sentence: Sentence, index: int, setup: Setup, rng: np.random.Generator) -> list[Request]:
    """The query and page P of one link; BM25 finds the negatives."""
    anchor, styles = sentence.anchors[index], setup.c["adp_queries"]
    style = styles[int(rng.integers(len(styles)))] if len(styles) > 1 else styles[0]
    if style == "sampled":
        query, words, _ = context_query(sentence, index, setup, rng)
    else:
        words = anchor_words(sentence, anchor, setup.terms)
        query = window(sentence, anchor, setup.terms, context_length(style, rng), rng)
    key, ids = sentence.anchor_key(anchor), setup.terms.ids(query)
    return [Request(TASK.name, key, sentence.page, anchor.destination, ids, words)]


def context_length(style: str, rng: np.random.Generator) -> int:
    """Number of words around the anchor; for "window" l ~ Poisson(WINDOW), at least 1."""
    if style == "window":
        return max(1, int(rng.poisson(WINDOW)))
    return {"anchor": 0, "short": int(rng.integers(1, 3)), "sentence": SENTENCE}[style]


def window(sentence: Sentence, anchor: Anchor, terms: Terms, length: int, rng: np.random.Generator) -> list[Word]:
    """The anchor and `length` adjacent words, including stopwords, in sentence order and without punctuation.

    The number of words before the anchor is uniform; if one side of the sentence is too short, the other side has more.
    """
    before, within, after = (
        [word for word in part if terms.has_content(word)]
        for part in (
            sentence.words[: anchor.start],
            sentence.words[anchor.start : anchor.end],
            sentence.words[anchor.end :],
        )
    )
    left = min(int(rng.integers(0, length + 1)), len(before))
    right = min(length - left, len(after))
    left = min(length - right, len(before))
    return [*before[len(before) - left :], *within, *after[:right]]


def sides(request: Request, passages: Passages, setup: Setup, rng: np.random.Generator) -> PairTokens:
    """(S1, P) against (S1, P̃), and more P̃."""
    if not passages.negative:
        raise NoPair("no-page-shares-a-word-of-the-query")
    return PairTokens(request.query, passages.positive, (), passages.negative, passages.more)


TASK = Task(
    "adp", reads=tables.SENTENCES, needs=lambda c: {LINKS, SENTENCES}, fields=FIELDS, requests=partial(each_link, request),
    prepare=partial(hard_negatives.prepare, task="adp", popular=True), sides=sides,
)  # fmt: skip
