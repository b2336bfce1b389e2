"""Tests a site's search on judged queries: each part's scores of the same candidates, the verdict, a table and a report.

The queries are anchor texts of held-out pages, or labelled ones.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harp_jax.base.files import replacing
from harp_jax.base.made import KEPT, InputPath, NamedInputs, Speed, once
from harp_jax.base.progress import progress
from harp_jax.corpus.query_sets import connected, make_folds
from harp_jax.corpus.trec import read_qrels, read_queries, read_run, write_run
from harp_jax.evaluation.report import Page, as_html, comparison_of, report
from harp_jax.ranking.first_stage import excluded_of
from harp_jax.ranking.fuse import ANCHORS, BM25, INLINKS, VECTORS
from harp_jax.site.options import FIELDS
from harp_jax.site.search import CombinedSearch, Settings
from harp_jax.site.verdict import Gain, Verdict, decide

RECOMMENDED = "recommended"  # row of the sum to use
MEASURE = "RR@10"
POOL = "pool.trec"
FILES = {BM25: "bm25.trec", ANCHORS: "bm25f.trec", INLINKS: "inlinks.trec", VECTORS: "vectors.trec"}


@dataclass(frozen=True)
class Row:
    """A system's mean, its difference from BM25, and whether that is significant; None for BM25 itself."""

    system: str
    mean: float
    change: float | None = None
    certain: bool | None = None


@dataclass(frozen=True)
class Tested:
    """The verdict, and its table."""

    verdict: Verdict
    rows: tuple[Row, ...]

    def table(self) -> str:
        """The rows as text: system, score, change, certain."""
        width = max(len("system"), *(len(row.system) for row in self.rows))
        lines = [f"{'system':<{width}}  {self.verdict.measure:>6}  change  certain?"]
        for row in self.rows:
            change = f"{row.change:+.3f}" if row.change is not None else ""
            certain = {True: "yes", False: "no", None: ""}[row.certain]
            lines.append(f"{row.system:<{width}}  {row.mean:>6.3f}  {change:>6}  {certain}".rstrip())
        return "\n".join(lines)


@once(changed=KEPT)
def score_parts(
    folder: Speed[str], settings: Settings, queries: InputPath, exclude: InputPath, output: str
) -> tuple[str, ...]:
    """Writes the scores of each part but the rankers as runs of the same candidates, and the candidates; returns the parts.

    `exclude`: qid<TAB>docid lines, such as the pages that the queries were taken from.
    """
    search = CombinedSearch(folder, settings.everything, settings=replace(settings, models={}))
    barred = excluded_of(exclude)
    found = {
        qid: search.scores(text, barred.get(qid, set()))
        for qid, text in progress(read_queries(queries).items(), unit="queries", desc="search")
    }
    os.makedirs(output, exist_ok=True)
    pool = ((qid, each.docids, np.arange(len(each.docids), 0, -1)) for qid, each in found.items() if each.docids)
    write_run(os.path.join(output, POOL), pool)
    for part in search.names:
        run = ((qid, each.docids, each.parts[part]) for qid, each in found.items() if each.docids)
        write_run(os.path.join(output, FILES[part]), run)
    return tuple(search.names)


@once(changed=KEPT)
def judge(
    parts: NamedInputs,
    queries: InputPath,
    qrels: InputPath,
    trusted: str,
    measured: tuple[str, ...],
    docs: InputPath,
    background: Speed[Mapping[str, Any]],
    output: str,
) -> Tested:
    """The verdict on the runs of `parts`. Writes the report `output`, and beside it the values per query as .tsv.

    The report and the table have the same comparisons. `trusted`, `measured`: see `decide`; `background`: workdirs as "curves".
    """
    judged, texts = read_qrels(qrels), read_queries(queries)
    runs = {part: read_run(path) for part, path in parts.items()}
    folds = {qid: str(fold) for qid, fold in make_folds(connected([*texts], judged), 2).items()}
    verdict, halves = decide(judged, folds, runs, MEASURE, ANCHORS, trusted, measured)
    rows = runs | {RECOMMENDED: halves if verdict.use != verdict.first else runs[BM25]}
    unseen = f"{RECOMMENDED}: {verdict.use}, measured on queries that did not choose its parts"
    remarks = (unseen, *([verdict.remark] if verdict.remark else []))
    found = report(
        judged,
        rows,
        f"{MEASURE} nDCG@10",
        Page("Search over a site", RECOMMENDED, remarks, docs=docs, fields=FIELDS, query_texts=queries, **background),
        baseline=BM25,
        confirm=MEASURE,
        chance=BM25,
    )
    table = found.table
    with replacing(output) as file:
        file.write(as_html(found))
    with replacing(os.path.splitext(output)[0] + ".tsv") as file:
        file.writelines(line + "\n" for line in table.per_query_lines())
    compared = {name: comparison_of(table, name) for name in rows}
    if (gain := compared[RECOMMENDED]) is not None:
        verdict = replace(verdict, expected=Gain.of(table.mean[RECOMMENDED][MEASURE], gain))
    numbers = tuple(
        Row(name, table.mean[name][MEASURE], *((c.difference, c.significant) if (c := compared[name]) else ()))
        for name in rows
    )
    return Tested(verdict, numbers)
