"""Whole words for neural rankers and LinkLearn: a vocabulary with document frequencies, made from a collection.

    python -m harp_jax.text.words --docs=docs.tsv --output=words [--stemmer=english] [--stopwords=english] [--min_documents=2]

A word is a run of letters and digits, lower-cased, and stemmed where a stemmer is named. Stopwords are left out before that
and take no place in a text: neural rankers without an idf count them like any other word. Ids start at 1, the most frequent
word first; 0 stands for "no word": padding, and words outside the vocabulary. Documents stream once; what is held is one
counter a distinct word (about 200 bytes). Vectors come from text files as word2vec and GloVe write them.
"""

import argparse
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from harp_jax.cli import run
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.errors import InputError
from harp_jax.files import lines, replacing
from harp_jax.progress import progress
from harp_jax.randomness import generator

WORD = re.compile(r"[^\W_]+")


class Analyser:
    """Text → words. `stemmer` is the name of a Snowball stemmer, or "" for none; `stopwords` are dropped before it."""

    def __init__(self, stemmer: str = "", stopwords: Collection[str] = ()) -> None:
        self._stem = None
        self._stopwords = frozenset(stopwords)
        if stemmer:
            from harp_jax.text.stems import stemmer_of

            self._stem = stemmer_of(stemmer).stemWords

    def words(self, text: str, limit: int | None = None) -> list[str]:
        """The first `limit` words (all of them without one); the rest of the text is not read."""
        matches = (match.group() for match in WORD.finditer(text.lower()))
        found = list(islice((word for word in matches if word not in self._stopwords), limit))
        return found if self._stem is None else self._stem(found)


@dataclass(frozen=True)
class Words:
    """A vocabulary: word i has id i + 1 and stands in `frequencies[i]` of the collection's `documents`."""

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
        """Words, and one for id 0."""
        return len(self.words) + 1

    @cached_property
    def idf(self) -> np.ndarray:
        """log(N / df) [size] float32, 0 for id 0."""
        idf = np.log(self.documents / np.maximum(np.asarray(self.frequencies, np.float64), 1))
        return np.concatenate([[0.0], idf]).astype(np.float32)

    @cached_property
    def sha256(self) -> str:
        """Identity: the words in order, their frequencies, the stemmer, the stopwords."""
        parts = (self.words, self.frequencies, self.documents, self.stemmer)
        # Without stopwords the identity is what it was before there were any: trained models keep their vocabulary.
        text = repr((*parts, self.stopwords) if self.stopwords else parts)
        return hashlib.sha256(text.encode()).hexdigest()

    def encode(self, text: str, limit: int | None = None) -> list[int]:
        """Ids of the first `limit` words; 0 for a word outside the vocabulary, which keeps its place."""
        ids = self.ids
        return [ids.get(word, 0) for word in self.analyser.words(text, limit)]

    def encode_prefixes(self, texts: list[str], limit: int) -> list[list[int]]:
        """As `Tokenizer.encode_prefixes`."""
        return [self.encode(text, limit) for text in texts]

    def save(self, directory: str) -> None:
        """Writes words.tsv (word, documents that hold it) and words.json."""
        with replacing(os.path.join(directory, "words.tsv")) as file:
            file.writelines(f"{word}\t{count}\n" for word, count in zip(self.words, self.frequencies))
        with replacing(os.path.join(directory, "words.json")) as file:
            about = {"documents": self.documents, "stemmer": self.stemmer, "stopwords": self.stopwords}
            json.dump({**about, "sha256": self.sha256}, file, indent=1)


def read_stopwords(name: str) -> tuple[str, ...]:
    """Stopwords, sorted: a file with one a line, "english" (those that BM25 here leaves out), or "" for none."""
    if not name:
        return ()
    if name == "english":
        try:
            from bm25s.stopwords import STOPWORDS_EN
        except ImportError as error:
            raise InputError("the stopwords 'english' come with the package bm25s; install harp_jax[bm25]") from error
        return tuple(sorted(STOPWORDS_EN))
    if not os.path.isfile(name):
        raise InputError(f"--stopwords={name!r} is no file; give one with a word a line, or 'english'")
    # "don't" stands in a text as two words.
    return tuple(sorted({match.group() for _, line in lines(name) for match in WORD.finditer(line.lower())}))


def count_words(
    texts: Iterable[tuple[str, str]],
    stemmer: str = "",
    min_documents: int = 1,
    max_words: int = 0,
    stopwords: tuple[str, ...] = (),
) -> Words:
    """The vocabulary of (docid, text) pairs: words of at least `min_documents` documents, the `max_words` most frequent.

    `max_words` 0 keeps them all. Raises InputError for negative numbers, and where no word is left.
    """
    if min_documents < 0 or max_words < 0:
        raise InputError(f"min_documents={min_documents}, max_words={max_words}: give 0 or more")
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
            f"no word stands in {min_documents} of {documents} documents; check --docs or lower --min_documents"
        )
    return Words(tuple(kept), tuple(frequency[word] for word in kept), documents, stemmer, stopwords)


