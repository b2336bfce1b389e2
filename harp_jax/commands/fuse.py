"""`harp fuse`: combine runs."""

import argparse

from harp_jax.base.cli import Parser
from harp_jax.ranking.fuse import METHODS, NORMALISE, fuse_files


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp fuse",
        description="Combine runs: mean of scores, reciprocal ranks, fitted weights; or join runs of different queries.",
        example="harp fuse bm25.trec harp.trec --method=rrf --output=both.trec",
    )
    parser.add_input("runs", nargs="+", help="TREC runs, or MS MARCO's three columns")
    parser.add_argument("--method", required=True, choices=METHODS, help="how to combine them")
    parser.add_argument(
        "--normalise", default="minmax", choices=NORMALISE, help="scores of a query, before they are added (minmax)"
    )
    parser.add_input("--qrels", default="", help="weights: judgments")
    parser.add_input("--folds", default="", help="weights: qid<TAB>fold; fit for each fold on the others")
    parser.add_argument("--measure", default="nDCG@10", help="weights: what to fit for (nDCG@10)")
    parser.add_output("--output", required=True, help="the TREC run to write")
    return parser


def main(arguments: argparse.Namespace) -> None:
    fuse_files(
        arguments.runs,
        arguments.output,
        arguments.method,
        normalise=arguments.normalise,
        qrels=arguments.qrels,
        folds=arguments.folds,
        measure=arguments.measure,
    )
    print(f"{arguments.output}: {len(arguments.runs)} runs, {arguments.method}")
