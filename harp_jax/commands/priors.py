"""`harp priors`: rank candidates by in-links or by length alone."""

import argparse

from harp_jax.base.cli import Parser
from harp_jax.corpus.documents import FIELDS
from harp_jax.ranking.priors import FEATURES, prior_files


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp priors",
        description="Rank the candidates of a run by log(1 + in-links) or log(1 + words), whatever the query.",
        example="harp priors --run=bm25.trec --feature=inlinks --links=pages.jsonl --output=inlinks.trec",
    )
    parser.add_input("--run", required=True, help="candidates: a TREC run, or MS MARCO's three columns")
    parser.add_argument("--feature", required=True, choices=FEATURES, help="inlinks or length")
    parser.add_input("--links", default="", help="inlinks: linked documents as JSONL, several separated by commas")
    parser.add_input("--redirects", default="", help="inlinks: alias<TAB>id")
    parser.add_input("--anchors", default="", help="inlinks: the counts of harp anchors, instead of --links")
    parser.add_input("--docs", default="", help="length: the documents")
    parser.add_argument("--fields", default=",".join(FIELDS), help="length: document fields that are counted")
    parser.add_output("--output", required=True, help="the TREC run to write")
    return parser


def main(arguments: argparse.Namespace) -> None:
    documents, known = prior_files(
        run=arguments.run,
        feature=arguments.feature,
        output=arguments.output,
        links=arguments.links.split(",") if arguments.links else (),
        redirects=arguments.redirects,
        anchors=arguments.anchors,
        docs=arguments.docs,
        fields=tuple(arguments.fields.split(",")),
    )
    print(f"{arguments.output}: log(1 + {arguments.feature}) of {documents} documents, {known} of them known")
