"""Chooses the weights of a site's sum by judged queries, without training (`harp tune`).

The scores of the candidates are computed once; weights are then tried by coordinate ascent from those in use. What that gains is
measured by cross-fitting: each fold's queries are ranked with the weights that are best on the other folds. Weights fitted to few
queries are often no better on others, so they are used only if that gain is larger than its standard error.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.made import InputPath
from harp_jax.base.progress import progress
from harp_jax.corpus.labels import read_labels, relevant_only
from harp_jax.corpus.query_sets import make_folds
from harp_jax.corpus.trec import Qrels, components, read_qrels, read_queries
from harp_jax.evaluation.measures import one_measure
from harp_jax.evaluation.significance import clustered_variance
from harp_jax.ranking.fuse import Fitting, Pool, normalised, sum_in_words
from harp_jax.site.search import CombinedSearch, Settings

FOLDS = 10  # or one for each group of queries that share a document, if there are fewer
MIN_GROUPS = 10  # with fewer groups of queries the standard error means little


@dataclass(frozen=True)
class TunedWeights:
    """The best `weights` (part → weight) on `queries` judged queries, and the `before` in use. `gain`: out of fold, compared with
    those in use (mean `baseline` of the measure), and its standard `error`."""

    weights: dict[str, float]
    before: dict[str, float]
    measure: str
    queries: int
    baseline: float
    gain: float
    error: float

    @property
    def holds(self) -> bool:
        """Whether the weights are better than those in use."""
        return self.gain > self.error

    def words(self) -> str:
        """What the weights are and what they gain, in one line."""
        means = f"{self.measure} {self.baseline:.3f} → {self.baseline + self.gain:.3f} on {self.queries} queries"
        size = f"{self.gain:+.3f} ± {self.error:.3f} out of fold"
        if self.holds:
            return f"{sum_in_words(self.weights)}: {means}, {size}, compared with {sum_in_words(self.before)}"
        return f"no better weights than {sum_in_words(self.before)}: {means}, {size}"


def tune(
    folder: str, labels: InputPath, queries: InputPath = "", measure: str = "RR@10", dry_run: bool = False
) -> TunedWeights:
    """Tunes the sum of a site and, unless `dry_run`, writes weights that hold into its search.json, where `harp site` keeps them.
    `labels` and `queries`: see `read_judged`. A ranker takes part if it is in use. Raises InputError for bad input, and for too few
    queries."""
    settings = Settings.load(folder)
    parts = [part for part in settings.everything if part in settings.weights or part not in settings.models]
    search = CombinedSearch(folder, parts)
    texts, qrels = read_judged(labels, queries, {*search.ids})
    pool: Pool = {}
    for qid in progress(qrels, unit="queries", desc="search"):
        if (scores := search.scores(texts[qid])).docids:
            pool[qid] = scores.docids, np.array([normalised(scores.parts[part], "minmax") for part in parts])
    tuned = best_weights(pool, qrels, parts, settings.weights, measure)
    if tuned.holds and not dry_run:
        by = f"{tuned.measure} on {tuned.queries} queries"
        replace(settings, weights=tuned.weights, tuned=by).save(folder)
    return tuned


def best_weights(
    pool: Pool, qrels: Qrels, parts: Collection[str], before: Mapping[str, float], measure: str = "RR@10"
) -> TunedWeights:
    """Fits the weights of `parts`, the rows of the pool's tables, starting from `before`. Raises InputError if the queries form
    fewer than MIN_GROUPS groups that share no relevant document."""
    groups = components(qrels)
    if len(groups) < MIN_GROUPS:
        raise InputError(f"only {len(groups)} queries that share no relevant document, {MIN_GROUPS} needed; judge more")
    folds = {qid: str(fold) for qid, fold in make_folds(groups, min(FOLDS, len(groups))).items()}
    start = tuple(before.get(part, 0.0) for part in parts)
    fitting = Fitting(pool, qrels, measure)
    by_fold = fitting.by_fold(folds, start)
    baseline = fitting.values(start)
    differences = np.array([fitting.values(by_fold[folds[qid]])[qid] - baseline[qid] for qid in qrels])
    number = {qid: n for n, group in enumerate(groups) for qid in group}
    fitted = fitting.best([*qrels], start)
    return TunedWeights(
        weights={part: weight for part, weight in zip(parts, fitted) if weight},
        before=dict(before),
        measure=str(one_measure(measure)),
        queries=len(qrels),
        baseline=float(np.mean([baseline[qid] for qid in qrels])),
        gain=float(differences.mean()),
        error=math.sqrt(clustered_variance(differences, [number[qid] for qid in qrels])),
    )


def read_judged(labels: str, queries: str = "", docids: Collection[str] | None = None) -> tuple[dict[str, str], Qrels]:
    """(queries, judgments of the site's documents) of queries with a relevant document; prints a note about other documents.
    `labels`: query<TAB>document<TAB>level lines, or judgments by the ids of the file `queries`. `docids`: the site's documents
    (default: those that are judged). A page's judgment counts for its sections, unless they are judged; a section's counts for its
    page if only that is a document. Raises InputError if none is left."""
    texts, judgments = (read_queries(queries), read_qrels(labels)) if queries else read_labels(labels)
    docids = {docid for levels in judgments.values() for docid in levels} if docids is None else docids
    sections: dict[str, list[str]] = {}
    for docid in docids:
        sections.setdefault(docid.partition("#")[0], []).append(docid)
    judged: Qrels = {}
    absent: set[str] = set()
    for qid, levels in judgments.items():
        counted: dict[str, int] = {}
        for name, level in sorted(levels.items(), key=lambda item: "#" in item[0]):  # a section overrules its page
            page = name.partition("#")[0]
            meant = [name] if "#" in name and name in docids else sections.get(name, [page] if page in docids else [])
            absent |= set() if meant else {name}
            for docid in meant:
                counted[docid] = level if docid == name else max(level, counted.get(docid, level))
        judged[qid] = counted
    judged = {qid: levels for qid, levels in relevant_only(judged).items() if qid in texts}
    if not judged:
        wrong = f"no query has a text and a relevant document of the site, whose ids are like {next(iter(docids))}"
        raise InputError(f"{labels}: {wrong}; check it{' and --queries' if queries else ''}")
    if absent:
        print(f"note: {len(absent)} judged documents are not in the site", flush=True)
    return texts, judged
