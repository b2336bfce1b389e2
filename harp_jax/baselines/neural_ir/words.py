"""Whole words: a vocabulary with document frequencies, built from a collection, and word vectors.

A word is a sequence of letters and digits, lower-cased and optionally stemmed; in scripts without spaces a pair of adjacent
letters, as in lexical ranking (`languages.splitter`). Stopwords are removed before stemming and leave no gap, because neural
rankers without an idf weight them like other words. Ids start at 1, most frequent word first; id 0 is padding and unknown words.
Documents stream once; memory is one counter per distinct word (about 200 bytes).
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import check_sums, json_fields, lines, read_json, replacing, write_sums
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import progress
from harp_jax.base.randomness import generator
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.text import languages
from harp_jax.text.languages import HAN_KANA, SOUTH_EAST, UNSPACED_LETTER, splitter

# A run of a script without spaces, or a word.
WORD = re.compile(f"[{HAN_KANA}{SOUTH_EAST}]+|[^\\W_{HAN_KANA}{SOUTH_EAST}]+")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan|inf", re.IGNORECASE)
FILES = ("words.tsv", "words.json")  # of a vocabulary
VECTORS = "vectors.txt"


def _split(text: str) -> Iterator[str]:
    for match in WORD.finditer(text.lower()):
        run = match.group()
        if run.isascii() or not UNSPACED_LETTER.match(run):
            yield run
        else:
            yield from splitter("ja")(run)  # it pairs the letters of all such scripts


@dataclass(frozen=True)
class WordVocabulary:
    """Word i has id i + 1 and occurs in `frequencies[i]` of the collection's `documents`."""

    words: tuple[str, ...]
    frequencies: tuple[int, ...]
    documents: int
    stemmer: str = ""
    stopwords: tuple[str, ...] = ()  # sorted

    @cached_property
    def _stems(self) -> Callable[[list[str]], list[str]]:
        if not self.stemmer:
            return list
        with needs(f"the stemmer {self.stemmer!r}", "PyStemmer", "bm25"):
            import Stemmer
        if self.stemmer not in Stemmer.algorithms():
            known = ", ".join(Stemmer.algorithms())
            raise InputError(f"no stemmer {self.stemmer!r}; choose from {known}, or '' for none")
        return Stemmer.Stemmer(self.stemmer).stemWords

    @cached_property
    def _stopwords(self) -> frozenset[str]:
        return frozenset(self.stopwords)

    def split(self, text: str, limit: int | None = None) -> list[str]:
        """The first `limit` words of a text (default: all), stemmed; the rest of the text is not scanned."""
        return self._stems(list(islice((word for word in _split(text) if word not in self._stopwords), limit)))

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
        """Hash of everything that turns text into ids, and of the frequencies."""
        made_of = (self.words, self.frequencies, self.documents, self.stemmer, self.stopwords)
        return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()

    def encode(self, text: str, limit: int | None = None) -> list[int]:
        """Ids of the first `limit` words; 0 for each word outside the vocabulary."""
        ids = self.ids
        return [ids.get(word, 0) for word in self.split(text, limit)]

    def encode_prefixes(self, texts: list[str], limit: int) -> list[list[int]]:
        """As `Tokenizer.encode_prefixes`."""
        return [self.encode(text, limit) for text in texts]

    def save(self, directory: str) -> None:
        """Writes words.tsv (word, number of documents with it) and words.json, bound by SHA256SUMS."""
        with replacing(os.path.join(directory, "words.tsv")) as file:
            file.writelines(f"{word}\t{count}\n" for word, count in zip(self.words, self.frequencies))
        with replacing(os.path.join(directory, "words.json")) as file:
            about = {"documents": self.documents, "stemmer": self.stemmer, "stopwords": self.stopwords}
            json.dump(about, file, indent=1)
        write_sums(directory, FILES)


def read_stopwords(name: str) -> tuple[str, ...]:
    """Stopwords, sorted: of a file with one per line, "english" (those of our BM25), "inquery", or "" for none."""
    if not name:
        return ()
    if name == "english":
        return tuple(languages.lexical_stopwords(languages.ENGLISH))
    # Texts split "don't" into two words, so the lines are split too.
    texts = (line.partition("#")[0] for _, line in lines(languages.stopwords_file(name)))
    return tuple(sorted({word for text in texts for word in _split(text)}))


def count_words(
    texts: Iterable[tuple[str, str]],
    stemmer: str = "",
    min_documents: int = 1,
    max_words: int = 0,
    stopwords: tuple[str, ...] = (),
) -> WordVocabulary:
    """The vocabulary of (docid, text) pairs: words in at least `min_documents` documents, the `max_words` most frequent.
    `max_words` 0 keeps all. InputError if no word is left."""
    empty, documents = WordVocabulary((), (), 0, stemmer, stopwords), 0
    total, frequency = Counter[str](), Counter[str]()
    for _, text in texts:
        counts = Counter(empty.split(text))
        total.update(counts)
        frequency.update(counts.keys())
        documents += 1
    kept = sorted((word for word in total if frequency[word] >= min_documents), key=lambda word: (-total[word], word))
    kept = kept[: max_words or None]
    if not kept:
        wrong = f"no word occurs in {min_documents} of {documents} documents"
        raise InputError(f"{wrong}; check --docs or lower --min_documents")
    return WordVocabulary(tuple(kept), tuple(frequency[word] for word in kept), documents, stemmer, stopwords)


