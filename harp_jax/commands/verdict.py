"""`harp verdict`: the first stage, a ranker, or their sum?"""

import argparse
import json
import sys

from harp_jax.base.cli import Parser
from harp_jax.base.files import replacing
from harp_jax.corpus.trec import read_folds, read_qrels, read_run, select
from harp_jax.experiments.verdict import decide
from harp_jax.ranking.fuse import NORMALISE


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp verdict",
        description="Decide whether a first stage, or its weighted sum with a ranker, is to be used. The gain is measured on "
        "queries that did not choose the weight.",
        example="harp verdict --qrels=qrels.txt --folds=folds.tsv --first=bm25.trec --ranker=harp.trec --output=verdict.json",
    )
    parser.add_input("--qrels", required=True, help="judgments: qid 0 docid level")
    parser.add_input(
        "--folds", required=True, help="qid<TAB>fold (harp queries folds): the weight is fitted on the others"
    )
    parser.add_input("--first", required=True, help="run of the first stage")
    parser.add_input("--ranker", required=True, help="run of the ranker")
    parser.add_input("--before", default="", help="run of the ranker's start, untrained: what does the training add?")
    parser.add_input(
        "--links",
        default="",
        help="run that uses the links without a model (BM25F + in-links): does the ranker add to it?",
    )
    parser.add_argument("--measure", default="RR@10", help="what to decide by, as in ir-measures (RR@10)")
    parser.add_argument("--normalise", default="minmax", choices=NORMALISE, help="scores of a query (minmax)")
    parser.add_output("--output", required=True, help="the JSON file to write")
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    folds = read_folds(a.folds)
    before, links = (read_run(path) if path else None for path in (a.before, a.links))
    judged, first, ranker = select(read_qrels(a.qrels), folds), read_run(a.first), read_run(a.ranker)
    for name, run in (
        ("--first", first),
        ("--ranker", ranker),
        *([("--before", before)] if before is not None else []),
        *([("--links", links)] if links is not None else []),
    ):
        if missing := sorted(judged.keys() - run.keys()):
            some = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
            print(f"note: {name}: {len(missing)} queries are missing and count as zero: {some}", file=sys.stderr)
    found = decide(judged, folds, first, ranker, a.measure, a.normalise, before, links)
    with replacing(a.output) as file:
        json.dump(found.as_dict(), file, indent=1)
    print(found.words())
