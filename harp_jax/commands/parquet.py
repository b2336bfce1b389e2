"""`harp parquet`: pairs as Parquet files of texts, for sentence-transformers and others."""

import argparse

from harp_jax.base.cli import Parser


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp parquet",
        description="Write pairs from links as Parquet files of texts.",
        example="harp parquet --data=pairs --output=pairs_parquet",
    )
    parser.add_argument("--data", required=True, help="output directory of harp generate")
    parser.add_argument("--tokenizer", default="", help="of --data, where it is no longer at its path")
    parser.add_output("--output", required=True, help="folder to write")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.input.parquet import pairs_to_parquet

    rows = pairs_to_parquet(arguments.data, arguments.output, arguments.tokenizer)
    print(f"{arguments.output}: " + ", ".join(f"{split} {count:,} rows" for split, count in rows.items()))
