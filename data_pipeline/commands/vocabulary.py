"""harp vocabulary"""

import argparse
import os
from functools import partial

from data_pipeline.config import plain_source
from data_pipeline.sources.formats import paragraphs
from data_pipeline.text.vocabulary import train
from harp_jax.base.cli import ConfigParser, positive
from harp_jax.base.errors import InputError


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp vocabulary",
        description="Train an uncased WordPiece vocabulary from the documents that a generation config reads.",
        example="harp vocabulary --config=data/html --config.source.paths=\"('site/',)\" --output=vocabulary",
    )
    parser.add_output("--output", help="directory for vocab.txt, tokenizer.json and tokenizer_config.json")
    parser.add_argument("--size", type=positive, default=8000, help="tokens, the five special ones included (8000)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    if arguments.config is None or not arguments.output:
        raise InputError("--config=FILE.py and --output=DIR are both needed; see configs/data/")
    if os.path.exists(os.path.join(arguments.output, "config.json")):
        raise InputError(
            f"{arguments.output} holds a model, whose vocabulary would be replaced; choose another directory"
        )
    tokenizer = train(partial(paragraphs, plain_source(arguments.config)), arguments.size)
    tokenizer.save(arguments.output)
    print(f"{arguments.output}: {tokenizer.size} tokens, sha256 {tokenizer.sha256}")
