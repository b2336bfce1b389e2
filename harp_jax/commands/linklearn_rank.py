"""`harp linklearn-rank`: ranks a collection by learnt term weights."""

import argparse
import sys
from collections.abc import Iterator

from harp_jax.base.cli import Parser, positive
from harp_jax.base.progress import progress
from harp_jax.baselines.linklearn.collection import Index, count
from harp_jax.baselines.linklearn.model import load
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import ScoredQuery, read_queries, write_run
from harp_jax.ranking.first_stage import candidates, excluded_of
from harp_jax.ranking.lexical import Collection


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp linklearn-rank",
        description="Rank a collection by a trained LinkLearn; idf and lengths are those of the collection.",
        example="harp linklearn-rank --model=runs/linklearn --docs=docs.tsv --queries=queries.tsv --output=linklearn.trec",
    )
    parser.add_input("--model", model=True, required=True, help="workdir of harp linklearn-train")
    parser.add_argument("--okapi", action="store_true", help="rank by the Okapi BM25 tuned on the same links instead")
    parser.add_input("--exclude", default="", help="qid<TAB>docid: pairs that are not candidates")
    parser.add_input("--docs", required=True, help="documents: MS MARCO docs.tsv, JSONL, a folder of either")
    parser.add_input("--queries", required=True, help="queries: qid<TAB>text, or JSONL")
    parser.add_output("--output", required=True, help="the TREC run to write")
    parser.add_argument("--k", type=positive, default=1000, help="documents a query (1000)")
    parser.add_argument("--stemmer", default="english", help="Snowball stemmer, '' for none (english)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    name = "okapi" if arguments.okapi else "linklearn"
    # A missing model is reported before the documents are read.
    weighting = load(arguments.model, arguments.okapi)
    queries = read_queries(arguments.queries)
    excluded = excluded_of(arguments.exclude)
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    collection = Collection(progress(docs.texts(), total=len(docs), unit="documents", desc="index"), arguments.stemmer)
    model = Index(count(collection)).weigh(weighting)
    unmatched: list[str] = []

    def noted() -> Iterator[ScoredQuery]:
        for qid, query in progress(queries.items(), total=len(queries), unit="queries", desc=name):
            docids, scores = candidates(model, collection, query, arguments.k, excluded.get(qid, set()))
            if not docids:
                unmatched.append(qid)
            yield qid, docids, scores

    write_run(arguments.output, noted(), tag=name)
    if unmatched:
        print(f"note: {len(unmatched)} of {len(queries)} queries match no document: {unmatched[:5]}", file=sys.stderr)
    print(f"{arguments.output}: {len(queries) - len(unmatched)} queries ranked by {name}")
