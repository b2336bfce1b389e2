"""`harp tune-first-stage`: tune BM25, BM25F or query likelihood on judged queries."""

import argparse

from harp_jax.base.cli import Parser
from harp_jax.base.errors import InputError
from harp_jax.commands.first_stage import add_collection_arguments, candidates_of
from harp_jax.ranking.tune_first_stage import GRIDS, tune_files


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp tune-first-stage",
        description="Tune the parameters of BM25, BM25F or query likelihood by grid search on judged queries.",
        example="harp tune-first-stage --docs=docs.tsv --queries=train.tsv --qrels=qrels.txt --output=bm25.json",
    )
    add_collection_arguments(parser)
    parser.add_input("--qrels", required=True, help="judgments of the training queries")
    parser.add_argument("--measure", default="nDCG@10", help="what to tune for, as ir-measures names it (nDCG@10)")
    parser.add_input("--folds", default="", help="qid<TAB>fold: choose for each fold on the others")
    for field, tried in {field: tried for grid in GRIDS.values() for field, tried in grid.items()}.items():
        models = ", ".join(model for model, grid in GRIDS.items() if field in grid)
        values = ",".join(f"{value:g}" for value in tried)
        parser.add_argument(f"--{field}", default="", help=f"{models}: values to try ({values}, and beyond)")
    parser.add_output("--output", required=True, help="the parameters, as JSON for harp first-stage --parameters")
    return parser


def main(arguments: argparse.Namespace) -> None:
    given = {field: getattr(arguments, field) for grid in GRIDS.values() for field in grid}
    found = tune_files(
        candidates_of(arguments),
        queries=arguments.queries,
        qrels=arguments.qrels,
        output=arguments.output,
        model=arguments.model,
        measure=arguments.measure,
        axes={field: numbers(field, text) for field, text in given.items() if text},
        run=arguments.run,
        folds=arguments.folds,
    )
    best = found.get("parameters") or found["folds"]
    settings, queries = len(found["grid"]), found["queries"]
    print(f"{arguments.output}: best {found['measure']} over {settings} settings and {queries} queries: {best}")


def numbers(field: str, text: str) -> tuple[float, ...]:
    """The values of an option such as --k1=0.6,0.9."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--{field}={text}: write numbers separated by commas, as in 0.6,0.9,1.2") from None
