"""`harp words`: the word vocabulary of a collection and word2vec vectors, for the neural rankers."""

import argparse
import os

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.progress import progress
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.text.words import count_words, read_stopwords, train_vectors


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp words",
        description="Count the words of a collection and save their vocabulary, with --vectors word2vec vectors trained on it too.",
        example="harp words --docs=docs.tsv --stemmer=english --stopwords=english --min_documents=2 --vectors --output=words",
    )
    parser.add_input("--docs", required=True, help="documents: MS MARCO docs.tsv, JSONL, a folder of either")
    parser.add_output("--output", required=True, help="directory to write")
    parser.add_argument("--stemmer", default="", help="Snowball stemmer such as english (none)")
    parser.add_argument("--stopwords", default="", help="words to leave out: english, or a file with one a line (none)")
    parser.add_argument("--min_documents", type=positive, default=1, help="documents that a word must occur in (1)")
    parser.add_argument("--max_words", type=count, default=0, help="keep only the most frequent words (0: all)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    parser.add_argument("--vectors", action="store_true", help="also train word2vec vectors: OUTPUT/vectors.txt")
    parser.add_argument("--dimension", type=positive, default=100, help="numbers in a vector (100)")
    parser.add_argument("--window", type=positive, default=10, help="context words on either side (10)")
    parser.add_argument("--epochs", type=positive, default=5, help="passes over the collection (5)")
    parser.add_argument("--seed", type=count, default=0, help="of the initial vectors and the samples (0)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    words = count_words(
        progress(docs.texts(), total=len(docs), unit="documents", desc="words"),
        arguments.stemmer,
        arguments.min_documents,
        arguments.max_words,
        read_stopwords(arguments.stopwords),
    )
    words.save(arguments.output)
    print(f"{arguments.output}: {len(words.words)} words of {words.documents} documents")
    if arguments.vectors:
        output = os.path.join(arguments.output, "vectors.txt")
        training = {name: getattr(arguments, name) for name in ("dimension", "window", "epochs", "seed")}
        number = train_vectors(docs, words, output, **training)
        print(f"{output}: {number} vectors of {arguments.dimension} numbers")
