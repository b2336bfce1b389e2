"""Whole words for the neural rankers: a vocabulary with document frequencies, built from a collection.

A word is a sequence of letters and digits, lower-cased and optionally stemmed. Stopwords are removed before stemming and leave
no gap, because neural rankers without an idf weigh them like other words. Ids start at 1, most frequent word first; id 0 is
padding and unknown words. Documents stream once; memory is one counter per distinct word (about 200 bytes).
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import lines, read_json, replacing

WORD = re.compile(r"[^\W_]+")


class Stemmer(Protocol):
    """A stemmer of PyStemmer."""

    def stemWords(self, words: list[str]) -> list[str]:
        """The stem of each word."""


def stemmer_of(name: str) -> Stemmer | None:
    """A Snowball stemmer, or None for ""; InputError for an unknown name."""
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


class Analyser:
    """Text → words. `stemmer` is the name of a Snowball stemmer, or "" for none; `stopwords` are removed before stemming."""

    def __init__(self, stemmer: str = "", stopwords: Collection[str] = ()) -> None:
        self._stem = None
        self._stopwords = frozenset(stopwords)
        if stemmer:
            found = stemmer_of(stemmer)
            self._stem = found.stemWords if found else None

    def words(self, text: str, limit: int | None = None) -> list[str]:
        """The first `limit` words (default: all); the rest of the text is not scanned."""
        matches = (match.group() for match in WORD.finditer(text.lower()))
        found = list(islice((word for word in matches if word not in self._stopwords), limit))
        return found if self._stem is None else self._stem(found)


@dataclass(frozen=True)
class WordVocabulary:
    """Word i has id i + 1 and occurs in `frequencies[i]` of the collection's `documents`."""

    words: tuple[str, ...]
    frequencies: tuple[int, ...]
    documents: int
    stemmer: str = ""
    stopwords: tuple[str, ...] = ()  # sorted

    @cached_property
    def analyser(self) -> Analyser:
        return Analyser(self.stemmer, self.stopwords)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, 1)}

    @property
    def size(self) -> int:
        """Number of words, plus one for id 0."""
        return len(self.words) + 1

    @cached_property
    def idf(self) -> np.ndarray:
        """log(N / df) [size] float32, 0 for id 0."""
        idf = np.log(self.documents / np.maximum(np.asarray(self.frequencies, np.float64), 1))
        return np.concatenate([[0.0], idf]).astype(np.float32)

    @cached_property
    def sha256(self) -> str:
        """Hash of the words in order, their frequencies, the stemmer and the stopwords."""
        parts = (self.words, self.frequencies, self.documents, self.stemmer, self.stopwords)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def encode(self, text: str, limit: int | None = None) -> list[int]:
        """Ids of the first `limit` words; 0 for each word outside the vocabulary."""
        ids = self.ids
        return [ids.get(word, 0) for word in self.analyser.words(text, limit)]

    def encode_prefixes(self, texts: list[str], limit: int) -> list[list[int]]:
        """As `Tokenizer.encode_prefixes`."""
        return [self.encode(text, limit) for text in texts]

    def save(self, directory: str) -> None:
        """Writes words.tsv (word, number of documents with it) and words.json."""
        with replacing(os.path.join(directory, "words.tsv")) as file:
            file.writelines(f"{word}\t{count}\n" for word, count in zip(self.words, self.frequencies))
        with replacing(os.path.join(directory, "words.json")) as file:
            about = {"documents": self.documents, "stemmer": self.stemmer, "stopwords": self.stopwords}
            json.dump({**about, "sha256": self.sha256}, file, indent=1)


def read_stopwords(name: str) -> tuple[str, ...]:
    """Stopwords, sorted: a file with one a line, "english" (those of our BM25), or "" for none."""
    if not name:
        return ()
    if name == "english":
        with needs("the list of stopwords 'english'", "bm25s", "bm25"):
            from bm25s.stopwords import STOPWORDS_EN
        return tuple(sorted(STOPWORDS_EN))
    if not os.path.isfile(name):
        raise InputError(f"--stopwords={name!r} is no file; give one with a word a line, or 'english'")
    # A text splits "don't" into two words.
    return tuple(sorted({match.group() for _, line in lines(name) for match in WORD.finditer(line.lower())}))


def count_words(
    texts: Iterable[tuple[str, str]],
    stemmer: str = "",
    min_documents: int = 1,
    max_words: int = 0,
    stopwords: tuple[str, ...] = (),
) -> WordVocabulary:
    """The vocabulary of (docid, text) pairs: words in at least `min_documents` documents, the `max_words` most frequent.

    `max_words` 0 keeps all. Raises InputError for negative numbers, and if no word is left.
    """
    if min_documents < 0 or max_words < 0:
        raise InputError(f"min_documents={min_documents}, max_words={max_words}: use 0 or more")
    analyser = Analyser(stemmer, stopwords)
    total: Counter[str] = Counter()
    frequency: Counter[str] = Counter()
    documents = 0
    for _, text in texts:
        counts = Counter(analyser.words(text))
        total.update(counts)
        frequency.update(counts.keys())
        documents += 1
    kept = [word for word in total if frequency[word] >= min_documents]
    kept.sort(key=lambda word: (-total[word], word))
    kept = kept[: max_words or None]
    if not kept:
        raise InputError(
            f"no word occurs in {min_documents} of {documents} documents; check --docs or lower --min_documents"
        )
    return WordVocabulary(tuple(kept), tuple(frequency[word] for word in kept), documents, stemmer, stopwords)


def load_words(directory: str) -> WordVocabulary:
    """A saved vocabulary; InputError if there is none or it was changed since."""
    path = os.path.join(directory, "words.json")
    if not os.path.isfile(path):
        raise InputError(f"no vocabulary at {directory!r}; make one with `harp words`")
    try:
        about = read_json(path, "make the vocabulary again")
        rows = [line.split("\t") for _, line in lines(os.path.join(directory, "words.tsv"))]
        kept, frequencies = tuple(r[0] for r in rows), tuple(int(r[1]) for r in rows)
        stopwords = tuple(about["stopwords"])
        words = WordVocabulary(kept, frequencies, about["documents"], about["stemmer"], stopwords)
        intact = words.sha256 == about["sha256"]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"{directory}: the vocabulary is damaged ({error}); make it again") from error
    if not intact:
        raise InputError(f"{directory}: words.tsv is not what words.json describes; make the vocabulary again")
    return words
