"""Inverse Cloze Task, a control (after Lee et al., ACL 2019): a sentence matches the passage that it was taken from.

A positive that its sentence was taken out of is shorter than a whole passage: "the shorter one" would be right for 69 % of the
pairs, without a look at a word. So negatives lose a sentence, too, wherever the positive did.
"""

from collections.abc import Sequence

import numpy as np

from data_pipeline.tasks.pair import Sides
from data_pipeline.tasks.sampling import NoPair

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


def cloze(passage: Passage, keep: float, rng: np.random.Generator) -> tuple[list[int], list[int], bool]:
    """(s, P \\ s, False): a sentence, uniform over the passage's, and the rest of it; with probability `keep`, (s, P, True).

    Where the sentence stays in, exact matches are worth learning, too. NoPair for a passage of one sentence.
    """
    if len(passage) < 2:
        raise NoPair("passage-has-one-sentence")
    at = int(rng.integers(len(passage)))
    kept = rng.random() < keep
    return passage[at], _joined(passage, None if kept else at), kept


def negative(passages: Sequence[Passage], but: int | None, whole: bool, rng: np.random.Generator) -> list[int]:
    """A passage, uniform over those of two sentences or more but that number; unless `whole`, less one of its sentences.

    Which one is uniform, too. NoPair where there is no such passage.
    """
    others = [passage for i, passage in enumerate(passages) if i != but and len(passage) > 1]
    if not others:
        raise NoPair("article-has-no-other-passage-of-two-sentences")
    passage = others[int(rng.integers(len(others)))]
    return _joined(passage, None if whole else int(rng.integers(len(passage))))


def _joined(passage: Passage, but: int | None) -> list[int]:
    """The tokens of all sentences but that number."""
    return [token for i, sentence in enumerate(passage) if i != but for token in sentence]


def sides(
    passage: Passage, passages: Sequence[Passage], but: int | None, keep: float, rng: np.random.Generator
) -> Sides:
    """(s, P \\ s) against (s, P' \\ s'), or (s, P) against (s, P').

    P' is another passage of the article (P is its number `but`), or one of another's.
    """
    query, document, kept = cloze(passage, keep, rng)
    return Sides(query, document, None, negative(passages, but, kept, rng))
