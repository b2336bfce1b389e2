"""A control for ADP without links: words of a lead's sentence match the rest of the lead, not a page that shares the words.

The Inverse Cloze Task with ADP's queries and negatives. A negative is truncated by as many tokens as the positive loses: otherwise
the shorter document would be the answer.
"""

from functools import partial

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, SENTENCE_ENDS
from data_pipeline.engine.tables import Row, unpack
from data_pipeline.tasks import hard_negatives, title
from data_pipeline.tasks.adp import context_length
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import PairTokens, Passages, Request, Setup, Task
from data_pipeline.text.terms import unpack_words

ANCHOR = 2  # words used as ADP's anchor


def request(page: Row, setup: Setup, rng: np.random.Generator) -> list[Request]:
    """Consecutive words of a sentence, as many as ADP's windows have; `length` is the number of the sentence."""
    ends = unpack(page["sentences"])
    if len(ends) < 2:
        raise NoPair("page-has-one-sentence")
    at = int(rng.integers(len(ends)))
    starts = np.cumsum(np.append(0, unpack(page["lengths"])))[:-1]
    inside = (starts >= (ends[at - 1] if at else 0)) & (starts < ends[at])
    words = [
        word for word, there in zip(unpack_words(page["words"]), inside) if there and setup.terms.has_content(word)
    ]
    if not words:
        raise NoPair("sentence-without-words")
    count = min(len(words), ANCHOR + context_length("window", rng))
    first = int(rng.integers(len(words) - count + 1))
    query, doc = words[first : first + count], page["doc"]
    # BM25 searches for two words, as for an anchor: pages found for all words share more of them with the query than the rest of
    # its own page does, and the model learns to prefer fewer shared words (RR@10 .04, chance .10).
    place = int(rng.integers(max(1, count - ANCHOR + 1)))
    anchor, ids = query[place : place + ANCHOR], setup.terms.ids(query)
    return [Request(TASK.name, page["id"], page["id"], doc, ids, anchor, at, words_of=doc)]


def sides(request: Request, passages: Passages, setup: Setup, rng: np.random.Generator) -> PairTokens:
    """(q, P without the sentence) against (q, P̃)."""
    if not passages.negative:
        raise NoPair("no-page-shares-a-word-of-the-query")
    start, end = [0, *passages.sentences][request.length : request.length + 2]
    positive = [*passages.page[:start], *passages.page[end:]]
    first, *more = (
        tokens[: max(len(tokens) // 2, len(tokens) - (end - start))] for tokens in (passages.negative, *passages.more)
    )
    return PairTokens(request.query, positive, (), first, more)


TASK = Task(
    "lead", reads=tables.PASSAGES, needs=lambda c: title.needs(c) | {SENTENCE_ENDS, LINKS}, fields=hard_negatives.FIELDS,
    requests=partial(title.each_page, request), prepare=partial(hard_negatives.prepare, task="lead", popular=False), sides=sides,
)  # fmt: skip
