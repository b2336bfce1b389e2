"""`harp evaluate`, `harp report`: runs as a table and as a page; `harp compare`: BM25 and re-rankers on a judged collection;
`harp queries folds`: queries in folds, for tuning and cross-fitting."""

import argparse
import os
import sys
from dataclasses import replace

from harp_jax.base.cli import Parser, positive
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import as_stored, check_outside
from harp_jax.commands.options import add_computation, add_fields, add_language, add_table
from harp_jax.corpus.paths import is_irds, named_paths
from harp_jax.corpus.query_sets import fold_queries
from harp_jax.evaluation.report import Evaluation, Page, report_files
from harp_jax.ranking.options import Reranking


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
    blank = named_paths(a.blank, "--blank")
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
    runs = named_paths(arguments, "run", name_of.__getitem__)
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
    parser.add_argument("--focus", metavar="NAME", help="run that the headline is about (the last)")
    what = "training workdir with its name; repeatable"
    parser.add_input("--curves", action="append", default=[], help=what, metavar="NAME=DIR")
    parser.add_input("--docs", help="documents, for the texts of wins and losses")
    add_fields(parser, "quote")
    parser.add_argument("--query_texts", help="file with the query texts (--queries, if it has them)")
    parser.add_parameter(Page, "title", "title of the page")
    parser.add_output("--output", required=True, help="the HTML page to write")
    return parser


def report(a: argparse.Namespace) -> None:
    page = Page(a.title, a.focus, (), named_paths(a.curves, "--curves"), a.docs, a.fields, a.query_texts)
    print(report_files(evaluation(a, name_runs(a.run)), page, a.output))
    print(f"report: {a.output}")


def compare_parser() -> Parser:
    parser = Parser(
        description="Compare re-rankers with BM25 on a judged collection: table, intervals, Holm's p, wins and losses with "
        "texts, as a report.\nIf interrupted, repeat the command to resume.",
        example="harp compare scifact --model=ranker --k=100 --tune --fuse --output=out\n"
        "  harp compare irds:vaswani --model=ours=ranker --model=theirs=cross-encoder/ms-marco-MiniLM-L6-v2 --output=out",
    )
    what = "BEIR folder, folder with docs, queries and qrels, or irds:ID"
    parser.add_argument("collection", metavar="COLLECTION", nargs="?", default="", help=what)
    what = "cross-encoder: export, Hugging Face directory, training workdir, or USER/NAME on the Hub; repeatable"
    parser.add_argument("--model", action="append", required=True, metavar="[NAME=]DIR", help=what)
    parser.add_recorded_output("directory for all output")
    parser.add_input("--docs", help="documents to use instead of those of COLLECTION")
    parser.add_input("--queries", help="queries to use instead of those of COLLECTION")
    parser.add_input("--qrels", help="judgments to use instead of those of COLLECTION")
    parser.add_input("--run", help="candidates to re-rank (BM25's best)")
    add_fields(parser)
    parser.add_argument("--k", type=positive, default=100, help="candidates per query (100)")
    add_computation(parser)
    add_language(parser)
    parser.add_argument("--tune", action="store_true", help="fit BM25's k1 and b to the judged queries, cross-fitted")
    parser.add_argument("--fuse", action="store_true", help="also rank by BM25 plus each model, weights cross-fitted")
    what = 'measures, as named by ir-measures; the first decides ("nDCG@10 RR@10 AP R@100")'
    parser.add_argument("--measures", help=what)
    return parser


def compare(a: argparse.Namespace) -> None:
    from harp_jax.checkpoints.export import fetched  # loads JAX, as do the others
    from harp_jax.ranking import comparison

    paths = parts(a.collection, a.docs, a.queries, a.qrels)
    models = named_paths(a.model, "--model", lambda path: os.path.basename(os.path.normpath(path)))
    check_outside(a.output, [*paths.values(), *models.values()])
    reranking = Reranking(windows=a.windows, max_length=a.max_length, dtype=a.dtype, backend=a.backend)
    compared = comparison.Compared(
        **paths, models=models, run=a.run, fields=a.fields, k=a.k, language=a.language, tune=a.tune, fuse=a.fuse,
        measures=a.measures or comparison.MEASURES, reranking=reranking, title=f"Re-ranking of {a.collection or paths['docs']}",
    )  # fmt: skip
    compared.check()
    local = {name: fetched(path) for name, path in models.items()}
    read = dict.fromkeys((*paths.values(), *filter(None, [a.run]), *local.values()))
    if missing := [path for path in read if not (is_irds(path) or os.path.exists(as_stored(path)))]:
        hint = next((how_to_fetch(path) for path in missing if path in local.values()), "")
        raise InputError(f"{', '.join(missing)}: no such file or folder; check the paths{hint}")
    print(comparison.compare(replace(compared, models=local), a.output))
    print(f"report: {os.path.join(a.output, 'report.html')}")


def parts(collection: str, docs: str, queries: str, qrels: str) -> dict[str, str]:
    """The paths of documents, queries and judgments: those given, else the collection's. InputError if one is missing."""
    paths = {"docs": docs or collection, "queries": queries or collection, "qrels": qrels or collection}
    if absent := [f"--{name}" for name, path in paths.items() if not path]:
        raise InputError(f"no {', '.join(absent)}; name a COLLECTION, or give all three")
    test = os.path.join(collection, "qrels", "test.tsv")
    return paths | ({"qrels": test} if not qrels and os.path.exists(test) else {})


def queries_parser() -> Parser:
    parser = Parser(
        description="Write qid<TAB>fold lines; with --qrels no two folds share a relevant document.",
        example="harp queries folds --queries=queries.tsv --qrels=qrels.txt --count=5 --output=folds.tsv",
    )
    parser.add_argument("what", choices=("folds",), help="what to write")
    parser.add_input("--queries", required=True, help="qid<TAB>text, JSONL, a BEIR folder, irds:ID")
    parser.add_input("--qrels", help="judgments: qid 0 docid level, a BEIR split, irds:ID")
    parser.add_parameter(fold_queries, "count", "number of folds", type=positive)
    parser.add_recorded_output("the file to write")
    return parser


def queries(a: argparse.Namespace) -> None:
    folds = fold_queries(a.queries, a.output, a.qrels, a.count)
    print(f"{a.output}: {folds.queries} queries in {a.count} folds, largest group {folds.largest_group}")
