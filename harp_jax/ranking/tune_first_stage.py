"""Tunes BM25's k1 and b, or query likelihood's μ, by grid search on judged training queries.

    python -m harp_jax.ranking.tune_first_stage --model=bm25 --docs=docs.tsv --queries=train.tsv --qrels=qrels.txt \
        --measure=nDCG@10 --output=bm25.json

With --folds every fold gets the parameters that are best on the *other* folds, and `harp_jax.ranking.first_stage
--parameters=bm25.json --folds=…` scores each query with the parameters of its fold: cross-validated, nothing tuned on
what is reported. Without folds, tune on training queries and report on others.
"""

import argparse
import itertools
import json
import sys
from typing import Any

from harp_jax.cli import run as run_command
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.folds import read_folds, select
from harp_jax.corpus.trec import ordered, read_qrels, read_queries, read_run
from harp_jax.errors import InputError
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.measures import parse_measures
from harp_jax.files import replacing
from harp_jax.progress import progress
from harp_jax.ranking.first_stage import add_collection_arguments, check_k, excluded_of, rerank, retrieve
from harp_jax.ranking.lexical import Collection

GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "bm25": {"k1": (0.6, 0.9, 1.2, 1.6, 2.0), "b": (0.2, 0.4, 0.6, 0.75, 0.9)},
    "ql": {"mu": (100.0, 250.0, 500.0, 1000.0, 1500.0, 2000.0, 3000.0, 5000.0)},
}


def grid(axes: dict[str, tuple[float, ...]]) -> list[dict[str, float]]:
    """All combinations of the values of each parameter."""
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def best(table: list[dict[str, float]], queries: list[str]) -> int:
    """The row with the largest mean over `queries`; the first of equals. table: a row a grid point, qid → value."""
    means = [sum(row[qid] for qid in queries) / len(queries) for row in table]
    return means.index(max(means))


def choose(points: list[dict[str, float]], table: list[dict[str, float]], folds: dict[str, str]) -> dict:
    """{"parameters": …} over all queries, or {"folds": {fold: …}} with each chosen on the other folds' queries."""
    queries = list(table[0])
    if not folds:
        return {"parameters": points[best(table, queries)]}
    chosen = {}
    for fold in sorted(set(folds.values())):
        others = [qid for qid in queries if qid in folds and folds[qid] != fold]
        if not others:
            raise InputError(f"no judged query lies outside fold {fold}; give --folds of the queries of --qrels")
        chosen[fold] = points[best(table, others)]
    return {"folds": chosen}


def at_the_edge(axes: dict[str, tuple[float, ...]], chosen: list[dict[str, float]]) -> list[str]:
    """Parameters whose best value is the smallest or largest of several that were tried: better ones may lie beyond."""
    return [
        field
        for field, tried in axes.items()
        if len(tried) > 1 and any(point[field] in (min(tried), max(tried)) for point in chosen)
    ]


def axes_of(arguments: argparse.Namespace) -> dict[str, tuple[float, ...]]:
    axes = dict(GRIDS[arguments.model])
    for field in ("k1", "b", "mu"):
        text = getattr(arguments, field)
        if text and field not in axes:
            raise InputError(f"{arguments.model} has no parameter {field}; its parameters are {', '.join(axes)}")
        if text:
            try:
                axes[field] = tuple(float(part) for part in text.split(","))
            except ValueError:
                raise InputError(f"--{field}={text}: write numbers separated by commas, as in 0.6,0.9,1.2") from None
    return axes


def main(arguments: argparse.Namespace) -> None:
    check_k(arguments.k)
    measures = parse_measures(arguments.measure)
    if len(measures) != 1:
        raise InputError(f"--measure={arguments.measure}: name one measure to tune for")
    queries = read_queries(arguments.queries)
    qrels = select(read_qrels(arguments.qrels), queries)
    if not qrels:
        raise InputError("no query of --queries is judged in --qrels; give training queries and their judgments")
    queries = {qid: queries[qid] for qid in qrels}
    folds = read_folds(arguments.folds) if arguments.folds else {}
    given = read_run(arguments.run, queries=qrels) if arguments.run else None
    axes = axes_of(arguments)
    points = grid(axes)
    excluded = excluded_of(arguments.exclude)
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    collection = Collection(progress(docs.texts(), total=len(docs), unit="documents", desc="index"), arguments.stemmer)
    table = []
    for parameters in progress(points, unit="settings", desc=f"tuning {arguments.model}"):
        settings = [(parameters, queries)]
        found = (
            retrieve(arguments.model, collection, settings, arguments.k or 100, excluded)
            if given is None
            else rerank(arguments.model, collection, settings, given, arguments.k, excluded)
        )
        run = dict(ordered(found))
        table.append(next(iter(evaluate(qrels, {"": run}, [arguments.measure]).per_query[""].values())))
    result: dict[str, Any] = {"model": arguments.model, "measure": str(measures[0]), "queries": len(qrels)}
    result |= choose(points, table, folds)
    result["grid"] = [{**p, "mean": sum(row.values()) / len(row)} for p, row in zip(points, table)]
    with replacing(arguments.output) as file:
        json.dump(result, file, indent=1)
    shown = result.get("parameters") or result["folds"]
    for field in at_the_edge(axes, list(shown.values()) if folds else [shown]):
        print(f"note: the best {field} is the smallest or largest tried; widen --{field}", file=sys.stderr)
    print(f"{arguments.output}: best {measures[0]} over {len(points)} settings and {len(qrels)} queries: {shown}")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.ranking.tune_first_stage",
        description="Grid search of BM25's or query likelihood's parameters.",
    )
    add_collection_arguments(parser)
    parser.add_argument("--qrels", required=True, help="judgments of the training queries")
    parser.add_argument("--measure", default="nDCG@10", help="what to tune for, as ir-measures names it (nDCG@10)")
    parser.add_argument("--folds", default="", help="qid<TAB>fold: choose for each fold on the others")
    for field, axes in (("k1", "bm25"), ("b", "bm25"), ("mu", "ql")):
        shown = ",".join(f"{value:g}" for value in GRIDS[axes][field])
        parser.add_argument(f"--{field}", default="", help=f"{axes}: values to try ({shown})")
    parser.add_argument("--output", required=True, help="the parameters, as JSON for first_stage --parameters")
    return parser


if __name__ == "__main__":
    run_command(main, arguments_parser())
