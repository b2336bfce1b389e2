"""harp inspect"""

import argparse
import json

from data_pipeline.output.report import as_text, report
from harp_jax.base.cli import Parser, count
from harp_jax.base.files import replacing


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp inspect",
        description="Check every shard of a finished generation job against its manifest; print statistics and examples.",
        example="harp inspect pairs --examples=2",
    )
    parser.add_argument("directory", help="output directory of a generation job")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of what is printed (text)")
    parser.add_argument("--examples", type=count, default=5, help="decoded records of each task (5)")
    parser.add_output("--output", default="", help="a file that receives what is printed, too")
    return parser


def main(arguments: argparse.Namespace) -> None:
    found = report(arguments.directory, arguments.examples)
    text = json.dumps(found, indent=1, ensure_ascii=False) if arguments.format == "json" else as_text(found)
    if arguments.output:
        with replacing(arguments.output) as file:
            file.write(text + "\n")
    print(text)
