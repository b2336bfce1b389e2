"""Compares re-rankers with BM25 on a judged collection (`harp compare`).

Rows: BM25, each model's re-ranking of BM25's candidates, on request their weighted sum, the best order of the candidates, and a
random one. What is fitted to judgments (BM25's parameters, the weights of sums) is fitted, for each fold of queries, on the others.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harp_jax.base.errors import InputError
from harp_jax.base.steps import Steps
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.query_sets import QRELS, QUERIES, fold_queries, judged_queries
from harp_jax.corpus.trec import Qrels, components, read_qrels
from harp_jax.evaluation.evaluate import CHANCE, ORACLE
from harp_jax.evaluation.from_files import Evaluation, report_files
from harp_jax.evaluation.measures import parse_measures
from harp_jax.evaluation.report import Page
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


def compare(given: Compared, output: str) -> str:
    """Ranks and writes OUTPUT/report.html; returns the table as text. A repeated call resumes. Raises
    InputError for bad input, and if other options made what is in `output`."""
    given.check()
    measure, steps = given.measures.split()[0], Steps(output)

    def place(name: str) -> str:
        return os.path.join(output, name)

    try:
        steps("Judged queries", judged_queries, given.queries, given.qrels, place("judged"))
        queries, qrels = place(f"judged/{QUERIES}"), place(f"judged/{QRELS}")
        folds, count, grouped = "", FOLDS, True
        if given.tune or given.fuse:
            count, grouped = fold_count(read_qrels(qrels))
            folds = place("folds.tsv")
            steps("Folds", fold_queries, queries, folds, qrels if grouped else "", count)

        # The first stage.
        candidates, tuned = Candidates(given.docs, given.fields, given.language, "", given.k), ""
        if given.tune:
            tuned = place("bm25.json")
            steps(
                "Tune BM25", tune_files, candidates, queries=queries, qrels=qrels, output=tuned, measure=measure, run=given.run,
                folds=folds,
            )  # fmt: skip
        first = place("bm25.trec")
        tuning = {"tuned": tuned, "folds": folds} if given.tune else {}
        steps(BM25, first_stage_files, candidates, queries=queries, output=first, run=given.run, **tuning)  # type: ignore[arg-type]

        # The models, and their sums with BM25.
        rows: dict[str, list[str]] = {BM25: [first]}
        options = replace(given.reranking, fields=given.fields, k=given.k)
        for name, model in given.models.items():
            rows[name] = [place(f"{identifier(name)}.trec")]
            steps(f"Re-rank by {name}", rerank_files, model, given.docs, queries, first, rows[name][0], options)
        for name in given.models if given.fuse else ():
            both = place(f"bm25_{identifier(name)}.trec")
            steps(
                f"Sum of {BM25} and {name}", fuse_files, (first, *rows[name]), both, "weights", qrels=qrels, folds=folds,
                measure=measure,
            )  # fmt: skip
            rows[f"{BM25} + {name}"] = [both]
    finally:
        steps.close()
    evaluation = Evaluation(qrels, rows, measures=given.measures, baseline=BM25, chance=BM25, oracle=BM25)
    page = Page(
        given.title, next(iter(given.models)), _remarks(given, count, grouped), docs=given.docs, fields=given.fields,
        query_texts=queries,
    )  # fmt: skip
    return report_files(evaluation, page, place("report.html"))


def _remarks(given: Compared, folds: int, grouped: bool) -> tuple[str, ...]:
    """What the table cannot show: the candidates, and what was fitted."""
    said = [f"Candidates: the best {given.k} of {'a given run, scored by BM25' if given.run else 'BM25'}."]
    fitted = [what for asked, what in ((given.tune, "k1 and b of BM25"), (given.fuse, "weights of sums")) if asked]
    if fitted:
        shared = " that share no relevant document" if grouped else ""
        said.append(f"Fitted on the other {folds - 1} of {folds} folds of queries{shared}: {' and '.join(fitted)}.")
    if not given.tune:
        said.append("k1 and b of BM25 are the defaults; fitted to the collection (tune) BM25 may be much better.")
    return tuple(said)


def identifier(name: str) -> str:
    """A row's name as the name of a file."""
    return re.sub(r"\W+", "_", name).strip("_").lower()


def fold_count(qrels: Qrels) -> tuple[int, bool]:
    """(folds, whether they keep queries together that share relevant documents). If most queries are connected in this way, folds
    do not keep them together."""
    groups = components(qrels)
    if max(map(len, groups)) <= CONNECTED * len(qrels):
        return min(FOLDS, len(groups)), True
    return min(FOLDS, len(qrels)), False
