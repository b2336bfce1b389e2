"""Compares re-rankers with BM25 on a judged collection (`harp compare`).

Rows: BM25, each model's re-ranking of BM25's candidates, on request their weighted sum, the best order of the candidates, and a
random one. What is fitted to judgments (BM25's parameters, the weights of sums) is fitted, for each fold of queries, on the others.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from harp_jax.base.errors import InputError
from harp_jax.base.steps import Steps
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.query_sets import QRELS, QUERIES, fold_queries, judged_queries
from harp_jax.corpus.trec import components, read_qrels
from harp_jax.evaluation.evaluate import CHANCE, ORACLE
from harp_jax.evaluation.measures import parse_measures
from harp_jax.evaluation.report import Evaluation, Page, report_files
from harp_jax.ranking.first_stage import Candidates, first_stage_files
from harp_jax.ranking.fuse import BM25, fuse_files
from harp_jax.ranking.rerank import DEFAULTS, Reranking, rerank_files
from harp_jax.ranking.tune_first_stage import tune_files
from harp_jax.text.languages import ENGLISH

MEASURES = "nDCG@10 RR@10 AP R@100"
FOLDS = 5
CONNECTED = 0.5  # folds ignore relevant documents if a larger share of the queries is in one group


@dataclass(frozen=True)
class Compared:
    """What to compare: a collection, the `models` (row → directory), and how. `k` candidates per query, BM25's or those of `run`;
    `tune` fits BM25's k1 and b, `fuse` adds sums of BM25 and each model; the first of `measures` decides. `reranking` is for all
    models, with the fields and k given here."""

    docs: str
    queries: str
    qrels: str
    models: Mapping[str, str]
    run: str = ""
    fields: tuple[str, ...] = FIELDS
    k: int = 100
    language: str = ENGLISH
    tune: bool = False
    fuse: bool = False
    measures: str = MEASURES
    reranking: Reranking = DEFAULTS
    title: str = "Re-ranking"

    def check(self) -> None:
        """Raises InputError for unknown measures, and for a model named like another row."""
        parse_measures(self.measures)
        for name in self.models:
            if name in (BM25, CHANCE, ORACLE) or name.startswith(f"{BM25} + ") or not identifier(name):
                raise InputError(f"a model named {name!r}: the name is taken or has no letter; choose another")


def compare(options: Compared, output: str) -> str:
    """Ranks and writes OUTPUT/report.html; returns the table as text. A repeated call resumes. Raises
    InputError for bad input, and if other options made what is in `output`."""
    o, steps = options, Steps(output)
    measure, path = o.measures.split()[0], partial(os.path.join, output)
    candidates = Candidates(o.docs, o.fields, o.language, "", o.k)
    reranking = replace(o.reranking, fields=o.fields, k=o.k)
    remarks = [f"Candidates: the best {o.k} of {'a given run, scored by BM25' if o.run else 'BM25'}."]
    try:
        steps("Judged queries", judged_queries, o.queries, o.qrels, path("judged"))
        queries, qrels, folds = path("judged", QUERIES), path("judged", QRELS), ""
        if o.tune or o.fuse:
            # Queries that share relevant documents are in one fold, unless most of the queries are connected in this way.
            groups = components(read_qrels(qrels))
            apart = max(map(len, groups)) <= CONNECTED * sum(map(len, groups))
            count = min(FOLDS, len(groups) if apart else sum(map(len, groups)))
            folds = path("folds.tsv")
            steps("Folds", fold_queries, queries, folds, qrels if apart else "", count)
            parts = " and ".join([*(["k1 and b of BM25"] if o.tune else []), *(["weights of sums"] if o.fuse else [])])
            shared = " that share no relevant document" if apart else ""
            remarks.append(f"Fitted on the other {count - 1} of {count} folds of queries{shared}: {parts}.")

        # The first stage.
        first, tuning = path("bm25.trec"), {}
        if o.tune:
            tuning = {"tuned": path("bm25.json"), "folds": folds}
            fitting = {"measure": measure, "run": o.run, "folds": folds}
            steps("Tune BM25", tune_files, candidates, queries=queries, qrels=qrels, output=tuning["tuned"], **fitting)  # type: ignore[arg-type]
        else:
            remarks.append(
                "k1 and b of BM25 are the defaults; fitted to the collection (tune) BM25 may be much better."
            )
        steps(BM25, first_stage_files, candidates, queries=queries, output=first, run=o.run, **tuning)  # type: ignore[arg-type]

        # The models, and their sums with BM25.
        rows = {BM25: [first]}
        for name, model in o.models.items():
            rows[name] = [path(f"{identifier(name)}.trec")]
            steps(f"Re-rank by {name}", rerank_files, model, o.docs, queries, first, rows[name][0], reranking)
        for name in o.models if o.fuse else ():
            both, fitting = path(f"bm25_{identifier(name)}.trec"), {"qrels": qrels, "folds": folds, "measure": measure}
            steps(f"Sum of {BM25} and {name}", fuse_files, (first, *rows[name]), both, "weights", **fitting)  # type: ignore[arg-type]
            rows[f"{BM25} + {name}"] = [both]
    finally:
        steps.close()
    evaluation = Evaluation(qrels, rows, measures=o.measures, baseline=BM25, chance=BM25, oracle=BM25)
    texts = {"docs": o.docs, "fields": o.fields, "query_texts": queries}
    page = Page(o.title, next(iter(o.models)), tuple(remarks), **texts)  # type: ignore[arg-type]
    return report_files(evaluation, page, path("report.html"))


def identifier(name: str) -> str:
    """A row's name as the name of a file."""
    return re.sub(r"\W+", "_", name).strip("_").lower()