def load_words(directory: str) -> WordVocabulary:
    """A saved vocabulary; InputError if there is none, or if it was changed after it was saved."""
    check_sums(directory, FILES)
    about_path, words_path = (os.path.join(directory, name) for name in ("words.json", "words.tsv"))
    if not (os.path.exists(about_path) and os.path.exists(words_path)):
        raise InputError(f"no vocabulary at {directory!r}; make one with `harp words`")
    with json_fields(about_path, "make the vocabulary again"):
        about = read_json(about_path)
        rows = [line.split("\t") for _, line in lines(words_path)]
        words, frequencies = zip(*((word, int(count)) for word, count in rows))
        return WordVocabulary(words, frequencies, about["documents"], about["stemmer"], tuple(about["stopwords"]))


class Sentences:
    """The documents as lists of words of the vocabulary; each iteration streams them again."""

    def __init__(self, docs: Documents, words: WordVocabulary) -> None:
        self.docs, self.words = docs, words

    def __iter__(self) -> Iterator[list[str]]:
        for _, text in self.docs.texts():
            yield [word for word in self.words.split(text) if word in self.words.ids]


def train_vectors(docs: Documents, words: WordVocabulary, output: str, dimension: int, epochs: int) -> int:
    """Trains vectors for the vocabulary's words, writes them in word2vec's text format and returns their number. Documents stream
    once per epoch. One worker, so that the seed determines the vectors. InputError without gensim (extra [vectors]), and if no
    document has a word of the vocabulary."""
    with needs("training word vectors", "gensim", "vectors"):
        from gensim.models import Word2Vec

    sentences = Sentences(docs, words)
    if not any(sentences):
        raise InputError(f"no document of {docs.path} has a word of the vocabulary; use one made from these documents")
    model = Word2Vec(
        sentences, vector_size=dimension, window=10, epochs=epochs, seed=0, min_count=1, sg=1, negative=10, workers=1
    )  # fmt: skip
    with replacing(output) as file:
        file.write(f"{len(model.wv)} {dimension}\n")
        for word in model.wv.index_to_key:
            file.write(" ".join([word, *(f"{x:.6g}" for x in model.wv[word])]) + "\n")
    return len(model.wv)


@dataclass(frozen=True)
class Counted:
    """The numbers of words, of documents, and of vectors (0: none were trained)."""

    words: int
    documents: int
    vectors: int


@once
def write_words(
    docs: InputPath,
    output: str,
    fields: tuple[str, ...] = FIELDS,
    stemmer: str = "",
    stopwords: InputPath = "",
    min_documents: int = 1,
    max_words: int = 0,
    dimension: int = 100,
    epochs: int = 5,
) -> Counted:
    """Writes the vocabulary of documents (`count_words`), and `OUTPUT/vectors.txt`, trained on them for `epochs` (0: none)."""
    texts = Documents.open(docs, fields)
    bar = progress(texts.texts(), total=len(texts), unit="documents", desc="words")
    words = count_words(bar, stemmer, min_documents, max_words, read_stopwords(stopwords))
    words.save(output)
    path = os.path.join(output, VECTORS)
    vectors = train_vectors(texts, words, path, dimension, epochs) if epochs else 0
    return Counted(len(words.words), words.documents, vectors)


def read_vectors(path: str, words: WordVocabulary, seed: int = 0) -> tuple[np.ndarray, int]:
    """(vectors [size, dimension] float32, number of words found) from a word2vec or GloVe text file, streaming. Words without a
    vector get a random one, drawn by (seed, word) with the mean norm of the found ones; id 0 gets zeros. InputError for malformed
    lines, fewer vectors than word2vec's header says, and if no word has a vector."""
    vectors, known = np.zeros((0, 0), np.float32), np.zeros(words.size, bool)
    dimension, first, promised, read = 0, "first line", 0, 0
    for number, line in lines(path):
        parts = line.rstrip().split(" ")
        if parts == [""]:
            continue

        # word2vec's header, or the first vector, sets the dimension.
        if not dimension and len(parts) == 2 and all(part.isdecimal() and len(part) < 19 for part in parts):
            (promised, dimension), first = map(int, parts), "header"
            continue
        dimension = dimension or len(parts) - 1

        # Some GloVe words contain spaces, so numbers are counted from the end; a word that ends in a number has too many of them.
        name, numbers = parts[:-dimension], parts[len(parts) - dimension :]
        if not any(name) or (len(name) > 1 and NUMBER.fullmatch(name[-1])):
            wrong = f"{len(parts) - 1} numbers, but the {first} has {dimension}; write 'word number number …'"
            raise InputError(f"{path}, line {number}: {wrong}")
        read += 1
        index = words.ids.get(" ".join(name), 0)
        if index or not vectors.size:
            try:
                vector = np.asarray(numbers, np.float32)
            except ValueError:
                vector = np.full(dimension, np.nan, np.float32)
            if not np.isfinite(vector).all():
                wrong = f"the vector of {' '.join(name)!r} has non-finite numbers; train the vectors again"
                raise InputError(f"{path}, line {number}: {wrong}")
            vectors = vectors if vectors.size else np.zeros((words.size, dimension), np.float32)
            if index:
                vectors[index], known[index] = vector, True
    if read < promised:
        wrong = f"{path} has {read} vectors, but the header says {promised}"
        raise InputError(f"{wrong}; fetch or write the file again, or correct its header")
    if not known.any():
        raise InputError(f"no word of the vocabulary has a vector in {path}; stemmed words need vectors of stems")

    scale = float(np.linalg.norm(vectors[known], axis=1).mean()) / vectors.shape[1] ** 0.5
    for index in np.flatnonzero(~known)[1:]:
        draw = generator(seed, "word vector", words.words[index - 1])
        vectors[index] = scale * draw.standard_normal(vectors.shape[1])
    return vectors, int(known.sum())
