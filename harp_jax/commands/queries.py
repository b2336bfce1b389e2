"""`harp queries`: judged queries, labels, folds and subsets as files that the other commands read (`corpus/query_sets.py`)."""

import argparse

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.commands.options import add_output, names
from harp_jax.corpus.query_sets import fold_queries, judged_queries, labelled_queries, subset_queries

NEEDED = {"judged": ("queries", "qrels"), "labels": ("labels",), "folds": ("queries",), "subsets": ("qrels",)}


def arguments_parser() -> Parser:
    parser = Parser(
        description="Write queries for an experiment.\n"
        "judged: the queries of a collection that have judgments, as queries.tsv and qrels.txt (the others need no ranking)\n"
        "labels: query<TAB>docid<TAB>level lines, as queries.tsv and qrels.txt; queries without a relevant document are left out\n"
        "folds: qid<TAB>fold lines; with --qrels no two folds share a relevant document\n"
        "subsets: nested random subsets of training queries; OUTPUT/draw-03/10.txt contains draw-03/5.txt",
        example="harp queries judged --queries=scifact --qrels=scifact/qrels/test.tsv --output=judged\n"
        "  harp queries labels --labels=labels.tsv --output=labels\n"
        "  harp queries folds --queries=queries.tsv --qrels=qrels.txt --count=5 --output=folds.tsv\n"
        "  harp queries subsets --qrels=qrels.txt --sizes=25%,50%,100% --draws=1 --output=subsets",
    )
    parser.add_argument("what", choices=NEEDED, help="what to write")
    what = "qid<TAB>text, JSONL, a BEIR folder, irds:ID; subsets: ids to draw from (all)"
    parser.add_input("--queries", default="", help=what)
    parser.add_input("--qrels", default="", help="judgments: qid 0 docid level, a BEIR split, irds:ID")
    parser.add_input("--labels", default="", help="labels: query<TAB>docid<TAB>level; the level is optional (1)")
    parser.add_argument("--count", type=positive, default=5, help="folds: number of folds (5)")
    parser.add_input("--folds", default="", help="subsets: qid<TAB>fold, with --train_folds")
    parser.add_argument("--train_folds", type=names, default=(), help="subsets: folds to draw from, with commas")
    parser.add_input("--run", default="", help="subsets: draw only queries that have candidates in this run")
    parser.add_input("--docs", default="", help="subsets: draw only queries with a relevant document among these")
    what = "subsets: numbers of queries, or shares such as 25%% (5,10,15,20)"
    parser.add_argument("--sizes", type=names, default=("5", "10", "15", "20"), help=what)
    parser.add_argument("--draws", type=positive, default=10, help="subsets: draws per size (10)")
    parser.add_argument("--seed", type=count, default=0, help="folds, subsets: random seed of the order (0)")
    add_output(parser, "directory to write; for folds, the file")
    return parser


def main(a: argparse.Namespace) -> None:
    if missing := [f"--{name}" for name in NEEDED[a.what] if not getattr(a, name)]:
        raise InputError(f"harp queries {a.what} needs {' and '.join(missing)}")
    if a.what == "judged":
        judged = judged_queries(a.queries, a.qrels, a.output)
        without = f", {judged.without_text} judged ones have no text" if judged.without_text else ""
        print(f"{a.output}: {judged.queries} of {judged.of} queries have judgments{without}")
    elif a.what == "labels":
        labelled = labelled_queries(a.labels, a.output)
        print(f"{a.output}: {labelled.queries} queries with {labelled.judgments} labels")
    elif a.what == "folds":
        folds = fold_queries(a.queries, a.output, a.qrels, a.count, a.seed)
        print(f"{a.output}: {folds.queries} queries in {a.count} folds, largest group {folds.largest_group}")
    else:
        drawn = subset_queries(
            a.qrels, a.output, a.sizes, a.draws, a.seed, a.queries, a.folds, a.train_folds, a.run, a.docs
        )
        counts = ", ".join(size if size == str(n) else f"{size} ({n})" for size, n in drawn.sizes.items())
        print(f"{a.output}: {a.draws} draws of {counts} of {drawn.usable} queries")
