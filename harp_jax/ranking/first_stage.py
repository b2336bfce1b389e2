"""First stage: candidates by BM25 or query likelihood, written as a TREC run; or a given run re-ranked by either.

    python -m harp_jax.ranking.first_stage --docs=docs.tsv --queries=queries.tsv --k=100 --output=bm25.trec
    python -m harp_jax.ranking.first_stage --model=ql --docs=docs.tsv --queries=queries.tsv --run=bm25.trec --output=ql.trec

Parameters are given (--k1, --b, --mu) or come from `harp_jax.ranking.tune_first_stage` (--parameters). Documents stream in once;
the index is held in memory (`lexical.py`). Queries that share no word with any document get no candidates and are reported.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from harp_jax.cli import run as run_command
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.folds import read_folds
from harp_jax.corpus.trec import Run, read_queries, read_run, write_run
from harp_jax.errors import InputError
from harp_jax.files import lines
from harp_jax.progress import progress
from harp_jax.ranking.lexical import MODELS, Collection, make, rescore, search

Rankings = Iterator[tuple[str, list[str], np.ndarray]]
Excluded = dict[str, set[str]]  # qid → documents that are no candidates, such as the query's own source
Settings = list[tuple[dict[str, float], dict[str, str]]]  # (parameters, the queries that they serve)


def retrieve(
    name: str, collection: Collection, settings: Settings, k: int, excluded: Excluded | None = None
) -> Rankings:
    """(qid, docids, scores) of the best `k` documents of every query, those without any included."""
    barred = excluded or {}
    for parameters, queries in settings:
        model = make(name, collection, parameters)
        for qid, query in progress(queries.items(), total=len(queries), unit="queries", desc=name):
            found = search(model, collection, query, k + len(barred.get(qid, ())))
            docids, scores = _without(*found, barred.get(qid))
            yield qid, docids[:k], scores[:k]


def rerank(
    name: str,
    collection: Collection,
    settings: Settings,
    run: Run,
    k: int | None = None,
    excluded: Excluded | None = None,
) -> Rankings:
    """(qid, docids, scores) of a run's best `k` candidates (all); equal scores stay in the order of the run.

    Raises InputError for a candidate that the collection lacks.
    """
    for parameters, queries in settings:
        model = make(name, collection, parameters)
        for qid in progress([qid for qid in run if qid in queries], unit="queries", desc=name):
            barred = (excluded or {}).get(qid, set())
            docids = [docid for docid in run[qid].ranked() if docid not in barred][:k]
            try:
                yield qid, docids, rescore(model, collection, queries[qid], docids)
            except KeyError as error:
                raise InputError(
                    f"candidate {error.args[0]} of query {qid} is not among the documents; mend --run or --docs"
                ) from error


def _without(docids: list[str], scores: np.ndarray, barred: set[str] | None) -> tuple[list[str], np.ndarray]:
    kept = [i for i, docid in enumerate(docids) if not barred or docid not in barred]
    return [docids[i] for i in kept], scores[kept]


def excluded_of(path: str) -> Excluded:
    """qid → document ids, from "qid docid" lines; nothing for an empty path."""
    excluded: Excluded = {}
    for number, line in lines(path) if path else ():
        parts = line.split()
        if parts and len(parts) != 2:
            raise InputError(f"{path}, line {number}: {len(parts)} columns; write 'qid<TAB>docid'")
        if parts:
            excluded.setdefault(parts[0], set()).add(parts[1])
    return excluded


def settings_of(arguments: argparse.Namespace, queries: dict[str, str]) -> Settings:
    """Which parameters serve which queries: the same for all, or those tuned without each query's fold."""
    own = {field: getattr(arguments, field) for field in MODELS[arguments.model]}
    given = {field: value for field, value in own.items() if value is not None}
    if not arguments.parameters:
        return [(given, queries)]
    if given:
        raise InputError(f"--{next(iter(given))} and --parameters contradict each other; give one of them")
    tuned = _read_tuned(arguments.parameters, arguments.model)
    if "folds" not in tuned:
        return [(tuned["parameters"], queries)]
    if not arguments.folds:
        raise InputError(f"{arguments.parameters} was tuned fold by fold; give the same --folds, so that no query is "
                         "scored by parameters that it helped to choose")  # fmt: skip
    folds = read_folds(arguments.folds)
    lost = [qid for qid in queries if folds.get(qid) not in tuned["folds"]]
    if lost:
        raise InputError(f"query {lost[0]} is in no fold that {arguments.parameters} was tuned for; mend --folds")
    return [
        (parameters, {qid: text for qid, text in queries.items() if folds[qid] == fold})
        for fold, parameters in tuned["folds"].items()
    ]


