"""Checks the share of words in the vocabulary: unknown words all get id 0, so documents would score the same."""

from collections.abc import Iterable, Mapping
from itertools import islice

from harp_jax.base.errors import InputError
from harp_jax.text.words import WordVocabulary

SAMPLE = 500  # texts checked of each kind
FEW, HALF = 0.05, 0.5  # shares of known words: below FEW training stops, below HALF there is a note


def share(words: WordVocabulary, texts: Iterable[str], limit: int) -> float:
    """The share of words with an id, among the first `limit` of each of the first SAMPLE texts; 0 without words."""
    ids = [i for text in islice(texts, SAMPLE) for i in words.encode(text, limit)]
    return sum(i > 0 for i in ids) / max(len(ids), 1)


def check(
    words: WordVocabulary, texts: Mapping[str, Iterable[str]], limit: int, least: float, remedy: str
) -> list[str]:
    """A note on each kind of texts (by name) with less than HALF of its words in the vocabulary.

    Raises InputError if none are, or less than `least`.
    """
    notes = []
    for what, some in texts.items():
        known = share(words, some, limit)
        if not known or known < least:
            raise InputError(
                f"{known:.1%} of the words of the {what} are in the vocabulary ({words.size - 1} words, stemmer "
                f"{words.stemmer!r}); it is of other texts or another stemmer: {remedy}"
            )
        if known < HALF:
            notes.append(
                f"only {known:.0%} of the words of the {what} are in the vocabulary; is it of this collection?"
            )
    return notes
