"""Anchor Destination Prediction (beyond the paper): an anchor in context matches its page, not one that shares its words.

The other tasks draw their negatives from the link graph, so that the topic or the in-links often give the answer away. Here the
negatives are pages that BM25 returns for the anchor text (hard_negatives.py), and the words around the anchor decide: the task of
a re-ranker. Two controls have its queries and negatives without links: a page's title matches its text; words of a sentence of a
page's lead match the rest of the lead.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_PAGES, LINKS, SENTENCE_ENDS, SENTENCES, Config
from data_pipeline.engine.tables import Row, unpack
from data_pipeline.tasks import hard_negatives
from data_pipeline.tasks.rqp import context_query, each_link
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Anchor, Attempt, PairTokens, Passages, Request, Sentence, Setup, Task
from data_pipeline.text.terms import Terms, Word, unpack_words
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


def request(sentence: Sentence, index: int, setup: Setup, rng: np.random.Generator) -> list[Request]:
    """The query and page P of one link; BM25 finds the negatives."""
    anchor, styles = sentence.anchors[index], setup.c["adp_queries"]
    style = styles[int(rng.integers(len(styles)))] if len(styles) > 1 else styles[0]
    if style == "sampled":
        query, words, _ = context_query(sentence, index, setup, rng)
    else:
        words = sentence.words_of(anchor, setup.terms)
        query = window(sentence, anchor, setup.terms, context_length(style, rng), rng)
    key, ids = sentence.anchor_key(anchor), setup.terms.ids(query)
    return [Request("adp", key, sentence.page, anchor.destination, ids, words)]


def context_length(style: str, rng: np.random.Generator) -> int:
    """Number of words around the anchor; for "window" l ~ Poisson(WINDOW), at least 1."""
    if style == "window":
        return max(1, int(rng.poisson(WINDOW)))
    return {"anchor": 0, "short": int(rng.integers(1, 3)), "sentence": SENTENCE}[style]


def window(sentence: Sentence, anchor: Anchor, terms: Terms, length: int, rng: np.random.Generator) -> list[Word]:
    """The anchor and `length` adjacent words, including stopwords, in sentence order and without punctuation.

    The number of words before the anchor is uniform; if one side of the sentence is too short, the other side has more.
    """
    words, start, end = sentence.words, anchor.start, anchor.end
    parts = words[:start], words[start:end], words[end:]
    before, within, after = ([word for word in part if terms.has_content(word)] for part in parts)
    left = min(int(rng.integers(0, length + 1)), len(before))
    right = min(length - left, len(after))
    left = min(length - right, len(before))
    return [*before[len(before) - left :], *within, *after[:right]]


def sides(request: Request, passages: Passages, setup: Setup, rng: np.random.Generator) -> PairTokens:
    """(S1, P) against (S1, P̃), and more P̃."""
    if not passages.negative:
        raise NoPair("no-page-shares-a-word-of-the-query")
    return PairTokens(request.query, passages.positive, (), passages.negative, passages.more)


def each_page(
    request: Callable[[Row, Setup, np.random.Generator], list[Request]], page: Row, setup: Setup
) -> Iterator[Attempt]:
    """A `request` for each page, or only for each linked page (`text_pages`)."""
    if page["in_links"] or setup.c["text_pages"] == "all":
        yield page["id"], partial(request, page, setup)


def title_request(page: Row, setup: Setup, rng: np.random.Generator) -> list[Request]:
    """The title, without its punctuation; BM25 finds the negatives."""
    ((span, _, _),) = setup.terms.split([page["title"]], setup.c["max_query_tokens"])
    words = [word for word in span.words if setup.terms.has_content(word)]
    if not words:
        raise NoPair("title-without-words")
    return [Request("title", page["id"], page["id"], page["doc"], setup.terms.ids(words), words)]


def lead_request(page: Row, setup: Setup, rng: np.random.Generator) -> list[Request]:
    """Consecutive words of a sentence, as many as ADP's windows have; `length` is the number of the sentence."""
    ends = unpack(page["sentences"])
    if len(ends) < 2:
        raise NoPair("page-has-one-sentence")
    at = int(rng.integers(len(ends)))
    starts = np.cumsum(np.append(0, unpack(page["lengths"])))[:-1]
    inside = (starts >= (ends[at - 1] if at else 0)) & (starts < ends[at])
    pairs = zip(unpack_words(page["words"]), inside)
    words = [word for word, there in pairs if there and setup.terms.has_content(word)]
    if not words:
        raise NoPair("sentence-without-words")
    count = min(len(words), ANCHOR + context_length("window", rng))
    first = int(rng.integers(len(words) - count + 1))
    query, doc = words[first : first + count], page["doc"]
    # BM25 searches for two words, as for an anchor: pages found for all words share more of them with the query than the rest of
    # its own page does, and the model learns to prefer fewer shared words (RR@10 .04, chance .10).
    place = int(rng.integers(max(1, count - ANCHOR + 1)))
    anchor, ids = query[place : place + ANCHOR], setup.terms.ids(query)
    return [Request("lead", page["id"], page["id"], doc, ids, anchor, at, words_of=doc)]


def lead_sides(request: Request, passages: Passages, setup: Setup, rng: np.random.Generator) -> PairTokens:
    """(q, P without the sentence) against (q, P̃), which loses as many tokens: else the shorter document would be the answer."""
    pair = sides(request, passages, setup, rng)
    start, end = [0, *passages.sentences][request.length : request.length + 2]
    positive = [*passages.page[:start], *passages.page[end:]]
    documents = (pair.neg_doc, *pair.more_docs)
    first, *more = (tokens[: max(len(tokens) // 2, len(tokens) - (end - start))] for tokens in documents)
    return pair._replace(pos_doc=positive, neg_doc=first, more_docs=more)


def control_needs(c: Config) -> set[str]:
    return {LINKS, *([ALL_PAGES] if c["text_pages"] == "all" else [])}


ADP = Task(
    "adp", reads=tables.SENTENCES, needs=lambda c: {LINKS, SENTENCES}, fields=FIELDS, requests=partial(each_link, request),
    prepare=partial(hard_negatives.prepare, task="adp", popular=True), sides=sides,
)  # fmt: skip
TITLE = Task(
    "title", reads=tables.PASSAGES, needs=control_needs, requests=partial(each_page, title_request),
    prepare=partial(hard_negatives.prepare, task="title", popular=False), sides=sides,
)  # fmt: skip
LEAD = Task(
    "lead", reads=tables.PASSAGES, needs=lambda c: control_needs(c) | {SENTENCE_ENDS}, requests=partial(each_page, lead_request),
    prepare=partial(hard_negatives.prepare, task="lead", popular=False), sides=lead_sides,
)  # fmt: skip
