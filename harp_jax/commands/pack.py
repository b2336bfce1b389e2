"""`harp pack`: a site's documents, vectors and query, for the search engine that you already run."""

import argparse

from harp_jax.base.cli import Parser

ENGINES = ("opensearch", "elasticsearch", "typesense", "jsonl", "lancedb")


def arguments_parser() -> Parser:
    parser = Parser(
        description="Write a site's documents with anchor texts, in-links and vectors for another search engine: what it loads,\n"
        "its fields and analysis, the query with the weights of the sum, and a README.txt with the commands.",
        example="harp pack x --for=opensearch --output=packed",
    )
    parser.add_argument("site", metavar="DIR", help="output of harp site")
    parser.add_argument("--for", dest="engine", required=True, choices=ENGINES, help="the engine; jsonl: any other")
    parser.add_output("--output", required=True, help="folder to write")
    return parser


def main(a: argparse.Namespace) -> None:
    from harp_jax.site.pack import pack

    packed = pack(a.site, a.engine, a.output)
    print(
        f"{a.output}: {packed.documents:,} documents with {packed.passages:,} vectors; README.txt says how to load them"
    )
    if packed.left_out:
        print(f"left out of the query: {', '.join(packed.left_out)}")
