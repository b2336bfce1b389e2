"""`harp report`: a table of runs and training curves as one HTML page."""

import argparse

from harp_jax.cli import Parser
from harp_jax.commands.evaluate import add_floors, named
from harp_jax.corpus.folds import read_subset
from harp_jax.corpus.trec import read_qrels, read_run
from harp_jax.evaluation.evaluate import MEASURES
from harp_jax.experiments.report import report
from harp_jax.files import replacing


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp report",
        description="Write measures of runs and training curves as one self-contained HTML page.",
        example="harp report --qrels=qrels.txt --run=BM25=bm25.trec --run=HARP=harp.trec --curves=HARP=runs/harp "
        "--output=report.html",
    )
    parser.add_argument("--qrels", required=True, help="judgments: qid 0 docid level")
    parser.add_argument("--queries", default="", help="a file whose lines begin with the query ids to evaluate (all)")
    parser.add_argument("--measures", default=MEASURES, help=f'names as in ir-measures ("{MEASURES}")')
    parser.add_argument(
        "--run", action="append", default=[], help="a run and its name; several times", metavar="NAME=RUN"
    )
    parser.add_argument(
        "--curves",
        action="append",
        default=[],
        help="a training workdir and its name; several times",
        metavar="NAME=DIR",
    )
    add_floors(parser)
    parser.add_argument("--remark", action="append", default=[], help="a line to print below the table; several times")
    parser.add_argument("--title", default="Re-ranking", help="of the page (Re-ranking)")
    parser.add_argument("--output", required=True, help="the HTML page to write")
    return parser


def main(arguments: argparse.Namespace) -> None:
    qrels = read_subset(read_qrels(arguments.qrels), arguments.queries)
    runs = {name: read_run(path) for name, path in named(arguments.run, "--run").items()}
    page, table, remarks = report(
        qrels,
        runs,
        arguments.measures,
        named(arguments.curves, "--curves"),
        arguments.title,
        arguments.remark,
        chance=arguments.chance,
        blank=named(arguments.blank, "--blank", "ROW"),
    )
    with replacing(arguments.output) as file:
        file.write(page)
    print(table)
    for remark in remarks:
        print(remark)
    print(f"report: {arguments.output}")
