"""Ensembles of runs: mean of normalised scores, reciprocal rank fusion, or a weighted sum (given or fitted weights).

A document missing from a run gets the run's lowest normalised score for that query (0 in reciprocal rank fusion).
The first run's weight is 1. Each fold's weights are fitted on the other folds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import json_fields, read_json
from harp_jax.base.made import InputPath, InputPaths, once
from harp_jax.corpus import trec
from harp_jax.corpus.labels import check_relevant
from harp_jax.corpus.trec import Qrels, Run, ScoredQuery
from harp_jax.evaluation.measures import calculate, one_measure

# The parts that `harp site` adds up, besides rankers (`combined`).
BM25, ANCHORS, INLINKS, VECTORS = "BM25", "anchor texts (BM25F)", "in-links", "vectors"
METHODS = ("mean", "rrf", "weights", "join")
NORMALISE = ("minmax", "none")
RRF_K = 60  # Cormack, Clarke and Büttcher (2009)
GRID = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)  # weights to try
SWEEPS = 3  # of coordinate ascent over the runs

Pool = dict[str, tuple[list[str], np.ndarray]]  # qid → documents, scores [runs, documents]


def normalised(scores: np.ndarray, how: str) -> np.ndarray:
    """Scores [n] of one query, scaled to 0…1 ("minmax"; equal scores become 1) or unchanged ("none")."""
    if how == "none":
        return scores
    # Runs separate ties by the smallest steps (`strictly_decreasing`), so a spread of n such steps counts as equal.
    step = max(float(np.spacing(np.float32(np.abs(scores).max()))), trec.SMALLEST_STEP)
    spread = np.ptp(scores)
    return (scores - scores.min()) / spread if spread > len(scores) * step else np.ones_like(scores)


def pooled(runs: Sequence[Run], how: str) -> Pool:
    """The union of the runs' documents by query, in order of first occurrence, with each run's normalised scores."""
    pool: Pool = {}
    for qid in dict.fromkeys(qid for run in runs for qid in run):
        docids = list(dict.fromkeys(docid for run in runs if qid in run for docid in run[qid].ranked()))
        column = {docid: i for i, docid in enumerate(docids)}
        table = np.zeros((len(runs), len(docids)))
        for row, run in zip(table, runs):
            if qid in run:
                scores = normalised(np.asarray(run[qid].scores, np.float64), how)
                row[:] = scores.min()
                row[[column[docid] for docid in run[qid].docids]] = scores
        pool[qid] = (docids, table)
    return pool


def reciprocal_ranks(runs: Sequence[Run]) -> Iterator[ScoredQuery]:
    """Σ over the runs of 1 / (RRF_K + rank)."""
    for qid in dict.fromkeys(qid for run in runs for qid in run):
        scores: dict[str, float] = {}
        for run in runs:
            for rank, docid in enumerate(run[qid].ranked() if qid in run else (), 1):
                scores[docid] = scores.get(docid, 0.0) + 1.0 / (RRF_K + rank)
        yield qid, list(scores), np.array(list(scores.values()))


def weighted(pool: Pool, weights: Sequence[float]) -> Iterator[ScoredQuery]:
    """Σ weight · score."""
    for qid, (docids, table) in pool.items():
        yield qid, docids, np.asarray(weights) @ table


def sum_in_words(weights: Mapping[str, float]) -> str:
    """Weights by part as words: "BM25 + 2 × vectors"."""
    return " + ".join(part if weight == 1 else f"{weight:g} × {part}" for part, weight in weights.items())


class Fitting:
    """Fits weights by coordinate ascent on a measure over training queries; evaluates each weighting once."""

    def __init__(self, pool: Pool, qrels: Qrels, measure: str) -> None:
        self.pool = {qid: pool[qid] for qid in qrels if qid in pool}
        self.qrels, self.measure = qrels, one_measure(measure)
        self._known: dict[tuple[float, ...], dict[str, float]] = {}

    def values(self, weights: tuple[float, ...]) -> dict[str, float]:
        """qid → the measure."""
        if weights not in self._known:
            run = dict(trec.ordered(weighted(self.pool, weights)))
            (self._known[weights],) = calculate(self.qrels, run, [self.measure]).values()
        return self._known[weights]

    def best(self, queries: Sequence[str], start: tuple[float, ...]) -> tuple[float, ...]:
        """The best weights on `queries`, by coordinate ascent from `start`; ties: first found. InputError if none of them has a
        relevant document."""
        check_relevant({qid: self.qrels[qid] for qid in queries})
        fixed, weights = next((n for n, weight in enumerate(start) if weight), 0), start

        def mean(candidate: tuple[float, ...]) -> float:
            values = self.values(candidate)
            return sum(values[qid] for qid in queries) / len(queries)

        for _ in range(SWEEPS):
            before = weights
            for i in range(len(start)):
                if i != fixed:
                    tried = [(*weights[:i], value, *weights[i + 1 :]) for value in GRID]
                    weights = max([weights, *tried], key=mean)
            if weights == before:
                break
        return weights

    def by_fold(self, folds: Mapping[str, str], start: tuple[float, ...]) -> dict[str, tuple[float, ...]]:
        """Fold → the best weights on the other folds' queries."""
        return {fold: self.best(trec.outside(folds, fold, self.qrels), start) for fold in sorted(set(folds.values()))}


