"""harp survey: documents, anchor texts and held-out anchors of a site."""

import argparse

from data_pipeline.output.survey import WRITTEN, write_survey
from harp_jax.base.cli import ConfigParser, count, positive


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp survey",
        description="Read the links of a site; write its documents, anchor texts, and anchors of held-out pages as test queries.",
        example="harp survey --config=data/site --config.source.paths=\"('site/',)\" --output=survey",
    )
    parser.add_force()
    parser.add_output("--output", required=True, help=f"directory for {', '.join(WRITTEN)}")
    parser.add_argument(
        "--max_queries", type=positive, default=300, help="maximum number of anchor texts to use as queries (300)"
    )
    parser.add_argument("--context_words", type=count, default=0, help="words of its sentence to add to an anchor (0)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    print(write_survey(a.config, a.output, queries=a.max_queries, words=a.context_words)["text"])
