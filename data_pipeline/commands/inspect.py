"""harp inspect: check the shards of a job, print statistics and examples."""

import argparse

from harp_jax.base.cli import Parser, count


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp inspect",
        description="Check every shard of a finished generation job against its manifest; print statistics and examples.",
        example="harp inspect pairs --examples=2",
    )
    parser.add_argument("directory", help="output directory of a generation job")
    parser.add_argument("--examples", type=count, default=5, help="decoded records to print per task (5)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from data_pipeline.output.inspection import as_text, inspect

    print(as_text(inspect(arguments.directory, arguments.examples)))