def load_words(directory: str) -> Words:
    """A saved vocabulary; InputError where there is none, or another than was saved."""
    path = os.path.join(directory, "words.json")
    if not os.path.isfile(path):
        raise InputError(f"no vocabulary at {directory!r}; make one with python -m harp_jax.text.words")
    try:
        with open(path, encoding="utf-8") as file:
            about = json.load(file)
        rows = [line.split("\t") for _, line in lines(os.path.join(directory, "words.tsv"))]
        kept, frequencies = tuple(r[0] for r in rows), tuple(int(r[1]) for r in rows)
        stopwords = tuple(about.get("stopwords", ()))
        words = Words(kept, frequencies, about["documents"], about["stemmer"], stopwords)
        intact = words.sha256 == about["sha256"]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"{directory}: the vocabulary is damaged ({error}); make it again") from error
    if not intact:
        raise InputError(f"{directory}: words.tsv is not what words.json describes; make the vocabulary again")
    return words


def read_vectors(path: str, words: Words, seed: int = 0) -> tuple[np.ndarray, int]:
    """(vectors [size, dimension] float32, how many words have one) from a word2vec or GloVe text file, streaming.

    Words without a vector get a random one, keyed by (seed, word), as long as the file's are on average; id 0 gets zeros.
    Raises InputError for a line of another length, for numbers that are not finite, for fewer vectors than the header says, and
    where no word has a vector.
    """
    vectors: np.ndarray | None = None
    found = np.zeros(words.size, bool)
    for where, word, numbers in _vector_lines(path):
        index = words.ids.get(word, 0)
        if vectors is not None and not index:
            continue
        try:
            vector = np.asarray(numbers, np.float32)
        except ValueError as error:
            raise InputError(f"{where}: {error}; write 'word number number …'") from error
        if not np.isfinite(vector).all():
            raise InputError(
                f"{where}: the vector of {word!r} holds a number that is not finite; train the vectors again"
            )
        if vectors is None:
            vectors = np.zeros((words.size, len(vector)), np.float32)
        if index:
            vectors[index], found[index] = vector, True
    if vectors is None or not found.any():
        raise InputError(f"no word of the vocabulary has a vector in {path}; stemmed words need vectors of stems")
    scale = float(np.linalg.norm(vectors[found], axis=1).mean()) / vectors.shape[1] ** 0.5
    for index in np.flatnonzero(~found)[1:]:
        draw = generator(seed, "word vector", words.words[index - 1])
        vectors[index] = scale * draw.standard_normal(vectors.shape[1])
    return vectors, int(found.sum())


def _vector_lines(path: str) -> Iterator[tuple[str, str, list[str]]]:
    """(file and line, word, its numbers as text), always as many as word2vec's header or the first line has.

    GloVe has words with blanks in them, so numbers are counted from the end. A word that itself ends in a number is taken
    for a vector that is too long. InputError at the end where the header promised more: the file was cut.
    """
    dimension, given = 0, ""
    promised, found = 0, 0
    for number, line in lines(path):
        parts = line.rstrip().split(" ")
        where = f"{path}, line {number}"
        if parts == [""]:
            continue
        if not dimension:
            header = len(parts) == 2 and all(part.isdecimal() for part in parts)
            dimension, given = (int(parts[1]), "header") if header else (len(parts) - 1, "first line")
            if dimension < 1:
                raise InputError(f"{where}: no numbers; write 'word number number …'")
            if header:
                promised = int(parts[0])
                continue
        word, numbers = parts[:-dimension], parts[-dimension:]
        if not any(word) or (len(word) > 1 and _is_number(word[-1])):
            raise InputError(f"{where}: {len(parts) - 1} numbers, the {given} has {dimension}; write the file again")
        found += 1
        yield where, " ".join(word), numbers
    if found < promised:
        raise InputError(
            f"{path}: {found} vectors, the header says {promised}; fetch or write the file again, or mend its header"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def main(arguments: argparse.Namespace) -> None:
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    texts: Any = progress(docs.texts(), total=len(docs), unit="documents", desc="words")
    stopwords = read_stopwords(arguments.stopwords)
    words = count_words(texts, arguments.stemmer, arguments.min_documents, arguments.max_words, stopwords)
    words.save(arguments.output)
    print(f"{arguments.output}: {len(words.words)} words of {words.documents} documents")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.text.words", description="Word vocabulary of a collection."
    )
    parser.add_argument("--docs", required=True, help="documents: MS MARCO docs.tsv, or JSONL; may be compressed")
    parser.add_argument("--output", required=True, help="directory to write")
    parser.add_argument("--stemmer", default="", help="Snowball stemmer such as english (none)")
    parser.add_argument("--stopwords", default="", help="words left out: english, or a file with one a line (none)")
    parser.add_argument("--min_documents", type=int, default=1, help="documents that a word must stand in (1)")
    parser.add_argument("--max_words", type=int, default=0, help="keep the most frequent words only (0: all)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    return parser


if __name__ == "__main__":
    run(main, arguments_parser())
