"""harp parquet: the texts of pairs, for other tools."""

import argparse

from harp_jax.base.cli import Parser


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp parquet",
        description="Write pairs from links as Parquet files of texts.",
        example="harp parquet --data=pairs --output=pairs_parquet",
    )
    parser.add_argument("--data", required=True, help="output directory of harp generate")
    parser.add_argument("--tokenizer", default="", help="tokenizer of --data, if it has moved since harp generate")
    parser.add_force()
    parser.add_output("--output", required=True, help="folder to write")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from data_pipeline.output.triplets import write_parquet

    rows = write_parquet(arguments.data, arguments.output, arguments.tokenizer)
    print(f"{arguments.output}: " + ", ".join(f"{split} {count:,} rows" for split, count in rows.items()))
