"""harp teach: add rankers' scores to pairs, choose harder negatives."""

import argparse

from harp_jax.base.cli import Parser, count, positive


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp teach",
        description="Add a ranker's scores to the pairs of a finished job, as a teacher (--config.pair_loss=lce_kl) or for hard "
        "negatives.",
        example="harp teach pairs --model=ranker --drop_above --hardest=7 --output=taught",
    )
    parser.add_argument("pairs", help="output directory of a generation job")
    parser.add_argument(
        "--model",
        required=True,
        nargs="+",
        help="re-ranker, or encoder with --cosine; the scores of several are averaged",
    )
    parser.add_argument("--cosine", action="store_true", help="score by the cosine of the encoder's embeddings")
    parser.add_argument("--drop_above", action="store_true", help="leave out negatives that score above the positive")
    parser.add_argument(
        "--hardest", type=count, default=0, help="keep only this many negatives, those with the highest scores (0: all)"
    )
    parser.add_argument("--max_length", type=positive, default=None, help="maximum tokens per sequence (the model's)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=None,
        help="divide the scores by this (1; with --cosine 0.05, as in encoder training)",
    )
    parser.add_argument("--dtype", default="float32", help="precision of the computation (float32)")
    parser.add_force()
    parser.add_output("--output", required=True, help="directory for the pairs with scores")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from data_pipeline.output.teacher import TeachOptions, teach

    a = arguments
    given = TeachOptions(
        a.pairs, tuple(a.model), a.cosine, a.drop_above, a.hardest, a.max_length, a.temperature, a.dtype
    )
    found = teach(given, output=a.output)
    print(
        f"{a.output}: {found.records:,} records with scores; left out {found.left_out:,} without a negative below the positive"
    )
