"""harp sample-wiki"""

import argparse

from data_pipeline.sample import wiki
from harp_jax.base.cli import Parser, count, positive


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp sample-wiki",
        description="Write a small invented wiki with documents, queries, judgments and folds; for trials and the demo.",
        example="harp sample-wiki --output=wiki --pages=400",
    )
    parser.add_output("--output", required=True, help="directory for the dump and the six text files")
    parser.add_argument("--pages", type=positive, default=400, help="articles (400)")
    parser.add_argument("--seed", type=count, default=0, help="the same seed writes the same bytes (0)")
    parser.add_argument(
        "--uninformative_links", action="store_true", help="the control: links tell nothing true about their pages"
    )
    return parser


def main(arguments: argparse.Namespace) -> None:
    asked = wiki.write(arguments.output, arguments.pages, arguments.seed, not arguments.uninformative_links)
    print(f"{arguments.pages} articles and {asked} questions in {arguments.output}")
