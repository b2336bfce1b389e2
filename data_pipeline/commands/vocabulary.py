"""harp vocabulary: train a vocabulary, WordPiece or Unigram."""

import argparse

from data_pipeline.output.vocabulary import KINDS, write_vocabulary
from harp_jax.base.cli import ConfigParser, positive


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp vocabulary",
        description="Train an uncased WordPiece or Unigram vocabulary from the documents that a generation config reads.",
        example="harp vocabulary --config=data/html --config.source.paths=\"('site/',)\" --output=vocabulary",
    )
    parser.add_output(
        "--output", required=True, help="directory for tokenizer.json, tokenizer_config.json and vocab.txt (WordPiece)"
    )
    parser.add_argument(
        "--kind",
        default="auto",
        choices=("auto", *KINDS),
        help="type of vocabulary; auto: unigram for languages without spaces between words, else wordpiece (auto)",
    )
    parser.add_argument(
        "--size", type=positive, default=8000, help="number of tokens, with the five special ones (8000)"
    )
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    made = write_vocabulary(a.config, a.output, a.kind, a.size)
    print(f"vocabulary: {made.kind}, language {made.language} ({made.language_from})")
    print(f"{a.output}: {made.tokens} tokens, sha256 {made.sha256}")