def joined(runs: Sequence[Run]) -> Iterator[ScoredQuery]:
    """Concatenates runs of different queries, such as one run per fold."""
    seen: set[str] = set()
    for run in runs:
        for qid, ranking in run.items():
            if qid in seen:
                raise InputError(f"query {qid} is in two of the runs; join is for runs of different queries")
            seen.add(qid)
            order = ranking.order()
            yield qid, [ranking.docids[i] for i in order], np.asarray(ranking.scores, np.float32)[order]


@dataclass(frozen=True)
class Fused:
    """The weights of the runs, by fold if they were fitted (else ""); empty for methods without weights."""

    weights: dict[str, list[float]]


@once
def fuse_files(
    paths: InputPaths,
    output: str,
    method: str,
    *,
    normalise: str = "minmax",
    qrels: InputPath = "",
    folds: InputPath = "",
    measure: str = "nDCG@10",
    weights: Sequence[float] = (),
    verdict: InputPath = "",
) -> Fused:
    """Fuses TREC runs by one of METHODS. "weights" needs one number per run in `weights`, a `verdict` (JSON of `harp site`) on
    the runs in this order, or `qrels` and `folds` to fit them. Raises InputError for bad input."""
    if verdict:
        decided = read_json(verdict)
        if decided.get("untested"):
            raise InputError(f"{verdict} has no weights, because nothing was tested; use --weights")
        with json_fields(verdict):
            systems = [row["system"] for row in decided["rows"][:-1]]  # the last one is the sum
            # 0: the verdict leaves the part out.
            weights = [float(decided["weights"].get(part, 0.0)) for part in systems]
    fitting = method == "weights" and not weights
    if fitting != bool(qrels) or fitting != bool(folds):
        raise InputError("--qrels and --folds are only for --method=weights, which needs them, --weights or --verdict")
    if weights and (method != "weights" or len(weights) != len(paths) or not any(weights)):
        name, each = "--verdict" if verdict else "--weights", f"one number for each of the {len(paths)} runs"
        raise InputError(f"{name} is only for --method=weights, with {each}, not all of them 0")
    runs = [trec.read_run(path) for path in paths]
    chosen = {"": tuple(weights)} if weights else {}
    rankings: Iterator[ScoredQuery]
    if method == "join":
        rankings = joined(runs)
    elif method == "rrf":
        rankings = reciprocal_ranks(runs)
    elif not fitting:
        rankings = weighted(pooled(runs, normalise), weights or [1 / len(runs)] * len(runs))
    else:
        # A query's weights are never fitted on its own fold.
        pool, fold_of = pooled(runs, normalise), trec.read_folds(folds)
        judged = trec.select(trec.read_qrels(qrels), fold_of)
        if lost := [qid for qid in pool if qid not in fold_of]:
            raise InputError(f"query {lost[0]} of the runs is in no fold; correct --folds")
        chosen = Fitting(pool, judged, measure).by_fold(fold_of, (1.0,) * len(runs))
        rankings = (one for qid in pool for one in weighted({qid: pool[qid]}, chosen[fold_of[qid]]))
    trec.write_run(output, rankings, tag=method)
    return Fused({fold: list(values) for fold, values in chosen.items()})
