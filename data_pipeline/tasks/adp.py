"""Anchor Destination Prediction (beyond the paper): an anchor in context matches its page, not one that shares its words.

The other tasks draw their negatives from the link graph, so that the topic or the in-links often give the answer away. Here the
negatives are pages that BM25 returns for the anchor text (hard_negatives.py), and the words around the anchor decide: the task of
a re-ranker. Two controls have its queries and negatives without links: a page's title matches its text; words of a sentence of a
page's lead match the rest of the lead.
"""

from functools import partial

import numpy as np
from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_PAGES, LINKS, SENTENCE_ENDS, SENTENCES
from data_pipeline.engine.tables import unpack
from data_pipeline.tasks import hard_negatives
from data_pipeline.tasks.rqp import context_query, each_link
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Attempt, Page, PairTokens, Passages, Request, Sentence, Setup, Task
from data_pipeline.text.terms import unpack_words
from harp_jax.config import Field

FIELDS = {
    "adp_queries": Field(
        ("sampled",),
        'query styles, one drawn per link: "sampled": S1, sampled as in RQP; the "anchor" alone; with one or two words around it '
        '("short"), six on average ("window"), or up to thirty ("sentence")',
        ("sampled", "anchor", "short", "window", "sentence"),
    ),
    **hard_negatives.FIELDS,
}
WINDOW, SENTENCE = 6.0, 30  # words around the anchor: on average, and at most
ANCHOR = 2  # words of a lead used as the anchor
TITLE_NEEDS = {"all": {LINKS, ALL_PAGES}, "linked": {LINKS}}  # by `text_pages`


def request(sentence: Sentence, index: int, setup: Setup, rng: Generator) -> list[Request]:
    """The query and page P of one link; BM25 finds the negatives. The query is S1, or the anchor and adjacent words, including
    stopwords, in sentence order and without punctuation. The number of words before the anchor is uniform; if one side of the
    sentence is too short, the other side has more."""
    anchor, styles, terms = sentence.anchors[index], setup.c["adp_queries"], setup.terms
    style = styles[int(rng.integers(len(styles)))] if len(styles) > 1 else styles[0]
    if style == "sampled":
        query, words, _ = context_query(sentence, index, setup, rng)
    else:
        words, length = sentence.words_of(anchor, terms), context_length(style, rng)
        parts = sentence.words[: anchor.start], sentence.words[anchor.start : anchor.end], sentence.words[anchor.end :]
        before, within, after = ([word for word in part if terms.has_content(word)] for part in parts)
        left = min(int(rng.integers(0, length + 1)), len(before))
        right = min(length - left, len(after))
        left = min(length - right, len(before))
        query = [*before[len(before) - left :], *within, *after[:right]]
    return [Request(sentence.anchor_key(anchor), sentence.page, anchor.destination, terms.ids(query), words)]


def context_length(style: str, rng: Generator) -> int:
    """Number of words around the anchor; for "window" l ~ Poisson(WINDOW), at least 1."""
    if style == "window":
        return max(1, int(rng.poisson(WINDOW)))
    return {"anchor": 0, "short": int(rng.integers(1, 3)), "sentence": SENTENCE}[style]


def each_page(page: Page, setup: Setup) -> list[Attempt]:
    """Each page, or only each linked page (`text_pages`)."""
    return [(page["id"], (page,))] if page["in_links"] or setup.c["text_pages"] == "all" else []


def title_request(page: Page, setup: Setup, rng: Generator) -> list[Request]:
    """The title, without its punctuation; BM25 finds the negatives."""
    ((span, _, _),) = setup.terms.split([page["title"]], setup.c["max_query_tokens"])
    words = list(filter(setup.terms.has_content, span.words))
    if not words:
        raise NoPair("title-without-words")
    return [Request(page["id"], page["id"], page["doc"], setup.terms.ids(words), words)]


def lead_request(page: Page, setup: Setup, rng: Generator) -> list[Request]:
    """Consecutive words of a sentence, as many as ADP's windows have; `length` is the number of the sentence."""
    ends = unpack(page["sentences"])
    if len(ends) < 2:
        raise NoPair("page-has-one-sentence")
    at = int(rng.integers(len(ends)))
    starts, (begin, end) = np.cumsum([0, *unpack(page["lengths"])]), [0, *ends][at : at + 2]
    inside = (word for word, start in zip(unpack_words(page["words"]), starts) if begin <= start < end)
    words = list(filter(setup.terms.has_content, inside))
    if not words:
        raise NoPair("sentence-without-words")
    count = min(len(words), ANCHOR + context_length("window", rng))
    first = int(rng.integers(len(words) - count + 1))
    query, doc = words[first : first + count], page["doc"]
    # BM25 searches for two words, as for an anchor: pages found for all words share more of them with the query than the rest of
    # its own page does, and the model would learn to prefer fewer shared words.
    start = int(rng.integers(max(1, count - ANCHOR + 1)))
    anchor, ids = query[start : start + ANCHOR], setup.terms.ids(query)
    return [Request(page["id"], page["id"], doc, ids, anchor, at, words_of=doc)]


def lead_sides(request: Request, passages: Passages, setup: Setup, rng: Generator) -> PairTokens:
    """(q, P without the sentence) against (q, P̃), which loses as many tokens: else the shorter document would be the answer."""
    start, end = [0, *passages.sentences][request.length : request.length + 2]
    positive = [*passages.page[:start], *passages.page[end:]]
    documents = (passages.negative, *passages.more)
    first, *more = (tokens[: max(len(tokens) // 2, len(tokens) - (end - start))] for tokens in documents)
    return PairTokens(request.query, positive, (), first, more)


ADP = Task(
    "adp", reads=tables.SENTENCES, needs=lambda c: {LINKS, SENTENCES}, fields=FIELDS, attempts=each_link, request=request,
    prepare=partial(hard_negatives.prepare, task="adp", popular=True), missing=hard_negatives.MISSING,
)  # fmt: skip
TITLE = Task(
    "title", reads=tables.PASSAGES, needs=lambda c: TITLE_NEEDS[c["text_pages"]], attempts=each_page, request=title_request,
    prepare=partial(hard_negatives.prepare, task="title", popular=False), missing=hard_negatives.MISSING,
)  # fmt: skip
LEAD = Task(
    "lead", reads=tables.PASSAGES, attempts=each_page, request=lead_request, sides=lead_sides,
    needs=lambda c: TITLE_NEEDS[c["text_pages"]] | {SENTENCE_ENDS},
    prepare=partial(hard_negatives.prepare, task="lead", popular=False), missing=hard_negatives.MISSING,
)  # fmt: skip
