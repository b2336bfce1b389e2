"""harp sample-wiki: an invented wiki with questions, for demos and tests."""

import argparse

from data_pipeline.sample.wiki import SampleWiki, write_sample_wiki
from harp_jax.base.cli import Parser, count, positive


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp sample-wiki",
        description="Write a small invented wiki with documents, queries, judgments and folds, for trials and the demo.",
        example="harp sample-wiki --output=wiki --pages=400",
    )
    parser.add_force()
    parser.add_output("--output", required=True, help="directory for the dump and the six text files")
    parser.add_argument("--pages", type=positive, default=400, help="number of articles (400)")
    parser.add_argument("--seed", type=count, default=0, help="random seed; the same seed writes the same bytes (0)")
    parser.add_argument(
        "--uninformative_links", action="store_true", help="make links state random facts, as a control"
    )
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    asked = write_sample_wiki(SampleWiki(a.pages, a.seed, not a.uninformative_links), a.output)
    print(f"{a.pages} articles and {asked} questions in {a.output}")
