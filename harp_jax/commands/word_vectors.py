"""`harp word-vectors`: word2vec vectors of a collection, for the neural rankers."""

import argparse

from harp_jax.base.cli import Parser, count, positive
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.text.word_vectors import train_vectors
from harp_jax.text.words import load_words


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp word-vectors",
        description="Train word2vec vectors of a vocabulary's words on a collection.",
        example="harp word-vectors --docs=docs.tsv --words=words --dimension=100 --epochs=5 --output=vectors.txt",
    )
    parser.add_input("--docs", required=True, help="documents: MS MARCO docs.tsv, JSONL, a folder of either")
    parser.add_input("--words", required=True, help="vocabulary: a directory written by harp words")
    parser.add_output("--output", required=True, help="text file to write")
    parser.add_argument("--dimension", type=positive, default=100, help="numbers in a vector (100)")
    parser.add_argument("--window", type=positive, default=10, help="context words on either side (10)")
    parser.add_argument("--epochs", type=positive, default=5, help="passes over the collection (5)")
    parser.add_argument("--seed", type=count, default=0, help="of the initial vectors and the samples (0)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    words = load_words(arguments.words)
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    count = train_vectors(
        docs,
        words,
        arguments.output,
        dimension=arguments.dimension,
        window=arguments.window,
        epochs=arguments.epochs,
        seed=arguments.seed,
    )
    print(f"{arguments.output}: {count} vectors of {arguments.dimension} numbers")
