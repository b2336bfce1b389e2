"""Inverse Cloze Task, a control (after Lee et al., ACL 2019): a sentence matches its passage.

Without its sentence a positive passage is shorter than a whole one: preferring the shorter document would be right for 69 % of
the pairs. So a sentence is removed from the negative, too, if one was removed from the positive.
"""

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from data_pipeline.engine.job import LINKS, Job
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Field, PagePair, Sides, Task
from data_pipeline.weights.wordpieces import in_links, running_text
from harp_jax.base.randomness import generator

FIELDS = {
    "ict_passage_tokens": Field(128, "passages are about as long as HARP's documents", (1, 1 << 20)),
    "ict_keep": Field(0.1, "share of the pairs whose passage keeps the sentence", (0, 1)),
    "ict_negative": Field(
        "article",
        'another passage of it, or one of an "other_article", like in-batch negatives',
        ("article", "other_article"),
    ),
}
# Consecutive articles among which "other_article" draws a negative.
ARTICLES = 256
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
    """(s, P \\ s, False): a sentence, uniform over the passage's, and the rest of it; with probability `keep`, (s, P, True).

    Pairs that keep the sentence make exact matches worth learning. NoPair for a passage of one sentence.
    """
    if len(passage) < 2:
        raise NoPair("passage-has-one-sentence")
    at = int(rng.integers(len(passage)))
    kept = rng.random() < keep
    return passage[at], _joined(passage, None if kept else at), kept


def negative(passages: Sequence[Passage], but: int | None, whole: bool, rng: np.random.Generator) -> list[int]:
    """A passage, uniform over those of at least two sentences except number `but`; unless `whole`, without one of its sentences.

    The removed sentence is uniform, too. NoPair if there is no such passage.
    """
    others = [passage for i, passage in enumerate(passages) if i != but and len(passage) > 1]
    if not others:
        raise NoPair("article-has-no-other-passage-of-two-sentences")
    passage = others[int(rng.integers(len(others)))]
    return _joined(passage, None if whole else int(rng.integers(len(passage))))


def _joined(passage: Passage, but: int | None) -> list[int]:
    """The tokens of all sentences except number `but`."""
    return [token for i, sentence in enumerate(passage) if i != but for token in sentence]


def sides(
    passage: Passage, passages: Sequence[Passage], but: int | None, keep: float, rng: np.random.Generator
) -> Sides:
    """(s, P \\ s) against (s, P' \\ s'), or (s, P) against (s, P').

    P' is another passage of the article (P is number `but`), or one of another article.
    """
    query, document, kept = cloze(passage, keep, rng)
    return Sides(query, document, (), negative(passages, but, kept, rng))


def records(job: Job, number: int) -> Iterator[PagePair]:
    """A pair for each passage of at least two sentences, of the articles of a bucket."""
    c = job["config"]
    counts = {row["id"]: row["in_links"] for row in in_links(job, number)}
    wanted = {page for page, n in counts.items() if n or c["text_pages"] == "all"}
    for articles in _batches(job, number, wanted):
        for which, (page, found) in enumerate(articles):
            for at, passage in enumerate(found):
                key = f"{page}#{at}"
                rng = generator(c["seed"], TASK.name, key)
                other = which
                if c["ict_negative"] == "other_article" and len(articles) > 1:
                    other = int(rng.integers(len(articles) - 1))
                    other += other >= which
                try:
                    pair = sides(passage, articles[other][1], at if other == which else None, c["ict_keep"], rng)
                except NoPair as reason:
                    yield PagePair(key, page, reason)
                    continue
                yield PagePair(key, page, pair, counts[page], counts[articles[other][0]])


def _batches(job: Job, number: int, wanted: Collection[str]) -> Iterator[list[tuple[str, list[Passage]]]]:
    """The wanted articles as passages, `ARTICLES` at a time."""
    batch: list[tuple[str, list[Passage]]] = []
    for page, sentences in running_text(job, number):
        found = passages(sentences, job["config"]["ict_passage_tokens"])
        if found and page in wanted:
            batch.append((page, found))
        if len(batch) == ARTICLES:
            yield batch
            batch = []
    if batch:
        yield batch


TASK = Task("ict", reads="documents", needs=lambda c: {LINKS}, fields=FIELDS, records=records)
