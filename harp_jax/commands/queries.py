"""`harp queries folds`: queries in folds, for tuning and cross-fitting (`corpus/query_sets.py`)."""

import argparse

from harp_jax.base.cli import Parser, positive
from harp_jax.commands.options import add_output
from harp_jax.corpus.query_sets import fold_queries


def arguments_parser() -> Parser:
    parser = Parser(
        description="Write qid<TAB>fold lines; with --qrels no two folds share a relevant document.",
        example="harp queries folds --queries=queries.tsv --qrels=qrels.txt --count=5 --output=folds.tsv",
    )
    parser.add_argument("what", choices=("folds",), help="what to write")
    parser.add_input("--queries", required=True, help="qid<TAB>text, JSONL, a BEIR folder, irds:ID")
    parser.add_input("--qrels", default="", help="judgments: qid 0 docid level, a BEIR split, irds:ID")
    parser.add_argument("--count", type=positive, default=5, help="number of folds (5)")
    add_output(parser, "the file to write")
    return parser


def main(a: argparse.Namespace) -> None:
    folds = fold_queries(a.queries, a.output, a.qrels, a.count)
    print(f"{a.output}: {folds.queries} queries in {a.count} folds, largest group {folds.largest_group}")
