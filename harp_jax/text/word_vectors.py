"""Word vectors trained on a collection: gensim's skip-gram word2vec, written as a text file (extra [vectors]).

    python -m harp_jax.text.word_vectors --docs=docs.tsv --words=words --output=vectors.txt [--dimension=100] [--epochs=5]

Documents stream once an epoch. One worker, so that the same seed gives the same vectors.
"""

import argparse
from collections.abc import Iterator

from harp_jax.cli import run
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.errors import InputError
from harp_jax.files import replacing
from harp_jax.text.words import Words, load_words


class Sentences:
    """The documents as lists of words of the vocabulary; can be read again and again."""

    def __init__(self, docs: Documents, words: Words) -> None:
        self.docs, self.words = docs, words

    def __iter__(self) -> Iterator[list[str]]:
        for _, text in self.docs.texts():
            yield [word for word in self.words.analyser.words(text) if word in self.words.ids]


def main(arguments: argparse.Namespace) -> None:
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise InputError("word vectors need the package gensim; install harp_jax[vectors]") from error

    for option in ("dimension", "window", "epochs"):
        if getattr(arguments, option) < 1:
            raise InputError(f"--{option}={getattr(arguments, option)}: give 1 or more")
    words = load_words(arguments.words)
    sentences = Sentences(Documents.open(arguments.docs, tuple(arguments.fields.split(","))), words)
    if not any(sentences):
        raise InputError(
            f"no document of {arguments.docs} holds a word of {arguments.words}; give the words of these documents"
        )
    model = Word2Vec(
        sentences,
        vector_size=arguments.dimension,
        window=arguments.window,
        epochs=arguments.epochs,
        seed=arguments.seed,
        min_count=1,
        sg=1,
        negative=10,
        workers=1,
    )
    with replacing(arguments.output) as file:
        file.write(f"{len(model.wv)} {arguments.dimension}\n")
        for word in model.wv.index_to_key:
            file.write(" ".join([word, *(f"{x:.6g}" for x in model.wv[word])]) + "\n")
    print(f"{arguments.output}: {len(model.wv)} vectors of {arguments.dimension} numbers")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.text.word_vectors", description="word2vec on a collection."
    )
    parser.add_argument("--docs", required=True, help="documents: MS MARCO docs.tsv, or JSONL; may be compressed")
    parser.add_argument("--words", required=True, help="vocabulary, as harp_jax.text.words writes it")
    parser.add_argument("--output", required=True, help="text file to write")
    parser.add_argument("--dimension", type=int, default=100, help="numbers in a vector (100)")
    parser.add_argument("--window", type=int, default=10, help="words on either side (10)")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the collection (5)")
    parser.add_argument("--seed", type=int, default=0, help="of the initial vectors and the samples (0)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    return parser


if __name__ == "__main__":
    run(main, arguments_parser())
