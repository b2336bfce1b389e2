"""`harp queries`: judged queries, labels, folds and subsets as files that the other commands read."""

import argparse
import os
import re

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.base.files import output_path, replacing
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.labels import write_collection
from harp_jax.corpus.paths import qrels_file, query_file
from harp_jax.corpus.trec import read_qrels, read_queries, read_run, read_subset
from harp_jax.experiments.query_sets import (
    MOST_DRAWS,
    connected,
    draw_subsets,
    judged_relevant,
    make_folds,
    trainable,
    write_subsets,
)  # fmt: skip

NUMBER = re.compile("[0-9]{1,18}")
NEEDED = {"judged": ("queries", "qrels"), "labels": ("labels",), "folds": ("queries",), "subsets": ("qrels",)}


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp queries",
        description="Write queries for an experiment.\n"
        "judged: those of a collection that have judgments, as queries.tsv and qrels.txt (ranking the others is unnecessary)\n"
        "labels: query<TAB>docid<TAB>level lines, as queries.tsv and qrels.txt; queries without a relevant document are left out\n"
        "folds: qid<TAB>fold lines; with --qrels no two folds share a relevant document\n"
        "subsets: nested random subsets of training queries; OUTPUT/draw-03/10.txt contains draw-03/5.txt",
        example="harp queries judged --queries=scifact --qrels=scifact/qrels/test.tsv --output=judged\n"
        "  harp queries labels --labels=labels.tsv --output=labels\n"
        "  harp queries folds --queries=queries.tsv --qrels=qrels.txt --count=5 --output=folds.tsv\n"
        "  harp queries subsets --qrels=qrels.txt --sizes=25%,50%,100% --draws=1 --output=subsets",
    )
    parser.add_argument("what", choices=NEEDED, help="what is written")
    parser.add_input(
        "--queries", default="", help="qid<TAB>text, JSONL, a BEIR folder, irds:ID; subsets: ids to draw from (all)"
    )
    parser.add_input("--qrels", default="", help="judgments: qid 0 docid level, a BEIR split, irds:ID")
    parser.add_input("--labels", default="", help="labels: query<TAB>docid<TAB>level; the level may be absent (1)")
    parser.add_argument("--count", type=positive, default=5, help="folds: how many (5)")
    parser.add_input("--folds", default="", help="subsets: qid<TAB>fold, with --train_folds")
    parser.add_argument("--train_folds", default="", help="subsets: folds to draw from, separated by commas")
    parser.add_input("--run", default="", help="subsets: draw only queries that have candidates in this run")
    parser.add_input("--docs", default="", help="subsets: draw only queries with a relevant one among these documents")
    parser.add_argument("--sizes", default="5,10,15,20", help="subsets: queries, or shares such as 25%% (5,10,15,20)")
    parser.add_argument("--draws", type=positive, default=10, help="subsets: draws of each size (10)")
    parser.add_argument("--seed", type=count, default=0, help="folds, subsets: of the order (0)")
    parser.add_output("--output", required=True, help="folds: the file; else the directory to write")
    return parser


def main(arguments: argparse.Namespace) -> None:
    if missing := [f"--{name}" for name in NEEDED[arguments.what] if not getattr(arguments, name)]:
        raise InputError(f"harp queries {arguments.what} needs {' and '.join(missing)}")
    {"judged": judged, "labels": labels, "folds": folds, "subsets": subsets}[arguments.what](arguments)


def judged(a: argparse.Namespace) -> None:
    queries, qrels = read_queries(a.queries), read_qrels(a.qrels)
    found = {qid: " ".join(text.split()) for qid, text in queries.items() if qid in qrels}
    if not found:
        raise InputError(
            f"{a.queries} has the text of none of the {len(qrels)} judged queries, {next(iter(qrels))} first; check both"
        )
    os.makedirs(a.output, exist_ok=True)
    for name in ("queries.tsv", "qrels.txt"):
        output_path(os.path.join(a.output, name), [query_file(a.queries), qrels_file(a.qrels)])
    with replacing(os.path.join(a.output, "queries.tsv")) as file:
        file.writelines(f"{qid}\t{text}\n" for qid, text in found.items())
    with replacing(os.path.join(a.output, "qrels.txt")) as file:
        file.writelines(f"{qid} 0 {docid} {level}\n" for qid in found for docid, level in qrels[qid].items())
    without = f", {len(qrels) - len(found)} judged ones have no text" if len(found) < len(qrels) else ""
    print(f"{a.output}: {len(found)} of {len(queries)} queries have judgments{without}")


def labels(a: argparse.Namespace) -> None:
    queries, written = write_collection(a.labels, a.output)
    print(f"{a.output}: {queries} queries with {written} labels")


def folds(a: argparse.Namespace) -> None:
    queries = list(read_queries(a.queries))
    groups = connected(queries, read_qrels(a.qrels)) if a.qrels else [[qid] for qid in queries]
    fold_of = make_folds(groups, a.count, a.seed)
    with replacing(a.output) as file:
        file.writelines(f"{qid}\t{fold_of[qid]}\n" for qid in queries)
    print(f"{a.output}: {len(queries)} queries in {a.count} folds, largest group {max(map(len, groups))}")


def subsets(a: argparse.Namespace) -> None:
    sizes = parsed_sizes(a.sizes)
    if a.draws > MOST_DRAWS:
        raise InputError(f"--draws={a.draws}: use 1 to {MOST_DRAWS}")
    if bool(a.folds) != bool(a.train_folds):
        raise InputError("--folds and --train_folds belong together; give both or neither")
    wanted = a.train_folds.split(",") if a.train_folds else []
    qrels = read_subset(read_qrels(a.qrels), a.queries, a.folds, wanted)
    qrels = trainable(qrels, Documents.open(a.docs) if a.docs else None)
    qrels = trainable(qrels, run=read_run(a.run, queries=qrels) if a.run else None)
    usable = judged_relevant(qrels)
    wanted_sizes = {name: max(1, round(part * len(usable))) if share else int(part) for name, part, share in sizes}
    drawn = draw_subsets(qrels, sorted(set(wanted_sizes.values())), a.draws, a.seed)
    write_subsets(a.output, [{name: one[n] for name, n in wanted_sizes.items()} for one in drawn])
    counts = ", ".join(name if name == str(n) else f"{name} ({n})" for name, n in wanted_sizes.items())
    print(f"{a.output}: {a.draws} draws of {counts} of {len(usable)} queries")


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
