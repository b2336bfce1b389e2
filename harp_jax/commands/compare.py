"""`harp compare`: BM25 and re-rankers on any judged collection."""

import argparse
import os
from collections.abc import Sequence

from harp_jax.base.cli import Parser, positive
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import check_links, check_outside, link
from harp_jax.checkpoints.export import fetched
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.paths import is_irds
from harp_jax.corpus.trec import Qrels, components, read_qrels
from harp_jax.evaluation.floors import CHANCE, ORACLE
from harp_jax.evaluation.measures import parse_measures
from harp_jax.experiments.execution import execute, summary
from harp_jax.experiments.plan import check_braces, listing, resolve
from harp_jax.experiments.plan_file import load_plan

MEASURES = "nDCG@10 RR@10 AP R@100"
FOLDS = 5
SPLIT = "test"
REPORTS = ("report.html", "report.md")
PASSED = ("max_length", "backend", "dtype")  # to harp rerank
CONNECTED = 0.5  # share of the queries in one group from which folds by relevant document are no folds


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp compare",
        description="Compare re-rankers with BM25 on a judged collection: table, intervals, Holm's p, wins and losses with "
        "texts, as a report.\nA killed command, repeated, resumes.",
        example="harp compare scifact --model=ranker --k=100 --tune --fuse --output=out\n"
        "  harp compare irds:vaswani --model=ours=ranker --model=theirs=cross-encoder/ms-marco-MiniLM-L6-v2 --output=out",
    )
    parser.add_argument(
        "collection",
        metavar="COLLECTION",
        nargs="?",
        default="",
        help="BEIR folder, folder with docs, queries and qrels, irds:ID",
    )
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="[NAME=]DIR",
        help="a BERT cross-encoder: export, Hugging Face directory, training workdir, or the Hub's USER/NAME; several times",
    )
    parser.add_output("--output", required=True, help="directory that receives everything")
    parser.add_input("--docs", default="", help="documents, if not those of COLLECTION")
    parser.add_input("--queries", default="", help="queries, if not those of COLLECTION")
    parser.add_input("--qrels", default="", help="judgments, if not those of COLLECTION")
    parser.add_argument("--split", default="", help="of a BEIR folder's judgments (the only one, or test)")
    parser.add_input("--run", default="", help="candidates to re-rank (the best of BM25)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    parser.add_argument("--k", type=positive, default=100, help="candidates a query (100)")
    parser.add_argument("--max_length", type=positive, help="tokens of query and document together (as in training)")
    parser.add_argument(
        "--backend", choices=("jax", "openvino", "onnx", "auto"), help="that computes the scores (jax; see harp rerank)"
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "int8"), help="of the computation (float32)")
    parser.add_argument("--tune", action="store_true", help="fit BM25's k1 and b to the judged queries, cross-fitted")
    parser.add_argument("--fuse", action="store_true", help="add the weighted sum of BM25 and each model, cross-fitted")
    parser.add_argument(
        "--measures", default=MEASURES, help=f'names as in ir-measures, the first decides ("{MEASURES}")'
    )
    parser.add_argument("--title", default="", help="of the report")
    parser.add_argument("--dry_run", action="store_true", help="print the commands and what they cost; run nothing")
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    if a.k < 2:
        raise InputError(f"--k={a.k}: use 2 or more candidates")
    parse_measures(a.measures)  # wrong names are reported before anything is ranked
    paths = parts(a.collection, a.docs, a.queries, a.qrels, a.split)
    missing = [path for path in (*paths.values(), a.run) if path and not (is_irds(path) or os.path.exists(path))]
    if missing:
        raise InputError(f"{', '.join(dict.fromkeys(missing))}: no such file or folder; check the paths")
    check_outside(a.output, [*paths.values(), *names(a.model).values()])
    check_links(os.path.join(a.output, name) for name in REPORTS)
    models = {name: fetched(path) for name, path in names(a.model, a.fuse).items()}
    for path in models.values():
        if not os.path.isdir(path):
            raise InputError(f"--model={path}: no such directory; name an export, or a workdir{how_to_fetch(path)}")
    check_braces(
        {**paths, "model": tuple(f"{name}={path}" for name, path in models.items()), "run": a.run, "title": a.title}
    )
    fitted = [f"--{name}" for name in ("tune", "fuse") if getattr(a, name)]
    folds, grouped = fold_count(read_qrels(paths["qrels"]), " and ".join(fitted)) if fitted else (FOLDS, True)
    plan = load_plan("compare").get_plan(
        **paths,
        models=tuple(f"{name}={path}" for name, path in models.items()),
        candidates=a.run,
        fields=tuple(a.fields.split(",")),
        k=a.k,
        rerank=tuple(f"{name}={value}" for name in PASSED if (value := getattr(a, name)) is not None),
        tune=a.tune,
        fuse=a.fuse,
        folds=folds,
        grouped=grouped,
        measures=a.measures,
        title=a.title or f"Re-ranking of {a.collection or paths['docs']}",
    )
    steps = resolve(plan, a.output)
    if a.dry_run:
        print(f"{listing(steps)}\n{summary(steps, a.output)}")
        return
    report, done = steps[-1].place, steps[-1].done
    execute(steps, a.output)
    if done:  # else the step has just printed it
        with open(os.path.join(report, "table.txt"), encoding="utf-8") as file:
            print(file.read(), end="")
    for name in REPORTS:
        link(os.path.join(report, name), os.path.join(a.output, name))
    print(f"report: {os.path.join(a.output, 'report.html')}")


