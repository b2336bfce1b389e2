"""Trains word vectors with gensim's skip-gram word2vec (extra [vectors]), and reads word2vec and GloVe text files."""

import re
from collections.abc import Iterator

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import lines, replacing
from harp_jax.base.randomness import generator
from harp_jax.corpus.documents import Documents
from harp_jax.text.words import WordVocabulary

NUMBER = re.compile("[0-9]{1,18}")


class Sentences:
    """The documents as lists of words of the vocabulary; each iteration streams them again."""

    def __init__(self, docs: Documents, words: WordVocabulary) -> None:
        self.docs, self.words = docs, words

    def __iter__(self) -> Iterator[list[str]]:
        for _, text in self.docs.texts():
            yield [word for word in self.words.analyser.words(text) if word in self.words.ids]


def train_vectors(
    docs: Documents,
    words: WordVocabulary,
    output: str,
    *,
    dimension: int = 100,
    window: int = 10,
    epochs: int = 5,
    seed: int = 0,
) -> int:
    """Trains vectors for the vocabulary's words, writes them in word2vec's text format and returns their number.

    `window` is in words on either side. Documents stream once per epoch. One worker, so that the seed determines the vectors.
    Raises InputError without gensim, for numbers below 1, and if no document has a word of the vocabulary.
    """
    with needs("training word vectors", "gensim", "vectors"):
        from gensim.models import Word2Vec

    for option, value in (("dimension", dimension), ("window", window), ("epochs", epochs)):
        if value < 1:
            raise InputError(f"--{option}={value}: use 1 or more")
    sentences = Sentences(docs, words)
    if not any(sentences):
        raise InputError(f"no document of {docs.path} has a word of the vocabulary; give the words of these documents")
    model = Word2Vec(
        sentences,
        vector_size=dimension,
        window=window,
        epochs=epochs,
        seed=seed,
        min_count=1,
        sg=1,
        negative=10,
        workers=1,
    )
    with replacing(output) as file:
        file.write(f"{len(model.wv)} {dimension}\n")
        for word in model.wv.index_to_key:
            file.write(" ".join([word, *(f"{x:.6g}" for x in model.wv[word])]) + "\n")
    return len(model.wv)


def read_vectors(path: str, words: WordVocabulary, seed: int = 0) -> tuple[np.ndarray, int]:
    """(vectors [size, dimension] float32, number of words found) from a word2vec or GloVe text file, streaming.

    Words without a vector get a random one, drawn by (seed, word) with the mean norm of the found ones; id 0 gets zeros. Raises
    InputError for lines of different length, numbers that are not finite, fewer vectors than the header says, and if no word
    has a vector.
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
    """(file and line, word, its numbers as text); word2vec's header or the first line sets how many numbers.

    Some GloVe words contain spaces, so numbers are counted from the end; a word that ends in a number is reported as a vector
    that is too long. Raises InputError at the end of a truncated file, with fewer vectors than the header says.
    """
    dimension, given = 0, ""
    promised, found = 0, 0
    for number, line in lines(path):
        parts = line.rstrip().split(" ")
        where = f"{path}, line {number}"
        if parts == [""]:
            continue
        if not dimension:
            header = len(parts) == 2 and all(NUMBER.fullmatch(part) for part in parts)
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
            f"{path}: {found} vectors, the header says {promised}; fetch or write the file again, or correct its header"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
