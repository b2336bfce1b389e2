"""`harp labels`: labels as queries and judgments."""

import argparse

from harp_jax.base.cli import Parser
from harp_jax.corpus.labels import write_collection


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp labels",
        description="Write labels, lines of query<TAB>docid<TAB>level, as queries.tsv and qrels.txt. Queries without a relevant "
        "document are left out.",
        example="harp labels labels.tsv --output=labels",
    )
    parser.add_argument("labels", help="the file of labels; the level may be absent (1)")
    parser.add_output("--output", required=True, help="directory for queries.tsv and qrels.txt")
    return parser


def main(arguments: argparse.Namespace) -> None:
    queries, labels = write_collection(arguments.labels, arguments.output)
    print(f"{arguments.output}: {queries} queries with {labels} labels")
