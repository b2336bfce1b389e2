"""Representative Query Prediction (HARP 3.2.1): S1, an anchor with context words, is a better query for the page than S2."""

from collections.abc import Iterator

from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, SENTENCES
from data_pipeline.tasks.sampling import Weighted
from data_pipeline.tasks.task import Attempt, PairTokens, Passages, Request, Sentence, Setup, Task
from data_pipeline.text.terms import Word
from harp_jax.config import Field

FIELDS = {
    "context_in_page": Field(
        False, "RQP: sample S1's context only from words of P; otherwise a word absent from P identifies S1"
    ),
    "anchor_in_context": Field(
        False, "S1 and ACM's query may draw the anchor's words again, which the paper excludes only from S2 (Eq. 5)"
    ),
}


def each_link(sentence: Sentence, setup: Setup) -> Iterator[Attempt]:
    for index, anchor in enumerate(sentence.anchors):
        yield sentence.anchor_key(anchor), (sentence, index)


def context_query(sentence: Sentence, index: int, setup: Setup, rng: Generator) -> tuple[list[Word], list[Word], int]:
    """S1 in random order, the anchor's words, and l. S1 = anchor ∪ l words sampled from the sentence by the attention of the
    anchor's own span (Eq. 1 to 4)."""
    sampler, anchor = setup.sampler, sentence.words_of(sentence.anchors[index], setup.terms)
    length = sampler.length(rng)
    text = Weighted(sentence.words, sentence.by_anchor[index])
    context = sampler.sample(rng, text, sampler.excluded(anchor), length, "sentence")
    return sampler.query(rng, context, anchor), anchor, length


def request(sentence: Sentence, index: int, setup: Setup, rng: Generator) -> list[Request]:
    """The positive query S1 of one link; its page P is both the document and the source of S2. With `context_in_page` S1 depends on
    P: the request then has the sentence's words in sampled order instead of a query."""
    sampler, anchor = setup.sampler, sentence.anchors[index]
    query: list[Word] = []
    context: list[Word] = []
    if sampler.context_in_page:
        words, length = sentence.words_of(anchor, setup.terms), sampler.length(rng)
        context = sampler.ranking(rng, Weighted(sentence.words, sentence.by_anchor[index]), sampler.excluded(words))
    else:
        query, words, length = context_query(sentence, index, setup, rng)
    key, page = sentence.anchor_key(anchor), anchor.destination
    return [Request(key, sentence.page, page, setup.terms.ids(query), words, length, context, words_of=page)]


def sides(request: Request, passages: Passages, setup: Setup, rng: Generator) -> PairTokens:
    """(S1, P) against (S2, P). S2: as many words as S1, sampled from P by the attention of [CLS], without the anchor's (Eq. 5). In
    the authors' code its length is drawn independently."""
    sampler = setup.sampler
    anchor, query, length = list(request.anchor), request.query, request.length
    if sampler.context_in_page:
        present = set(passages.words.words)
        # Sentence and page often share fewer than l terms. A shorter query is better than dropping four pairs in five.
        context = [word for word in request.context if word in present][: request.length]
        length = len(context)
        query = setup.terms.ids(sampler.query(rng, context, anchor))
    count = sampler.length(rng) if sampler.official else length + len(anchor)
    excluded = sampler.excluded(anchor, negative=True)
    negative = sampler.query(rng, sampler.sample(rng, passages.words, excluded, count, "page"), [])
    return PairTokens(query, passages.positive, setup.terms.ids(negative), ())


TASK = Task(
    "rqp", reads=tables.SENTENCES, needs=lambda c: {LINKS, SENTENCES}, fields=FIELDS,
    attempts=each_link, request=request, sides=sides,
)  # fmt: skip
