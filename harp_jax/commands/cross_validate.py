"""`harp cross-validate`: k-fold cross-validation of a fine-tuning config."""

import argparse
from typing import Any

from harp_jax.base.cli import Parser, positive
from harp_jax.base.errors import InputError
from harp_jax.commands.queries import integers
from harp_jax.commands.rerank import arguments_parser as rerank_parser
from harp_jax.config import read_config
from harp_jax.evaluation.evaluate import MEASURES
from harp_jax.evaluation.measures import parse_measures
from harp_jax.experiments.cross_validation import cross_validation_plan
from harp_jax.experiments.execution import run_plan
from harp_jax.experiments.plan import Command, check_braces
from harp_jax.experiments.steps import Collection


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp cross-validate",
        description="Fine-tune on all folds but one and re-rank that one, for each fold and seed; compare with the first stage.",
        example="harp cross-validate --config=finetune --docs=docs.tsv --queries=queries.tsv --qrels=qrels.txt "
        "--run=bm25.trec --folds=folds.tsv --seeds=0,1,2 --set init=runs/harp --output=cv",
    )
    add_training_options(parser)
    parser.add_input("--folds", required=True, help="qid<TAB>fold")
    return parser


def add_training_options(parser: Parser) -> None:
    """The options of all experiments that fine-tune one config several times."""
    parser.add_argument("--config", required=True, help="fine-tuning config, or its name below configs/")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="a field of the config; several times"
    )
    parser.add_argument(
        "--rerank", action="append", default=[], metavar="OPTION=VALUE", help="an option of harp rerank; several times"
    )
    parser.add_input("--docs", required=True, help="documents: MS MARCO docs.tsv, JSONL, a folder of either")
    parser.add_input("--queries", required=True, help="training and test queries: qid<TAB>text, or JSONL")
    parser.add_input("--qrels", required=True, help="judgments of both")
    parser.add_input("--run", required=True, help="candidates of both: for negatives, and to re-rank")
    parser.add_argument("--seeds", default="0", help="seeds of the trainings, separated by commas (0)")
    parser.add_argument("--name", default="fine_tuned", help="of the system, in the table (fine_tuned)")
    parser.add_argument(
        "--blank", action="store_true", help="re-rank a second time without the queries, and compare with that too"
    )
    parser.add_argument("--measures", default=MEASURES, help=f'names as in ir-measures ("{MEASURES}")')
    parser.add_output("--output", required=True, help="directory that receives everything")
    parser.add_argument(
        "--jobs", type=positive, default=1, help="commands at a time, each on its share of the cores (1)"
    )
    parser.add_argument("--dry_run", action="store_true", help="print the commands and which are done; run nothing")


def training_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of the plans of `experiments` from these options."""
    named = ("docs", "queries", "qrels", "run", "folds", "train_queries", "test_queries", "name", "output", "measures")
    check_braces({name: getattr(arguments, name, None) for name in named})
    for setting in (*arguments.set, *arguments.rerank):
        if "=" not in setting:
            raise InputError(f"{setting!r}: write FIELD=VALUE")
    # As the commands will read them, so that a slip is said before the first runs.
    read_config(arguments.config, [f"--config.{setting}" for setting in arguments.set])
    known = vars(rerank_parser().parse_args([f"--{name}=x" for name in ("model", "docs", "queries", "run", "output")]))
    for setting in arguments.rerank:
        if setting.partition("=")[0].replace("-", "_") not in known:
            raise InputError(f"--rerank {setting}: harp rerank has no such option; see its --help")
    parse_measures(arguments.measures)
    return {
        "config": arguments.config,
        "candidates": arguments.run,
        "output": arguments.output,
        "seeds": integers(arguments.seeds, "seeds", 0),
        "settings": arguments.set,
        "rerank": arguments.rerank,
        "name": arguments.name,
        "blank": arguments.blank,
        "measures": arguments.measures,
    }


def run_noted(arguments: argparse.Namespace, plan: tuple[list[Command], list[str]]) -> None:
    """Prints a plan's notes and runs it."""
    commands, notes = plan
    for note in notes:
        print(f"note: {note}")
    run_plan(commands, arguments.output, arguments.jobs, arguments.dry_run)


def main(arguments: argparse.Namespace) -> None:
    collection = Collection(arguments.docs, arguments.queries, arguments.qrels)
    run_noted(arguments, cross_validation_plan(collection, folds=arguments.folds, **training_options(arguments)))
