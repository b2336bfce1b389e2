"""Training queries in nested subsets, drawn many times: for few-shot curves, and for large ones.

    python -m harp_jax.experiments.subsets --qrels=qrels.txt --sizes=5,10,15,20 --draws=10 --output=subsets

OUTPUT/draw-03/10.txt lists the ten queries of draw 3; it holds those of draw-03/5.txt. A draw is an order of the queries by
hash of (seed, draw, query), so sizes and draws that are added later change nothing. `--config.train_queries` takes such a file.
"""

import argparse
import os

from harp_jax.cli import run as run_command
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.folds import read_subset, select
from harp_jax.corpus.trec import Qrels, read_qrels, read_run
from harp_jax.errors import InputError
from harp_jax.files import replacing
from harp_jax.randomness import hash64


def draws(qrels: Qrels, sizes: list[int], count: int, seed: int) -> list[dict[int, list[str]]]:
    """For each draw, size → queries with a relevant document; smaller sizes are prefixes of larger ones.

    Raises InputError where there are fewer queries than the largest size.
    """
    usable = [qid for qid, judged in qrels.items() if any(level > 0 for level in judged.values())]
    if max(sizes) > len(usable):
        raise InputError(f"{len(usable)} queries can be trained on, fewer than {max(sizes)}; lower --sizes")
    found = []
    for number in range(count):
        order = sorted(usable, key=lambda qid: (hash64(seed, "subset", number, qid), qid))
        found.append({size: order[:size] for size in sizes})
    return found


def numbers(text: str, option: str) -> list[int]:
    """[5, 10] from "5,10"; InputError for anything that is no positive number."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"--{option}={text}: write positive numbers separated by commas")
    return sorted({int(part) for part in parts})


def main(arguments: argparse.Namespace) -> None:
    sizes = numbers(arguments.sizes, "sizes")
    (count,) = numbers(arguments.draws, "draws")
    train_folds = arguments.train_folds.split(",") if arguments.folds else []
    qrels = read_subset(read_qrels(arguments.qrels), arguments.queries, arguments.folds, train_folds)
    if arguments.docs:
        docs = Documents.open(arguments.docs)
        found = {
            qid for qid, judged in qrels.items() if any(level > 0 and docid in docs for docid, level in judged.items())
        }
        qrels = select(qrels, found)
    if arguments.run:
        qrels = select(qrels, read_run(arguments.run, queries=qrels).keys())
    for number, by_size in enumerate(draws(qrels, sizes, count, arguments.seed)):
        for size, queries in by_size.items():
            with replacing(os.path.join(arguments.output, f"draw-{number:02d}", f"{size}.txt")) as file:
                file.writelines(f"{qid}\n" for qid in queries)
    print(f"{arguments.output}: {count} draws of {', '.join(map(str, sizes))} of {len(qrels)} queries")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.experiments.subsets", description="Nested subsets of training queries."
    )
    parser.add_argument("--qrels", required=True, help="judgments of the training queries")
    parser.add_argument("--queries", default="", help="a file whose lines begin with the ids to draw from (all)")
    parser.add_argument("--folds", default="", help="qid<TAB>fold, with --train_folds")
    parser.add_argument("--train_folds", default="", help="folds to draw from, separated by commas")
    parser.add_argument("--run", default="", help="candidates: draw only queries that have any")
    parser.add_argument("--docs", default="", help="documents: draw only queries with a relevant one among them")
    parser.add_argument("--sizes", default="5,10,15,20", help="queries of a subset (5,10,15,20)")
    parser.add_argument("--draws", default="10", help="how often (10)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", required=True, help="directory that receives the lists")
    return parser


if __name__ == "__main__":
    run_command(main, arguments_parser())
