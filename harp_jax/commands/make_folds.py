"""`harp make-folds`: folds of queries for cross-validation."""

import argparse

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.files import replacing
from harp_jax.corpus.trec import read_qrels, read_queries
from harp_jax.experiments.make_folds import connected, make_folds


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp make-folds",
        description="Divide queries into folds that share no relevant document.",
        example="harp make-folds --queries=queries.tsv --qrels=qrels.txt --count=5 --output=folds.tsv",
    )
    parser.add_input("--queries", required=True, help="queries: qid<TAB>text, or JSONL")
    parser.add_input("--qrels", default="", help="judgments: keep queries together that share a relevant document")
    parser.add_argument("--count", type=positive, default=5, help="folds (5)")
    parser.add_argument("--seed", type=count, default=0, help="of the order (0)")
    parser.add_output("--output", required=True, help="file to write: qid<TAB>fold")
    return parser


def main(arguments: argparse.Namespace) -> None:
    queries = list(read_queries(arguments.queries))
    groups = connected(queries, read_qrels(arguments.qrels)) if arguments.qrels else [[qid] for qid in queries]
    folds = make_folds(groups, arguments.count, arguments.seed)
    with replacing(arguments.output) as file:
        file.writelines(f"{qid}\t{folds[qid]}\n" for qid in queries)
    largest = max(map(len, groups))
    print(f"{arguments.output}: {len(queries)} queries in {arguments.count} folds, largest group {largest}")
