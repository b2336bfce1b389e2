"""`harp first-stage`: retrieve candidates, or re-rank a run, with BM25, BM25F or query likelihood."""

import argparse

from harp_jax.base.cli import Parser, positive
from harp_jax.corpus.documents import FIELDS
from harp_jax.ranking.first_stage import Candidates, first_stage_files
from harp_jax.ranking.lexical import MODELS


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp first-stage",
        description="Retrieve candidates with BM25, BM25F or query likelihood, or re-rank a run with one of them.",
        example="harp first-stage --docs=docs.tsv --queries=queries.tsv --k=100 --output=bm25.trec\n"
        "  harp first-stage --model=bm25f --anchors=anchors.tsv --docs=docs.tsv --queries=queries.tsv --output=bm25f.trec",
    )
    add_collection_arguments(parser)
    parser.add_output("--output", required=True, help="the TREC run to write")
    parser.add_argument("--k1", type=float, help="bm25, bm25f: saturation of term frequency (0.9)")
    parser.add_argument("--b", type=float, help="bm25, bm25f: length normalisation (0.4)")
    parser.add_argument("--anchor_weight", type=float, help="bm25f: a word of an anchor text counts so many times (1)")
    parser.add_argument("--anchor_b", type=float, help="bm25f: length normalisation of the anchor texts (0.4)")
    parser.add_argument("--mu", type=float, help="ql: Dirichlet's prior, in words (1000)")
    parser.add_input("--parameters", default="", help="parameters that harp tune-first-stage wrote")
    parser.add_input("--folds", default="", help="qid<TAB>fold, if the parameters were tuned fold by fold")
    return parser


def add_collection_arguments(parser: Parser) -> None:
    """The options that retrieving and tuning share."""
    parser.add_argument(
        "--model",
        default="bm25",
        choices=sorted(MODELS),
        help="bm25, bm25f: text and anchor texts, ql: query likelihood (bm25)",
    )
    parser.add_input("--docs", required=True, help="documents: MS MARCO docs.tsv, JSONL, a folder of either")
    parser.add_input("--queries", required=True, help="queries: qid<TAB>text, or JSONL")
    parser.add_input("--run", default="", help="candidates to re-rank, instead of retrieving from the collection")
    parser.add_input("--exclude", default="", help="qid<TAB>docid: pairs that are no candidates")
    parser.add_argument("--k", type=positive, help="candidates a query (100; all of --run)")
    parser.add_argument("--stemmer", default="english", help="Snowball stemmer, '' for none (english)")
    parser.add_input(
        "--anchors",
        default="",
        help="docid<TAB>anchor text<TAB>count (harp anchors): a field of bm25f; else words added to the documents",
    )
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are indexed (title,url,body)")


def candidates_of(arguments: argparse.Namespace) -> Candidates:
    """The options of `add_collection_arguments`."""
    fields = tuple(arguments.fields.split(","))
    return Candidates(arguments.docs, fields, arguments.stemmer, arguments.exclude, arguments.k, arguments.anchors)


def main(arguments: argparse.Namespace) -> None:
    given = {field: getattr(arguments, field) for field in MODELS[arguments.model]}
    ranked, documents = first_stage_files(
        candidates_of(arguments),
        queries=arguments.queries,
        output=arguments.output,
        model=arguments.model,
        run=arguments.run,
        parameters={field: value for field, value in given.items() if value is not None},
        tuned=arguments.parameters,
        folds=arguments.folds,
    )
    print(f"{arguments.output}: {arguments.model} for {ranked} queries over {documents} documents")
