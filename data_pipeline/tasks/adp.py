"""Anchor Destination Prediction (beyond the paper): an anchor with its context matches its page, not one that shares its words.

The other tasks draw their negatives from the link graph, so that the topic or the in-links often give the answer away. Here the
negative is a page that BM25 returns for the anchor text, and the words around the anchor decide: the task of a re-ranker.
"""

import numpy as np

from data_pipeline.tasks.pair import Anchor, Passages, Request, Sentence, Sides
from data_pipeline.tasks.rqp import anchor_words, context_query
from data_pipeline.tasks.sampling import NoPair, Sampler
from data_pipeline.text.terms import Terms, Word, join

TASK = "adp"

NEGATIVES_SQL = "SELECT 'adp' AS task, key, destination FROM adp_negatives"


def request(
    sentence: Sentence, index: int, terms: Terms, sampler: Sampler, rng: np.random.Generator, mean: float = 0.0
) -> Request:
    """The query and page P of one link; BM25 finds the negative (pairs/hard_negatives.py).

    The query is a window of the sentence with `mean` words beside the anchor, or with 0 the query S1 of RQP and QDM. BM25 searches
    for the anchor, not for the query: the context often names the other page of the sentence, which would be the negative of a
    query that describes it as well.
    """
    anchor = sentence.anchors[index]
    if mean:
        words = anchor_words(sentence, anchor, terms)
        query = window(sentence, anchor, terms, mean, rng)
    else:
        query, words, _ = context_query(sentence, index, terms, sampler, rng)
    return Request(TASK, sentence.anchor_key(anchor), sentence.page, anchor.destination, join(query), words)


def window(sentence: Sentence, anchor: Anchor, terms: Terms, mean: float, rng: np.random.Generator) -> list[Word]:
    """The anchor and the words next to it, stopwords among them, in the order of the sentence, without punctuation.

    l ~ Poisson(`mean`), at least 1, of which a uniform share stands before the anchor; where the sentence ends earlier, the other
    side has more.
    """
    length = max(1, int(rng.poisson(mean)))
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