def parts(collection: str, docs: str, queries: str, qrels: str, split: str) -> dict[str, str]:
    """The paths of documents, queries and judgments: those given, else the collection's. InputError where one is absent."""
    if split and is_irds(collection):
        raise InputError(f"--split={split}: name the split in the id, as in irds:beir/scifact/test")
    found = {"docs": docs or collection, "queries": queries or collection, "qrels": qrels or collection}
    if absent := [f"--{name}" for name, path in found.items() if not path]:
        raise InputError(f"no {', '.join(absent)}; name a COLLECTION, or give all three")
    folder = os.path.join(collection, "qrels")
    if not qrels and os.path.isdir(folder):
        named = os.path.join(folder, f"{split or SPLIT}.tsv")
        if split or os.path.exists(named):
            found["qrels"] = named
    return found


def names(models: Sequence[str], fuse: bool = False) -> dict[str, str]:
    """Name → path of models written NAME=PATH or PATH. Raises InputError for a name that is used twice.

    `fuse`: the table has a row for the sum of BM25 and each model, too.
    """
    found: dict[str, str] = {}
    for model in models:
        name, equals, path = model.partition("=")
        if not equals or os.path.exists(model):
            name, path = os.path.basename(os.path.normpath(model)), model
        if not name or not path:
            raise InputError(f"--model={model}: write NAME=DIR, or DIR")
        if name in found or name == "BM25":
            raise InputError(f"--model={model}: {name} is taken; write NAME=DIR with another name")
        found[name] = path
    sums = {f"BM25 + {name}" for name in found} if fuse else set()
    if taken := [name for name in found if name in sums | {CHANCE, ORACLE}]:
        raise InputError(
            f"--model={taken[0]}=…: {taken[0]} is another row of the table; write NAME=DIR with another name"
        )
    return found


def fold_count(qrels: Qrels, options: str = "--fuse") -> tuple[int, bool]:
    """(folds, whether they keep queries together that share relevant documents) on which `options` fit weights or parameters.

    Where most queries are connected in this way, folds of single queries remain. Raises InputError for fewer than two queries.
    """
    groups = components(qrels)
    if len(qrels) < 2:
        raise InputError(f"{options}: what is fitted is fitted on other queries, and there is one only; leave it out")
    if max(map(len, groups)) <= CONNECTED * len(qrels):
        return min(FOLDS, len(groups)), True
    return min(FOLDS, len(qrels)), False
