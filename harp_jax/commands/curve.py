"""`harp curve`: a measure against the number of training queries."""

import argparse

from harp_jax.base.cli import Parser, positive
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.commands.evaluate import named
from harp_jax.corpus.folds import read_subset
from harp_jax.corpus.trec import read_qrels, read_run


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp curve",
        description="Draw a measure against the number of training queries, a line for each system, and print the points.",
        example="harp curve BM25=bm25.trec HARP@10=d0.trec,d1.trec HARP@50=e0.trec,e1.trec --qrels=qrels.txt "
        "--output=curve.svg",
    )
    parser.add_input("runs", nargs="+", help="SYSTEM@SIZE=RUN[,RUN…], one run a draw and seed; SYSTEM=RUN: a line")
    parser.add_input("--qrels", required=True, help="judgments: qid 0 docid level")
    parser.add_input("--folds", default="", help="qid<TAB>fold, with --fold: evaluate the queries of some folds")
    parser.add_argument("--fold", default="", help="folds of --folds, separated by commas")
    parser.add_argument("--measure", default="RR@10", help="what is drawn, as ir-measures names it (RR@10)")
    parser.add_argument(
        "--runs_per_draw", type=positive, default=1, help="consecutive runs that share a draw of queries (1)"
    )
    parser.add_argument("--title", default="", help="of the picture")
    parser.add_output("--output", required=True, help="the picture to write, SVG")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.experiments.curve import as_svg, as_text, number, points

    if bool(arguments.folds) != bool(arguments.fold):
        raise InputError("--folds and --fold belong together; give both or neither")
    systems = {}
    for name, paths in named(arguments.runs, "run", "RUN").items():
        system, at, size = name.partition("@")
        if at:
            number(size)
        if not name.isprintable():
            raise InputError(f"{name!r} has characters that cannot be drawn; choose another name")
        systems[system, size] = [read_run(path) for path in paths.split(",")]
    folds = arguments.fold.split(",") if arguments.fold else []
    qrels = read_subset(read_qrels(arguments.qrels), "", arguments.folds, folds)
    found = points(qrels, systems, arguments.measure, arguments.runs_per_draw)
    picture = as_svg(found, arguments.measure, arguments.title)
    with replacing(arguments.output) as file:
        file.write(picture)
    print(as_text(found, arguments.measure))
    print(f"curve: {arguments.output}")
