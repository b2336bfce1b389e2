"""`harp rate`: the seconds of a training step."""

import argparse
import json
import logging
import os
import sys

from harp_jax.base.cli import TERMINATED, ConfigParser
from harp_jax.base.files import output_path, replacing


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp rate",
        description="Measure the seconds of a training step on this machine, from a few steps of the training itself.",
        example="harp rate --config=site --config.init=MiniLM-L6-v2/ --config.data=\"('pairs',)\" --output=rate.json",
    )
    parser.add_output("--output", required=True, help='the JSON file to write: {"seconds_per_step"}')
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.base.allocator import keep_pages
    from harp_jax.training.dry_run import seconds_per_step

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    keep_pages()
    folder = os.path.dirname(output_path(arguments.output))
    measured = seconds_per_step(arguments.config, folder)
    if measured is None:
        sys.exit(TERMINATED)
    seconds = float(f"{measured:.4g}")
    with replacing(arguments.output) as file:
        json.dump({"seconds_per_step": seconds}, file)
    print(f"{arguments.output}: {seconds:g} s a step, {3600 / seconds:,.0f} steps an hour")
