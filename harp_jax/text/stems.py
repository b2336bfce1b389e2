"""Snowball stemmers by name."""

from typing import Protocol

from harp_jax.errors import InputError


class Stemmer(Protocol):
    """A stemmer of PyStemmer."""

    def stemWords(self, words: list[str]) -> list[str]:
        """The stem of each word."""


def stemmer_of(name: str) -> Stemmer | None:
    """A Snowball stemmer, None for ""; InputError for a name that Snowball does not know."""
    if not name:
        return None
    try:
        import Stemmer
    except ImportError as error:
        raise InputError(f"the stemmer {name!r} needs the package PyStemmer; install harp_jax[bm25]") from error
    try:
        return Stemmer.Stemmer(name)
    except KeyError:
        raise InputError(
            f"no stemmer {name!r}; choose from {', '.join(Stemmer.algorithms())}, or '' for none"
        ) from None
