"""`harp compare`: BM25 and re-rankers on any judged collection, with intervals.

Rows: BM25, each model's re-ranking of BM25's candidates, their weighted sum with `--fuse`, the best order of the candidates, and
a random one. Everything fitted to judgments (BM25's parameters with `--tune`, the weights of sums) is fitted, for each fold of
queries, on the other folds.
"""

import argparse
import os
from collections.abc import Sequence

from harp_jax.base.cli import Parser, positive
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import check_links, check_outside, link
from harp_jax.checkpoints.export import fetched
from harp_jax.commands.options import add_backend, add_language, names
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.paths import is_irds
from harp_jax.corpus.trec import Qrels, components, read_qrels
from harp_jax.evaluation.evaluate import CHANCE, ORACLE
from harp_jax.evaluation.measures import parse_measures
from harp_jax.experiments.execution import execute, summary
from harp_jax.experiments.plan import Command, listing, resolve
from harp_jax.experiments.steps import Collection, fitted_sum, tuned_first_stage
from harp_jax.text.languages import ENGLISH

MEASURES = "nDCG@10 RR@10 AP R@100"
FOLDS = 5
FIRST = "BM25"  # row of the table
REPORTS = ("report.html", "report.md")
PASSED = ("max_length", "windows", "backend", "dtype")  # to harp rerank
CONNECTED = 0.5  # folds ignore relevant documents if a larger share of the queries is in one group


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp compare",
        description="Compare re-rankers with BM25 on a judged collection: table, intervals, Holm's p, wins and losses with "
        "texts, as a report.\nIf interrupted, repeat the command to resume.",
        example="harp compare scifact --model=ranker --k=100 --tune --fuse --output=out\n"
        "  harp compare irds:vaswani --model=ours=ranker --model=theirs=cross-encoder/ms-marco-MiniLM-L6-v2 --output=out",
    )
    parser.add_argument(
        "collection",
        metavar="COLLECTION",
        nargs="?",
        default="",
        help="BEIR folder, folder with docs, queries and qrels, or irds:ID",
    )
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="[NAME=]DIR",
        help="cross-encoder: export, Hugging Face directory, training workdir, or USER/NAME on the Hub; repeatable",
    )
    parser.add_output("--output", required=True, help="directory for all output")
    parser.add_input("--docs", default="", help="documents to use instead of those of COLLECTION")
    parser.add_input("--queries", default="", help="queries to use instead of those of COLLECTION")
    parser.add_input("--qrels", default="", help="judgments to use instead of those of COLLECTION")
    parser.add_input("--run", default="", help="candidates to re-rank (BM25's best)")
    parser.add_argument("--fields", type=names, default=FIELDS, help="document fields to read (title,url,body)")
    parser.add_argument("--k", type=positive, default=100, help="candidates per query (100)")
    add_backend(parser)
    add_language(parser)
    parser.add_argument("--tune", action="store_true", help="fit BM25's k1 and b to the judged queries, cross-fitted")
    parser.add_argument(
        "--fuse", action="store_true", help="also rank by the weighted sum of BM25 and each model, cross-fitted"
    )
    parser.add_argument(
        "--measures", default=MEASURES, help=f'measures, as named by ir-measures; the first decides ("{MEASURES}")'
    )
    parser.add_argument("--dry_run", action="store_true", help="print the commands and their cost; run nothing")
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    parse_measures(a.measures)  # wrong names are reported before anything is ranked
    paths = parts(a.collection, a.docs, a.queries, a.qrels)
    check_outside(a.output, [*paths.values(), *named(a.model).values()])
    check_links(os.path.join(a.output, name) for name in REPORTS)
    models = {name: fetched(path) for name, path in named(a.model).items()}
    read = dict.fromkeys((*paths.values(), *filter(None, [a.run]), *models.values()))
    if missing := [path for path in read if not (is_irds(path) or os.path.exists(path))]:
        hint = next((how_to_fetch(path) for path in missing if path in models.values()), "")
        raise InputError(f"{', '.join(missing)}: no such file or folder; check the paths{hint}")
    steps = resolve(commands(a, paths, models), a.output)
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


