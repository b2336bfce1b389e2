"""`harp evaluate`, `harp report`: evaluate runs as a table and as a page."""

import argparse
import os
import sys

from harp_jax.base.cli import Parser
from harp_jax.commands.options import add_table, named, names
from harp_jax.corpus.documents import FIELDS
from harp_jax.evaluation.report import Evaluation, Page, report_files


def arguments_parser() -> Parser:
    parser = Parser(
        description="Evaluate runs against judgments.",
        example='harp evaluate --qrels=qrels.txt bm25.trec "HARP=s0.trec,s1.trec" --measures="RR@10 AP" --baseline=bm25',
    )
    what = "TREC runs, or MS MARCO's three-column format; NAME=RUN[,RUN…] names a system and its runs, one per seed"
    parser.add_input("runs", nargs="+", help=what)
    add_table(parser)
    what = "text, or json with the values per query"
    parser.add_argument("--format", default="text", choices=("json", "text"), help=what)
    return parser


def evaluation(a: argparse.Namespace, runs: dict[str, list[str]]) -> Evaluation:
    """The options that `harp evaluate` and `harp report` share."""
    blank = named(a.blank, "--blank")
    return Evaluation(
        a.qrels, runs, a.queries, a.folds, a.fold, a.measures, a.baseline, a.confirm, a.chance, blank, a.oracle
    )  # fmt: skip


def main(a: argparse.Namespace) -> None:
    table = evaluation(a, name_runs(a.runs)).table()
    for note in table.notes():
        print(f"note: {note}", file=sys.stderr)
    print(table.json() if a.format == "json" else table)


def name_runs(arguments: list[str]) -> dict[str, list[str]]:
    """Name → paths, from NAME=PATH,PATH,… or from a path alone: the file's name without its suffix, or if that is not unique the
    whole path."""
    alone = [a for a in arguments if os.path.exists(a) or "=" not in a]
    short = [os.path.basename(path).removesuffix(".gz").rsplit(".", 1)[0] for path in alone]
    name_of = {path: path if short.count(name) > 1 else name for name, path in zip(short, alone)}
    runs = named(arguments, "run", name_of.__getitem__)
    return {name: [path] if path in name_of or os.path.exists(path) else path.split(",") for name, path in runs.items()}


def report_parser() -> Parser:
    parser = Parser(
        description="Write a report on runs as one self-contained HTML page: a verdict, the table, curves, wins and losses.",
        example="harp report --qrels=qrels.txt --run=BM25=bm25.trec --run=HARP=harp.trec --chance=BM25 --curves=HARP=runs/harp "
        "--output=report.html",
    )
    add_table(parser)
    what = "run with its name, or the runs of several seeds; repeatable"
    parser.add_input("--run", action="append", required=True, help=what, metavar="NAME=RUN[,RUN…]")
    parser.add_argument("--focus", default="", metavar="NAME", help="run that the headline is about (the last)")
    what = "training workdir with its name; repeatable"
    parser.add_input("--curves", action="append", default=[], help=what, metavar="NAME=DIR")
    parser.add_input("--docs", default="", help="documents, for the texts of wins and losses")
    parser.add_argument("--fields", type=names, default=FIELDS, help="document fields to quote (title,url,body)")
    parser.add_argument("--query_texts", default="", help="file with the query texts (--queries, if it has them)")
    parser.add_argument("--title", default="Re-ranking", help="title of the page (Re-ranking)")
    parser.add_output("--output", required=True, help="the HTML page to write")
    return parser


def report(a: argparse.Namespace) -> None:
    page = Page(a.title, a.focus, (), named(a.curves, "--curves"), a.docs, a.fields, a.query_texts)
    print(report_files(evaluation(a, name_runs(a.run)), page, a.output))
    print(f"report: {a.output}")
