"""Inverse Cloze Task, a control (after Lee et al., ACL 2019): a sentence matches the passage that it was taken from."""

from collections.abc import Sequence

import numpy as np

from data_pipeline.sampling import Dropped
from data_pipeline.tasks import Sides

TASK = "ict"
Passage = list[list[int]]  # sentences as token ids


def passages(sentences: Sequence[Sequence[int]], limit: int) -> list[Passage]:
    """An article's sentences in order, as many to a passage as fit `limit` tokens; a longer sentence is cut to it."""
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


def cloze(passage: Passage, keep: float, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """(s, P \\ s): a sentence, uniform over the passage's, and the rest of it; with probability `keep`, (s, P).

    Where the sentence stays in, exact matches are worth learning, too. Dropped for a passage of one sentence.
    """
    if len(passage) < 2:
        raise Dropped("passage-has-one-sentence")
    at = int(rng.integers(len(passage)))
    kept = rng.random() < keep
    rest = [token for i, sentence in enumerate(passage) if kept or i != at for token in sentence]
    return passage[at], rest


def negative(passages: Sequence[Passage], but: int | None, rng: np.random.Generator) -> list[int]:
    """A passage, uniform over all but that number; Dropped where there is none."""
    count = len(passages) - (but is not None)
    if not count:
        raise Dropped("article-has-one-passage")
    at = int(rng.integers(count))
    at += but is not None and at >= but
    return [token for sentence in passages[at] for token in sentence]


def sides(
    passage: Passage, passages: Sequence[Passage], but: int | None, keep: float, rng: np.random.Generator
) -> Sides:
    """(s, P \\ s) against (s, P'): P' is another passage of the article (P is its number `but`), or one of another's."""
    query, document = cloze(passage, keep, rng)
    return Sides(query, document, None, negative(passages, but, rng))
