"""Snowball stemmers by name."""

from typing import Protocol

from harp_jax.base.errors import InputError, needs


class Stemmer(Protocol):
    """A stemmer of PyStemmer."""

    def stemWords(self, words: list[str]) -> list[str]:
        """The stem of each word."""


def stemmer_of(name: str) -> Stemmer | None:
    """A Snowball stemmer, None for ""; InputError for a name that Snowball does not know."""
    if not name:
        return None
    with needs(f"the stemmer {name!r}", "PyStemmer", "bm25"):
        import Stemmer
    try:
        return Stemmer.Stemmer(name)
    except KeyError:
        raise InputError(
            f"no stemmer {name!r}; choose from {', '.join(Stemmer.algorithms())}, or '' for none"
        ) from None