def _read_tuned(path: str, model: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            tuned = json.load(file)
        if tuned["model"] != model:
            raise InputError(f"{path} holds parameters of {tuned['model']}; give --model={tuned['model']}")
        tuned["folds" if "folds" in tuned else "parameters"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: no output of harp_jax.ranking.tune_first_stage ({error}); tune again") from error
    return tuned


def check_k(k: int | None) -> None:
    if k is not None and k < 1:
        raise InputError(f"--k={k}: give the number of candidates a query, 1 at least")


def main(arguments: argparse.Namespace) -> None:
    check_k(arguments.k)
    queries = read_queries(arguments.queries)
    settings = settings_of(arguments, queries)
    run = read_run(arguments.run) if arguments.run else None
    if run is not None and (strangers := [qid for qid in run if qid not in queries]):
        raise InputError(f"the run names {len(strangers)} queries that --queries lacks, {strangers[0]} first; mend one")
    excluded = excluded_of(arguments.exclude)
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    texts = progress(docs.texts(), total=len(docs), unit="documents", desc="index")
    collection = Collection(texts, arguments.stemmer)
    name = arguments.model
    found = (
        retrieve(name, collection, settings, arguments.k or 100, excluded)
        if run is None
        else rerank(name, collection, settings, run, arguments.k, excluded)
    )
    ranked: set[str] = set()

    def counted() -> Rankings:
        for qid, docids, scores in found:
            if docids:
                ranked.add(qid)
            yield qid, docids, scores

    write_run(arguments.output, counted(), tag=name)
    without = [qid for qid in queries if qid not in ranked]
    if without:
        shown = ", ".join(without[:5]) + (", …" if len(without) > 5 else "")
        why = "match no document" if run is None else "have no candidates in the run"
        print(f"note: {len(without)} of {len(queries)} queries {why}: {shown}", file=sys.stderr)
    print(f"{arguments.output}: {name} for {len(ranked)} queries over {len(docs)} documents")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.ranking.first_stage",
        description="BM25 or query likelihood: candidates, or a run re-ranked.",
    )
    add_collection_arguments(parser)
    parser.add_argument("--output", required=True, help="the TREC run to write")
    parser.add_argument("--k1", type=float, help="bm25: saturation of term frequency (0.9)")
    parser.add_argument("--b", type=float, help="bm25: length normalisation (0.4)")
    parser.add_argument("--mu", type=float, help="ql: Dirichlet's prior, in words (1000)")
    parser.add_argument("--parameters", default="", help="parameters that harp_jax.ranking.tune_first_stage wrote")
    parser.add_argument("--folds", default="", help="qid<TAB>fold, where the parameters were tuned fold by fold")
    return parser


def add_collection_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that retrieving and tuning share."""
    parser.add_argument("--model", default="bm25", choices=sorted(MODELS), help="bm25, or ql: query likelihood (bm25)")
    parser.add_argument("--docs", required=True, help="documents: MS MARCO docs.tsv, JSONL, a folder of either")
    parser.add_argument("--queries", required=True, help="queries: qid<TAB>text, or JSONL")
    parser.add_argument("--run", default="", help="candidates to re-rank, instead of retrieving from the collection")
    parser.add_argument("--exclude", default="", help="qid<TAB>docid: pairs that are no candidates")
    parser.add_argument("--k", type=int, help="candidates a query (100; all of --run)")
    parser.add_argument("--stemmer", default="english", help="Snowball stemmer, '' for none (english)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are indexed (title,url,body)")


if __name__ == "__main__":
    run_command(main, arguments_parser())
