"""Anchor Destination Prediction (beyond the paper): an anchor with its context matches its page, not one that shares its words.

The other tasks draw their negatives from the link graph, so that the topic or the in-links often give the answer away. Here the
negative is a page that BM25 returns for the anchor text, and the words around the anchor decide: the task of a re-ranker.
"""

import numpy as np

from data_pipeline.tasks.pair import Passages, Request, Sentence, Sides
from data_pipeline.tasks.rqp import context_query
from data_pipeline.tasks.sampling import NoPair, Sampler
from data_pipeline.text.terms import Terms, join

TASK = "adp"

NEGATIVES_SQL = "SELECT 'adp' AS task, key, destination FROM adp_negatives"


def request(sentence: Sentence, index: int, terms: Terms, sampler: Sampler, rng: np.random.Generator) -> Request:
    """The query S1 and page P of one link, as in QDM; BM25 finds the negative (pairs/hard_negatives.py).

    It searches for the anchor, not for S1: the context often names the other page of the sentence, which would be the negative
    of a query that describes it as well.
    """
    query, words, _ = context_query(sentence, index, terms, sampler, rng)
    anchor = sentence.anchors[index]
    return Request(TASK, sentence.anchor_key(anchor), sentence.page, anchor.destination, join(query), words)


def negative(in_links: np.ndarray, rng: np.random.Generator) -> int:
    """The place of the negative among the pages found, drawn in proportion to their in-links.

    Positives are drawn so, too: every link is one. A uniform draw would make in-links a good predictor (.67 on
    an earlier demo wiki).
    """
    weights = np.maximum(in_links, 1)
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def sides(request: Request, passages: Passages, sampler: Sampler, rng: np.random.Generator) -> Sides:
    """(S1, P) against (S1, P̃)."""
    if passages.negative is None:
        raise NoPair("no-page-shares-a-word-of-the-anchor")
    return Sides(request.query, passages.positive, None, passages.negative)
