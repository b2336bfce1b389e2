"""`harp linklearn-train`: learns term weights from links (LinkLearn)."""

import argparse
import logging

from harp_jax.base.cli import ConfigParser


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp linklearn-train",
        description="Learn a term weighting from links (LinkLearn); a finished run is left alone.",
        example="harp linklearn-train --config=baselines/linklearn --workdir=runs/linklearn --config.docs=\"('pages.jsonl',)\"",
    )
    parser.add_argument("--workdir", required=True, help="directory of the run: model.json, metrics")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.baselines.linklearn.train import finished, train

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("harp_jax").setLevel(logging.INFO)
    done = finished(arguments.config, arguments.workdir) or train(arguments.config, arguments.workdir)
    figures = " ".join(f"{name}={value:.4f}" for name, value in done["held_out"].items())
    print(
        f"{arguments.workdir}/model.json: step {done['step']}, {done['constraints']} constraints drawn; held-out AP {figures}"
    )
