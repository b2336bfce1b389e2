"""harp documents: the documents of pages."""

import argparse

from data_pipeline.output.collection import write_documents
from data_pipeline.sources.formats import FORMATS
from harp_jax.base.cli import Parser


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp documents",
        description="Write the documents of a folder of HTML, a WARC file, a MediaWiki dump or linked JSONL as JSON lines: "
        "id, title and text, as the other commands read collections.",
        example="harp documents site/ --base_url=https://docs.example.org/ --output=docs.jsonl",
    )
    parser.add_input("pages", help="folder or file; its format is detected")
    parser.add_force()
    parser.add_output("--output", required=True, help="the JSONL file to write")
    parser.add_argument("--format", default="", choices=("", *FORMATS), help="page format, if detection fails")
    parser.add_argument(
        "--base_url", default="", help="URL where the folder is served; without it, ids are file:///PATH"
    )
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    found = write_documents(a.pages, a.output, a.format, a.base_url)
    parts = f", {found.sections} of them sections of pages" if found.sections else ""
    print(f"{a.output}: {found.documents} documents{parts}, from {a.pages} ({found.format})")
    if found.dropped:
        print("left out: " + ", ".join(f"{reason} {n}" for reason, n in found.dropped.items()))