def commands(a: argparse.Namespace, paths: dict[str, str], models: dict[str, str]) -> list[Command]:
    """The steps: judged queries, folds, BM25, re-rankings, sums and the report."""
    fitted = [option for option in ("tune", "fuse") if getattr(a, option)]
    count, grouped = fold_count(read_qrels(paths["qrels"])) if fitted else (FOLDS, True)
    judged = Collection(paths["docs"], "{judged}/queries.tsv", "{judged}/qrels.txt", a.fields)
    measure = a.measures.split()[0]
    chosen = ["--queries=" + paths["queries"], "--qrels=" + paths["qrels"], "--output={out}"]
    given = [f"--k={a.k}", *([f"--run={a.run}"] if a.run else [])]
    given += [f"--language={a.language}"] if a.language != ENGLISH else []
    divided = [f"--queries={judged.queries}", f"--count={count}", *([f"--qrels={judged.qrels}"] if grouped else [])]
    found = [Command("judged", "queries", ["judged", *chosen])]
    if fitted:
        found.append(Command("folds", "queries", ["folds", *divided, "--output={out}"], suffix=".tsv"))
    if a.tune:
        found += tuned_first_stage("bm25", judged, folds="{folds}", measure=measure, options=given)
    else:
        found.append(Command("bm25", "first-stage", [*judged.options, *given, "--output={out}"], suffix=".trec"))
    rows, sums = {FIRST: "bm25"}, {}
    for number, (name, path) in enumerate(models.items(), 1):
        ranking = [f"--model={path}", *judged.options, "--run={bm25}", f"--k={a.k}"]
        ranking += [f"--{option}={value}" for option in PASSED if (value := getattr(a, option)) is not None]
        found.append(Command(f"ranker{number}", "rerank", [*ranking, "--output={out}"], suffix=".trec"))
        rows[name], sums[f"{FIRST} + {name}"] = f"ranker{number}", f"both{number}"
    for number, both in enumerate(sums.values() if a.fuse else (), 1):
        runs = ["{bm25}", f"{{ranker{number}}}"]
        found.append(fitted_sum(both, runs, qrels=judged.qrels, folds="{folds}", measure=measure))
    rows |= sums if a.fuse else {}
    remarks = [f"Candidates: the best {a.k} of {'a given run, scored by BM25' if a.run else 'BM25'}."]
    if fitted:
        what = " and ".join({"tune": "k1 and b of BM25", "fuse": "weights of sums"}[option] for option in fitted)
        shared = " that share no relevant document" if grouped else ""
        remarks.append(f"Fitted on the other {count - 1} of {count} folds of queries{shared}: {what}.")
    if not a.tune:
        remarks.append("k1 and b of BM25 are the defaults; fitted to the collection (tune) BM25 may be much better.")
    page = [
        f"--qrels={judged.qrels}",
        f"--query_texts={judged.queries}",
        f"--docs={judged.docs}",
        f"--fields={','.join(a.fields)}",
        f"--measures={a.measures}",
        *(f"--run={row}={{{step}}}" for row, step in rows.items()),
        f"--baseline={FIRST}",
        f"--chance={FIRST}",
        f"--oracle={FIRST}",
        f"--focus={next(iter(models))}",
        *(f"--remark={remark}" for remark in remarks),
        f"--title=Re-ranking of {a.collection or judged.docs}",
        "--markdown={out}/report.md",
        "--text={out}/table.txt",
        "--output={out}/report.html",
    ]
    return [*found, Command("report", "report", page)]


def parts(collection: str, docs: str, queries: str, qrels: str) -> dict[str, str]:
    """The paths of documents, queries and judgments: those given, else the collection's. InputError if one is missing."""
    found = {"docs": docs or collection, "queries": queries or collection, "qrels": qrels or collection}
    if absent := [f"--{name}" for name, path in found.items() if not path]:
        raise InputError(f"no {', '.join(absent)}; name a COLLECTION, or give all three")
    test = os.path.join(collection, "qrels", "test.tsv")
    return found | ({"qrels": test} if not qrels and os.path.exists(test) else {})


def named(models: Sequence[str]) -> dict[str, str]:
    """Name → path of models written NAME=PATH or PATH. Raises InputError for a name that another row of the table has."""
    found: dict[str, str] = {}
    for model in models:
        name, equals, path = model.partition("=")
        if not equals or os.path.exists(model):
            name, path = os.path.basename(os.path.normpath(model)), model
        if not name or not path:
            raise InputError(f"--model={model}: write NAME=DIR, or DIR")
        if name in (*found, FIRST, CHANCE, ORACLE) or name.startswith(f"{FIRST} + "):
            raise InputError(f"--model={model}: {name} is taken; write NAME=DIR with another name")
        found[name] = path
    return found


def fold_count(qrels: Qrels) -> tuple[int, bool]:
    """(folds, whether they keep queries together that share relevant documents).

    If most queries are connected in this way, folds do not keep them together.
    """
    groups = components(qrels)
    if max(map(len, groups)) <= CONNECTED * len(qrels):
        return min(FOLDS, len(groups)), True
    return min(FOLDS, len(qrels)), False
