"""harp survey"""

import argparse

from data_pipeline.site.survey import write_survey
from harp_jax.base.cli import ConfigParser, count, positive
from harp_jax.base.errors import InputError


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp survey",
        description="Read the links of a site: documents, anchor texts, and anchors of held-out pages as test queries.",
        example="harp survey --config=data/site --config.source.format=html --config.source.paths=\"('site/',)\" --output=survey",
    )
    parser.add_output(
        "--output", help="directory for docs.jsonl, anchors.tsv, queries.tsv, qrels.txt, sources.tsv, survey.json"
    )
    parser.add_argument(
        "--max_queries", type=positive, default=300, help="anchor texts that become queries, at most (300)"
    )
    parser.add_argument("--context_words", type=count, default=0, help="words of the anchor's sentence in a query (0)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    if arguments.config is None or not arguments.output:
        raise InputError("--config=FILE.py and --output=DIR are both needed; see configs/data/site.py")
    summary = write_survey(arguments.config, arguments.output, arguments.max_queries, arguments.context_words)
    print(summary["text"])
