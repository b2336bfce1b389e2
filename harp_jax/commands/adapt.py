"""`harp adapt`: a sentence encoder's vectors, adapted to links by a linear map."""

import argparse

from harp_jax.base.cli import Parser, count, positive


def arguments_parser() -> Parser:
    parser = Parser(
        description="Learn a linear map of an encoder's vectors from pairs of links: the words around a link find the page\n"
        "it leads to. Writes a sentence-transformers directory; stored vectors of the encoder need only be multiplied by the map.",
        example="harp adapt pairs --encoder=all-MiniLM-L6-v2 --output=vectors",
    )
    parser.add_argument("pairs", help="output directory of harp generate")
    parser.add_argument("--encoder", required=True, help="sentence encoder to adapt")
    parser.add_argument("--max_pairs", type=positive, default=20_000, help="pairs to embed and train on (20000)")
    parser.add_argument("--seed", type=count, default=0, help="random seed of the pairs and batches (0)")
    parser.add_force()
    parser.add_output("--output", required=True, help="directory for the adapted encoder")
    return parser


def main(a: argparse.Namespace) -> None:
    from harp_jax.base.cli import keep_compiled
    from harp_jax.training.linear_map import MapOptions, adapt

    keep_compiled()
    made = adapt(MapOptions(a.pairs, a.encoder, a.max_pairs, seed=a.seed), output=a.output)
    print(f"{a.output}: adapted to {made.pairs:,} links; {made.words()}")
