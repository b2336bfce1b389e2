"""Inverse Cloze Task, a control (after Lee et al., ACL 2019): a sentence matches its passage.

Without its sentence a positive passage is shorter than a whole one: preferring the shorter document would be right for 69 % of
the pairs. So a sentence is removed from the negative, too, if one was removed from the positive.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, Job
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import PagePair, PairTokens, Task
from data_pipeline.weights.tokenised import in_links, running_text
from harp_jax.base.randomness import generator

PASSAGE_TOKENS = 128  # passages are about as long as HARP's documents
KEEP = 0.1  # share of the pairs whose passage keeps the sentence
Passage = list[list[int]]  # sentences as token ids


def passages(sentences: Sequence[Sequence[int]], limit: int) -> list[Passage]:
    """An article's sentences in order, as many per passage as fit `limit` tokens; longer sentences are truncated."""
    found: list[Passage] = []
    room = 0
    for sentence in sentences:
        tokens = list(sentence[:limit])
        if not tokens:
            continue
        if len(tokens) > room:
            found.append([])
            room = limit
        found[-1].append(tokens)
        room -= len(tokens)
    return found


def cloze(passage: Passage, keep: float, rng: np.random.Generator) -> tuple[list[int], list[int], bool]:
    """(s, P \\ s, False): a uniformly drawn sentence and the rest of the passage; with probability `keep`, (s, P, True).

    Pairs that keep the sentence make exact matches worth learning. NoPair for a passage of one sentence.
    """
    if len(passage) < 2:
        raise NoPair("passage-has-one-sentence")
    at = int(rng.integers(len(passage)))
    kept = rng.random() < keep
    return passage[at], _joined(passage, None if kept else at), kept


def negative(passages: Sequence[Passage], but: int, whole: bool, rng: np.random.Generator) -> list[int]:
    """A passage drawn uniformly from those with at least two sentences, except number `but`.

    Unless `whole`, a uniformly drawn sentence is removed. NoPair if there is no such passage.
    """
    others = [passage for i, passage in enumerate(passages) if i != but and len(passage) > 1]
    if not others:
        raise NoPair("article-has-no-other-passage-of-two-sentences")
    passage = others[int(rng.integers(len(others)))]
    return _joined(passage, None if whole else int(rng.integers(len(passage))))


def _joined(passage: Passage, but: int | None) -> list[int]:
    """The tokens of all sentences except number `but`."""
    return [token for i, sentence in enumerate(passage) if i != but for token in sentence]


def sides(passage: Passage, passages: Sequence[Passage], but: int, keep: float, rng: np.random.Generator) -> PairTokens:
    """(s, P \\ s) against (s, P' \\ s'), or (s, P) against (s, P').

    P' is another passage of the article; P is number `but`.
    """
    query, document, kept = cloze(passage, keep, rng)
    return PairTokens(query, document, (), negative(passages, but, kept, rng))


def records(job: Job, number: int) -> Iterator[PagePair]:
    """A pair for each passage of at least two sentences in a bucket's articles."""
    c = job.config
    counts = {row["id"]: row["in_links"] for row in in_links(job, number)}
    wanted = {page for page, n in counts.items() if n or c["text_pages"] == "all"}
    for page, sentences in running_text(job, number):
        found = passages(sentences, PASSAGE_TOKENS) if page in wanted else []
        for at, passage in enumerate(found):
            key = f"{page}#{at}"
            made: PairTokens | NoPair
            try:
                made = sides(passage, found, at, KEEP, generator(c["seed"], TASK.name, key))
            except NoPair as reason:
                made = reason
            yield PagePair(key, page, made, counts[page], counts[page])


TASK = Task("ict", reads=tables.DOCUMENTS, needs=lambda c: {LINKS}, records=records)
