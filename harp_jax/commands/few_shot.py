"""`harp few-shot`: fine-tuning on few training queries, several draws of each number."""

import argparse

from harp_jax.base.cli import Parser, positive
from harp_jax.base.errors import InputError
from harp_jax.commands.cross_validate import add_training_options, run_noted, training_options
from harp_jax.commands.queries import integers
from harp_jax.experiments.cross_validation import few_shot_plan
from harp_jax.experiments.query_sets import MOST_DRAWS
from harp_jax.experiments.steps import Collection


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp few-shot",
        description="Fine-tune on few queries, for each size, draw and seed; test all on the same queries in one table.",
        example="harp few-shot --config=finetune --docs=docs.tsv --queries=queries.tsv --qrels=qrels.txt --run=bm25.trec "
        "--test_queries=test.tsv --sizes=5,10,15,20 --draws=10 --set steps=100 --output=few",
    )
    add_training_options(parser)
    parser.add_input("--test_queries", required=True, help="a file whose lines begin with the query ids to report")
    parser.add_input(
        "--train_queries", default="", help="a file whose lines begin with the query ids to draw from (all others)"
    )
    parser.add_argument(
        "--disjoint",
        action="store_true",
        help="leave out training queries that share a relevant document with a test query",
    )
    parser.add_argument("--sizes", default="5,10,15,20", help="training queries (5,10,15,20)")
    parser.add_argument("--draws", type=positive, default=10, help="draws of each size, nested (10)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    if arguments.draws > MOST_DRAWS:
        raise InputError(f"--draws={arguments.draws}: use 1 to {MOST_DRAWS}")
    plan = few_shot_plan(
        Collection(arguments.docs, arguments.queries, arguments.qrels),
        test_queries=arguments.test_queries,
        train_queries=arguments.train_queries,
        disjoint=arguments.disjoint,
        sizes=sorted(integers(arguments.sizes, "sizes", 1)),
        draws=arguments.draws,
        **training_options(arguments),
    )
    run_noted(arguments, plan)
