"""`harp first-layers`: the first layers of an encoder as a start."""

import argparse

from harp_jax.base.cli import Parser, count
from harp_jax.checkpoints.first_layers import write_first_layers


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp first-layers",
        description="Write the first layers of an encoder as a Hugging Face directory to start from, without its heads.",
        example="harp first-layers --encoder=all-MiniLM-L6-v2 --layers=3 --output=start",
    )
    parser.add_input("--encoder", model=True, required=True, help="Hugging Face directory of a BERT")
    parser.add_argument("--layers", type=count, required=True, help="layers to keep")
    parser.add_output("--output", required=True, help="directory to write")
    parser.add_argument("--sha256", default="", help="refuse another model.safetensors than the one with this hash")
    return parser


def main(arguments: argparse.Namespace) -> None:
    write_first_layers(arguments.encoder, arguments.layers, arguments.output, arguments.sha256)
    print(f"{arguments.output}: {arguments.layers} layers of {arguments.encoder}")
