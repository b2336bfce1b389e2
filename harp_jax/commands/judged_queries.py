"""`harp judged-queries`: the queries of a collection that have judgments, with these."""

import argparse
import os

from harp_jax.base.cli import Parser
from harp_jax.base.errors import InputError
from harp_jax.base.files import make_directory, output_path, replacing
from harp_jax.corpus.paths import qrels_file, query_file
from harp_jax.corpus.trec import read_qrels, read_queries


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp judged-queries",
        description="Write the queries that have judgments as queries.tsv, and their judgments as qrels.txt. Collections hold "
        "queries of other splits too, for which ranking would be in vain.",
        example="harp judged-queries --queries=scifact --qrels=scifact/qrels/test.tsv --output=judged",
    )
    parser.add_input("--queries", required=True, help="queries: qid<TAB>text, JSONL, a BEIR folder, irds:ID")
    parser.add_input("--qrels", required=True, help="judgments: qid 0 docid level, a BEIR split, irds:ID")
    parser.add_output("--output", required=True, help="directory that receives queries.tsv and qrels.txt")
    return parser


def main(arguments: argparse.Namespace) -> None:
    queries, qrels = read_queries(arguments.queries), read_qrels(arguments.qrels)
    judged = {qid: " ".join(text.split()) for qid, text in queries.items() if qid in qrels}
    if not judged:
        raise InputError(
            f"{arguments.queries} has the text of none of the {len(qrels)} judged queries, {next(iter(qrels))} first; check both"
        )
    make_directory(arguments.output)
    for name in ("queries.tsv", "qrels.txt"):
        output_path(os.path.join(arguments.output, name), [query_file(arguments.queries), qrels_file(arguments.qrels)])
    with replacing(os.path.join(arguments.output, "queries.tsv")) as file:
        file.writelines(f"{qid}\t{text}\n" for qid, text in judged.items())
    with replacing(os.path.join(arguments.output, "qrels.txt")) as file:
        file.writelines(f"{qid} 0 {docid} {level}\n" for qid in judged for docid, level in qrels[qid].items())
    without = f", {len(qrels) - len(judged)} judged ones have no text" if len(judged) < len(qrels) else ""
    print(f"{arguments.output}: {len(judged)} of {len(queries)} queries have judgments{without}")
