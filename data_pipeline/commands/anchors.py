"""harp anchors: what other pages call each page, with counts."""

import argparse

from data_pipeline.output.collection import write_anchors
from harp_jax.base.cli import ConfigParser


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp anchors",
        description="Write the anchor texts of every page with their counts, for harp first-stage --anchors.",
        example="harp anchors --config=data/linked_jsonl --config.source.paths=\"('pages.jsonl',)\" "
        "--config.min_article_words=0 --output=anchors.tsv",
    )
    parser.add_force()
    parser.add_output("--output", required=True, help="the file to write: docid<TAB>anchor text<TAB>count")
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    found = write_anchors(a.config, a.output)
    print(f"{a.output}: {found.lines} anchor texts of {found.documents} documents, from {found.links} links")
    if found.dropped:
        print("left out: " + ", ".join(f"{reason} {n}" for reason, n in found.dropped.items()))
