"""`harp subsets`: nested random subsets of training queries."""

import argparse
import re

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.folds import read_subset
from harp_jax.corpus.trec import read_qrels, read_run
from harp_jax.experiments.subsets import MOST_DRAWS, draw_subsets, judged_relevant, trainable, write_subsets

NUMBER = re.compile("[0-9]{1,18}")


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp subsets",
        description="Draw nested subsets of training queries: OUTPUT/draw-03/10.txt contains draw-03/5.txt.",
        example="harp subsets --qrels=qrels.txt --sizes=5,10,15,20 --draws=10 --output=subsets\n"
        "  harp subsets --qrels=qrels.txt --sizes=25%,50%,100% --draws=1 --output=subsets",
    )
    parser.add_input("--qrels", required=True, help="judgments of the training queries")
    parser.add_input("--queries", default="", help="a file whose lines begin with the query ids to draw from (all)")
    parser.add_input("--folds", default="", help="qid<TAB>fold, with --train_folds")
    parser.add_argument("--train_folds", default="", help="folds to draw from, separated by commas")
    parser.add_input("--run", default="", help="candidates: draw only queries that have any")
    parser.add_input("--docs", default="", help="documents: draw only queries with a relevant one among them")
    parser.add_argument(
        "--sizes", default="5,10,15,20", help="queries of a subset, or shares of all such as 25%% (5,10,15,20)"
    )
    parser.add_argument("--draws", type=positive, default=10, help="draws of each size (10)")
    parser.add_argument("--seed", type=count, default=0, help="of the draws (0)")
    parser.add_output("--output", required=True, help="directory that receives the lists")
    return parser


def main(arguments: argparse.Namespace) -> None:
    sizes = parsed_sizes(arguments.sizes)
    if not 1 <= arguments.draws <= MOST_DRAWS:
        raise InputError(f"--draws={arguments.draws}: use 1 to {MOST_DRAWS}")
    if bool(arguments.folds) != bool(arguments.train_folds):
        raise InputError("--folds and --train_folds belong together; give both or neither")
    wanted = arguments.train_folds.split(",") if arguments.train_folds else []
    qrels = read_subset(read_qrels(arguments.qrels), arguments.queries, arguments.folds, wanted)
    qrels = trainable(qrels, Documents.open(arguments.docs) if arguments.docs else None)
    qrels = trainable(qrels, run=read_run(arguments.run, queries=qrels) if arguments.run else None)
    usable = judged_relevant(qrels)
    wanted_sizes = {name: max(1, round(part * len(usable))) if share else int(part) for name, part, share in sizes}
    drawn = draw_subsets(qrels, sorted(set(wanted_sizes.values())), arguments.draws, arguments.seed)
    write_subsets(arguments.output, [{name: one[n] for name, n in wanted_sizes.items()} for one in drawn])
    counts = ", ".join(name if name == str(n) else f"{name} ({n})" for name, n in wanted_sizes.items())
    print(f"{arguments.output}: {arguments.draws} draws of {counts} of {len(usable)} queries")


def parsed_sizes(text: str) -> list[tuple[str, float, bool]]:
    """(name, number, whether it is a share of all) of "10,25%"; InputError for anything else."""
    found = []
    for name in dict.fromkeys(part.strip() for part in text.split(",")):
        if name.endswith("%"):
            percent = name.removesuffix("%")
            if not NUMBER.fullmatch(percent) or not 0 < int(percent) <= 100:
                raise InputError(f"--sizes={text}: {name} is no share; write 1% to 100%")
            found.append((name, int(percent) / 100, True))
        else:
            (size,) = integers(name, "sizes", 1)
            found.append((str(size), float(size), False))
    return found


def integers(text: str, option: str, lowest: int) -> list[int]:
    """[5, 10] from "5,10", duplicates removed; InputError for anything else than integers from `lowest`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(NUMBER.fullmatch(part) and int(part) >= lowest for part in parts):
        raise InputError(f"--{option}={text}: write integers from {lowest}, separated by commas")
    return list(dict.fromkeys(map(int, parts)))
