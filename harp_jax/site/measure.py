"""Tests a site's search on judged queries: each part's scores of the same candidates, the verdict and a report.

The queries are anchor texts of held-out pages, or labelled ones.
"""

import os
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from harp_jax.base.files import replacing
from harp_jax.base.made import KEPT, InputPath, NamedInputs, Speed, once
from harp_jax.base.progress import progress
from harp_jax.corpus.query_sets import connected, make_folds
from harp_jax.corpus.trec import read_qrels, read_queries, read_run, write_run
from harp_jax.evaluation.report import Page, as_html, comparison_of, report
from harp_jax.ranking.first_stage import excluded_of
from harp_jax.ranking.fuse import ANCHORS, BM25, INLINKS, VECTORS, sum_in_words
from harp_jax.site.options import FIELDS
from harp_jax.site.search import CombinedSearch, Settings
from harp_jax.site.verdict import RECOMMENDED, Row, Verdict, decide

MEASURE = "RR@10"
POOL = "pool.trec"
FILES = {BM25: "bm25.trec", ANCHORS: "bm25f.trec", INLINKS: "inlinks.trec", VECTORS: "vectors.trec"}


@once(changed=KEPT)
def score_parts(
    folder: Speed[str], settings: Settings, queries: InputPath, exclude: InputPath, output: str
) -> tuple[str, ...]:
    """Writes the scores of each part but the rankers as runs of the same candidates, and the candidates; returns the parts.

    `exclude`: qid<TAB>docid lines, such as the pages that the queries were taken from.
    """
    search = CombinedSearch(folder, settings.everything, settings=replace(settings, models={}))
    barred, texts = excluded_of(exclude), read_queries(queries)
    bar = progress(texts.items(), unit="queries", desc="search")
    scored = {qid: scores for qid, text in bar if (scores := search.scores(text, barred.get(qid, set()))).docids}
    os.makedirs(output, exist_ok=True)
    pool = ((qid, each.docids, np.arange(len(each.docids), 0, -1)) for qid, each in scored.items())
    write_run(os.path.join(output, POOL), pool)
    for part in search.names:
        run = ((qid, each.docids, each.parts[part]) for qid, each in scored.items())
        write_run(os.path.join(output, FILES[part]), run)
    return tuple(search.names)


@once(changed=KEPT)
def judge(
    parts: NamedInputs,
    queries: InputPath,
    qrels: InputPath,
    test: str,
    trusted: str,
    measured: tuple[str, ...],
    docs: InputPath,
    curves: Speed[Mapping[str, str]],
    output: str,
) -> Verdict:
    """The verdict on the runs of `parts`. Writes the report `output`, and beside it the values per query as .tsv.

    The report and the verdict have the same comparisons. `test`: what it is called in the verdict; `trusted`, `measured`: see
    `decide`; `curves`: training workdirs by name.
    """
    judged, texts = read_qrels(qrels), read_queries(queries)
    runs = {part: read_run(path) for part, path in parts.items()}
    folds = {qid: str(fold) for qid, fold in make_folds(connected([*texts], judged), 2).items()}
    weights, halves = decide(judged, folds, runs, MEASURE, ANCHORS, trusted, measured)
    rows = runs | {RECOMMENDED: halves if weights != {BM25: 1.0} else runs[BM25]}
    unseen = f"{RECOMMENDED}: {sum_in_words(weights)}, measured on queries that did not choose its parts"
    page = Page("Search over a site", RECOMMENDED, (unseen,), curves, docs, FIELDS, queries)
    written = report(judged, rows, f"{MEASURE} nDCG@10", page, baseline=BM25, confirm=MEASURE, chance=BM25)
    table = written.table
    with replacing(output) as file:
        file.write(as_html(written))
    with replacing(os.path.splitext(output)[0] + ".tsv") as file:
        file.writelines(line + "\n" for line in table.per_query_lines())

    def row(name: str) -> Row:
        mean, change = table.mean[name][MEASURE], comparison_of(table, name)
        return Row(name, mean, change.difference, change.interval, change.significant) if change else Row(name, mean)

    return Verdict(weights, BM25, "", test, MEASURE, table.queries, tuple(map(row, rows)))
