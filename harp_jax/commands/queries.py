"""`harp queries`: judged queries, labels, folds and subsets as files that the other commands read.

Folds: with judgments, queries that share a relevant document, directly or through others, are in the same fold, so memorised
documents do not help in testing. If this connects all queries, as in Cranfield, leave the judgments out and report it.

Subsets, for few-shot curves: a draw is an order of the queries by hash of (seed, draw, query), and a subset its first queries,
so adding sizes or draws changes no other subset. `--config.train_queries` accepts the files.
"""

import argparse
import glob
import os
import re
from collections.abc import Mapping, Sequence

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.base.files import output_path, replacing
from harp_jax.base.randomness import hash64
from harp_jax.commands.options import judgments
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.folds import connected, make_folds
from harp_jax.corpus.labels import write_collection
from harp_jax.corpus.paths import qrels_file, query_file
from harp_jax.corpus.trec import Qrels, read_qrels, read_queries, read_run, select

NEEDED = {"judged": ("queries", "qrels"), "labels": ("labels",), "folds": ("queries",), "subsets": ("qrels",)}


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp queries",
        description="Write queries for an experiment.\n"
        "judged: the queries of a collection that have judgments, as queries.tsv and qrels.txt (the others need no ranking)\n"
        "labels: query<TAB>docid<TAB>level lines, as queries.tsv and qrels.txt; queries without a relevant document are left out\n"
        "folds: qid<TAB>fold lines; with --qrels no two folds share a relevant document\n"
        "subsets: nested random subsets of training queries; OUTPUT/draw-03/10.txt contains draw-03/5.txt",
        example="harp queries judged --queries=scifact --qrels=scifact/qrels/test.tsv --output=judged\n"
        "  harp queries labels --labels=labels.tsv --output=labels\n"
        "  harp queries folds --queries=queries.tsv --qrels=qrels.txt --count=5 --output=folds.tsv\n"
        "  harp queries subsets --qrels=qrels.txt --sizes=25%,50%,100% --draws=1 --output=subsets",
    )
    parser.add_argument("what", choices=NEEDED, help="what to write")
    parser.add_input(
        "--queries", default="", help="qid<TAB>text, JSONL, a BEIR folder, irds:ID; subsets: ids to draw from (all)"
    )
    parser.add_input("--qrels", default="", help="judgments: qid 0 docid level, a BEIR split, irds:ID")
    parser.add_input("--labels", default="", help="labels: query<TAB>docid<TAB>level; the level is optional (1)")
    parser.add_argument("--count", type=positive, default=5, help="folds: number of folds (5)")
    parser.add_input("--folds", default="", help="subsets: qid<TAB>fold, with --train_folds")
    parser.add_argument("--train_folds", default="", help="subsets: folds to draw from, separated by commas")
    parser.add_input("--run", default="", help="subsets: draw only queries that have candidates in this run")
    parser.add_input("--docs", default="", help="subsets: draw only queries with a relevant document among these")
    parser.add_argument(
        "--sizes",
        type=sizes,
        default="5,10,15,20",
        help="subsets: numbers of queries, or shares such as 25%% (5,10,15,20)",
    )
    parser.add_argument("--draws", type=positive, default=10, help="subsets: draws per size (10)")
    parser.add_argument("--seed", type=count, default=0, help="folds, subsets: random seed of the order (0)")
    parser.add_output("--output", required=True, help="directory to write; for folds, the file")
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
            f"{a.queries} has no text for any of the {len(qrels)} judged queries, such as {next(iter(qrels))}; check both"
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
    qrels = judgments(a.qrels, a.queries, a.folds, a.train_folds)
    if a.docs:
        docs = Documents.open(a.docs)
        qrels = {q: levels for q, levels in qrels.items() if any(n > 0 and d in docs for d, n in levels.items())}
    if a.run:
        qrels = select(qrels, read_run(a.run, queries=qrels))
    usable = judged_relevant(qrels)
    wanted = {name: number_of(name, len(usable)) for name in a.sizes}
    drawn = draw_subsets(qrels, sorted(set(wanted.values())), a.draws, a.seed)
    write_subsets(a.output, [{name: one[n] for name, n in wanted.items()} for one in drawn])
    counts = ", ".join(name if name == str(n) else f"{name} ({n})" for name, n in wanted.items())
    print(f"{a.output}: {a.draws} draws of {counts} of {len(usable)} queries")


def sizes(text: str) -> tuple[str, ...]:
    """The type of --sizes=10,25%: numbers from 1, and shares up to 100%."""
    found = dict.fromkeys(part.strip() for part in text.split(","))
    for name in found:
        if not 0 < int(name.removesuffix("%")) <= (100 if name.endswith("%") else 10**18):
            raise ValueError(name)
    return tuple(found)


def number_of(size: str, usable: int) -> int:
    """The number of queries for a size such as "10" or "25%" of `usable` queries."""
    return max(1, round(int(size[:-1]) / 100 * usable)) if size.endswith("%") else int(size)


def judged_relevant(qrels: Qrels) -> list[str]:
    """The queries with a relevant document."""
    return [qid for qid, judged in qrels.items() if any(level > 0 for level in judged.values())]


def draw_subsets(qrels: Qrels, sizes: Sequence[int], draws: int, seed: int = 0) -> list[dict[int, list[str]]]:
    """For each draw, size → queries with a relevant document; smaller subsets are prefixes of larger ones.

    Raises InputError if there are fewer queries than the largest size.
    """
    usable = judged_relevant(qrels)
    if max(sizes) > len(usable):
        raise InputError(f"only {len(usable)} queries can be trained on, fewer than {max(sizes)}; lower --sizes")
    found = []
    for number in range(draws):
        order = sorted(usable, key=lambda qid: (hash64(seed, "subset", number, qid), qid))
        found.append({size: order[:size] for size in sizes})
    return found


def write_subsets(output: str, drawn: Sequence[Mapping[str, list[str]]]) -> None:
    """Writes OUTPUT/draw-03/10.txt for the subset "10" of draw 3, and so on: query ids, one per line.

    Removes the lists of an earlier command, which would not be nested with these.
    """
    for path in glob.glob(os.path.join(glob.escape(output), "draw-*", "*.txt")):
        if re.fullmatch(r"draw-\d+/\d+%?\.txt", os.path.relpath(path, output)):
            os.remove(path)
    for number, by_size in enumerate(drawn):
        for size, queries in by_size.items():
            with replacing(os.path.join(output, f"draw-{number:02d}", f"{size}.txt")) as file:
                file.writelines(f"{qid}\n" for qid in queries)
