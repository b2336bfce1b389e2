"""Tasks that read whole pages, sentence by sentence: running text for masked language modelling (HARP Eq. 15), and the Inverse
Cloze Task, a control (after Lee et al., ACL 2019): a sentence matches its passage.

Without its sentence a positive passage is shorter than a whole one: preferring the shorter document would be right for 69 % of
the pairs. So a sentence is removed from the negative, too, if one was removed from the positive.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, Job
from data_pipeline.engine.store import read, rows
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Pair, PairTokens, Task
from data_pipeline.text.sentences import sentences
from data_pipeline.text.terms import terms_of
from data_pipeline.weights.tokenised import in_links, longest
from harp_jax.base.randomness import generator
from harp_jax.input.records import TEXT_TASK, TextRecord

PASSAGE_TOKENS = 128  # passages are about as long as HARP's documents
KEEP = 0.1  # share of the pairs whose passage keeps the sentence: exact matches are worth learning, too
Passage = list[list[int]]  # sentences as token ids


def pages(job: Job, number: int) -> Iterator[tuple[str, list[list[int]]]]:
    """(page id, token ids of its sentences) of a bucket's documents; of documents with the same address only the first."""
    terms = terms_of(job.config)
    first = set(read(job, tables.PAGES, number).column("doc").to_pylist())
    for document in rows(job, tables.DOCUMENTS, number, ["doc", "id", "text"], 64):
        if document["doc"] in first:
            text = document["text"]
            parts = [text[start:end] for start, end in sentences(text, job.config["language"])]
            yield document["id"], [encoding.ids for encoding in terms.tokenizer.encode_batch(parts)]


def texts(job: Job, number: int) -> Iterator[TextRecord]:
    tokenizer = terms_of(job.config).tokenizer
    limit = longest(job.config, tokenizer) - tokenizer.template.around_text
    for page, text in pages(job, number):
        yield from pieces(page, text, limit)


def pieces(page: str, sentences: Iterable[Sequence[int]], limit: int) -> Iterator[TextRecord]:
    """The page's sentences (token ids) in order, as many per piece as fit `limit` tokens; longer sentences are split."""
    parts = (sentence[start : start + limit] for sentence in sentences for start in range(0, len(sentence), limit))
    for number, piece in enumerate(passages(parts, limit)):
        yield TextRecord(f"{page}#{number}", page, list(chain(*piece)))


def pairs(job: Job, number: int) -> Iterator[Pair]:
    """A pair for each passage of at least two sentences in a bucket's articles."""
    c = job.config
    counts = {page: count for _, page, count in in_links(job, number)}
    for page, text in pages(job, number):
        read_page = page in counts and (counts[page] or c["text_pages"] == "all")
        split = passages(text, PASSAGE_TOKENS) if read_page else []
        for at in range(len(split)):
            key = f"{page}#{at}"
            make = partial(sides, split, at, generator(c["seed"], ICT.name, key))
            yield Pair(key, page, make, counts[page], counts[page])


def passages(sentences: Iterable[Sequence[int]], limit: int) -> list[Passage]:
    """An article's sentences in order, as many per passage as fit `limit` tokens; longer sentences are truncated."""
    made: list[Passage] = []
    room = 0
    for sentence in filter(None, sentences):
        tokens = list(sentence[:limit])
        if len(tokens) > room:
            made.append([])
            room = limit
        made[-1].append(tokens)
        room -= len(tokens)
    return made


def sides(passages: Sequence[Passage], number: int, rng: Generator) -> PairTokens:
    """(s, P \\ s) against (s, P' \\ s'), or with probability KEEP (s, P) against (s, P').

    s and s' are uniformly drawn sentences; P is passage `number`, P' another one of the article. Both need two sentences, else
    NoPair.
    """

    def without(passage: Passage, sentence: int) -> list[int]:
        return [token for at, tokens in enumerate(passage) if whole or at != sentence for token in tokens]

    passage = passages[number]
    if len(passage) < 2:
        raise NoPair("passage-has-one-sentence")
    at = int(rng.integers(len(passage)))
    whole = rng.random() < KEEP
    others = [other for i, other in enumerate(passages) if i != number and len(other) > 1]
    if not others:
        raise NoPair("article-has-no-other-passage-of-two-sentences")
    other = others[int(rng.integers(len(others)))]
    removed = 0 if whole else int(rng.integers(len(other)))
    return PairTokens(passage[at], without(passage, at), (), without(other, removed))


MLM = Task(TEXT_TASK, reads=tables.DOCUMENTS, needs=lambda c: set(), records=texts)
ICT = Task("ict", reads=tables.DOCUMENTS, needs=lambda c: {LINKS}, records=pairs)
