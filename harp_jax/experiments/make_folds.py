"""Folds of queries for cross-validation, as `--folds` takes them.

    python -m harp_jax.experiments.make_folds --queries=queries.tsv --count=5 --output=folds.tsv [--qrels=qrels.txt]

With --qrels, queries that share a relevant document, directly or through others, fall into one fold: a model that remembers
documents gains nothing. Where all queries hang together so (Cranfield's do), leave --qrels out and say so.
"""

import argparse
from collections.abc import Iterable

from harp_jax.cli import run
from harp_jax.corpus.folds import components, select
from harp_jax.corpus.trec import read_qrels, read_queries
from harp_jax.errors import InputError
from harp_jax.files import replacing
from harp_jax.randomness import hash64


def make(groups: Iterable[list[str]], count: int, seed: int) -> dict[str, int]:
    """qid → fold: groups of queries in the order of a hash, largest first, each into the fold that has fewest queries.

    Raises InputError where a fold stays empty.
    """
    order = sorted(groups, key=lambda group: (-len(group), hash64(seed, "fold", min(group)), min(group)))
    sizes = [0] * count
    folds: dict[str, int] = {}
    for group in order:
        smallest = sizes.index(min(sizes))
        sizes[smallest] += len(group)
        folds |= dict.fromkeys(group, smallest)
    if not all(sizes):
        raise InputError(f"{len(order)} groups of queries fill no {count} folds; lower --count, or leave --qrels out")
    return folds


def main(arguments: argparse.Namespace) -> None:
    if arguments.count < 2:
        raise InputError(f"--count={arguments.count}: cross-validation needs two folds at least")
    queries = read_queries(arguments.queries)
    groups = [[qid] for qid in queries]
    if arguments.qrels:
        groups = components(select(read_qrels(arguments.qrels), queries.keys()))
        judged = {qid for group in groups for qid in group}
        groups += [[qid] for qid in queries if qid not in judged]
    folds = make(groups, arguments.count, arguments.seed)
    with replacing(arguments.output) as file:
        file.writelines(f"{qid}\t{folds[qid]}\n" for qid in queries)
    print(
        f"{arguments.output}: {len(queries)} queries in {arguments.count} folds, {max(map(len, groups))} together at most"
    )


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.experiments.make_folds", description="Folds for cross-validation."
    )
    parser.add_argument("--queries", required=True, help="queries: qid<TAB>text, or JSONL")
    parser.add_argument("--qrels", default="", help="judgments: keep queries together that share a relevant document")
    parser.add_argument("--count", type=int, default=5, help="folds (5)")
    parser.add_argument("--seed", type=int, default=0, help="of the order (0)")
    parser.add_argument("--output", required=True, help="file to write: qid<TAB>fold")
    return parser


if __name__ == "__main__":
    run(main, arguments_parser())
