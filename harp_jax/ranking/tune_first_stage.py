"""Grid search over the parameters of BM25, BM25F or query likelihood on judged training queries.

If the best value of a parameter is the smallest or largest tried, the grid grows beyond it: a poorly tuned baseline makes every
other row look good (docs/lab/links.md has a case). Values given by the caller are not extended.

With folds, each fold gets the parameters that are best on the *other* folds, and `harp first-stage --parameters=… --folds=…`
scores each query with the parameters of its fold (cross-validation). Without folds, tune on training queries and report others.
"""

import heapq
import itertools
from collections.abc import Mapping

from harp_jax.base.errors import InputError
from harp_jax.base.files import output_path
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import STAGES, progress, say, stage
from harp_jax.base.randomness import hash64
from harp_jax.corpus.labels import check_relevant
from harp_jax.corpus.trec import ordered, outside, read_folds, read_qrels, read_queries, read_run, select
from harp_jax.evaluation.measures import calculate, one_measure
from harp_jax.ranking.first_stage import Candidates, Tuned, retrieve

SAMPLE = 2000  # queries to tune on: 25 settings on all 367,000 training queries of MS MARCO would take weeks

Axes = Mapping[str, tuple[float, ...]]  # parameter → values to try

GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "bm25": {"k1": (0.6, 0.9, 1.2, 2.0, 4.0), "b": (0.1, 0.2, 0.4, 0.6, 0.75)},
    # A page repeats its words more often than its few anchors do: below anchor_weight 10 and k1 2, anchors may not matter at all.
    "bm25f": {
        "k1": (0.9, 2.0, 4.0, 8.0, 16.0),
        "b": (0.1, 0.4),
        "anchor_weight": (1.0, 5.0, 20.0, 60.0, 200.0),
        "anchor_b": (0.4,),
    },
    "ql": {"mu": (100.0, 250.0, 500.0, 1000.0, 1500.0, 2000.0, 3000.0, 5000.0)},
}
# Values to extend a grid with; b and anchor_b range from 0 to 1.
LADDERS: dict[str, tuple[float, ...]] = {
    "k1": (0.1, 0.2, 0.4, 0.6, 0.9, 1.2, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0),
    "b": (0.0, 0.1, 0.2, 0.4, 0.6, 0.75, 0.9, 1.0),
    "anchor_weight": (0.2, 1.0, 5.0, 20.0, 60.0, 200.0, 600.0, 2000.0),
    "anchor_b": (0.0, 0.1, 0.2, 0.4, 0.6, 0.75, 0.9, 1.0),
    "mu": (10.0, 25.0, 50.0, 100.0, 5000.0, 10000.0, 20000.0, 50000.0),
}


def grid_of(axes: Axes) -> list[dict[str, float]]:
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


@once
def tune_files(
    candidates: Candidates,
    *,
    queries: InputPath,
    qrels: InputPath,
    output: str,
    model: str = "bm25",
    measure: str = "nDCG@10",
    axes: Axes | None = None,
    run: InputPath = "",
    folds: InputPath = "",
    sample: int = SAMPLE,
) -> Tuned:
    """Writes the best parameters as JSON for `first_stage_files`, and returns them.

    `axes` are fixed values to try for some parameters; the grids of the others (GRIDS) grow until no best value is at the edge.
    A best value left at the edge is reported on stderr, and so is the number of queries if there are more than `sample` (0: use
    all). `run` holds candidates to re-rank instead of retrieving. Raises InputError for bad input.
    """
    chosen_by = one_measure(measure)
    texts = read_queries(queries)
    known = select(read_qrels(qrels), texts)
    if not known:
        raise InputError("no query of --queries is judged in --qrels; use training queries and their judgments")
    judged = known
    if 0 < sample < len(known):  # more queries join without replacing these
        judged = select(known, set(heapq.nsmallest(sample, known, key=lambda qid: (hash64(0, "tune", qid), qid))))
        say(f"note: tuned on {len(judged)} of {len(known)} judged queries, drawn by hash; --sample=0 uses all")
    check_relevant(judged)
    texts = {qid: texts[qid] for qid in judged}
    fold_of = read_folds(folds) if folds else {}
    candidate_run = read_run(run, queries=judged) if run else None
    tried: dict[str, tuple[float, ...]] = {**GRIDS[model], **(axes or {})}
    points: list[dict[str, float]] = []
    table: list[Mapping[str, float]] = []  # of each point, query → value
    output_path(output)  # fails before the documents are read
    with progress(total=2, unit=STAGES):
        stage("index")
        index = candidates.indexed(model)
        stage(f"tuning {model}")
        while fresh := [point for point in grid_of(tried) if point not in points]:
            for point in progress(fresh, unit="settings"):
                scored = retrieve(model, index, [(point, texts)], candidates.k, candidates.excluded, candidate_run)
                ranked = dict(ordered(scored))
                table += calculate(judged, ranked, [chosen_by]).values()
            points += fresh

            # For each fold the best setting on the other folds' queries (without folds: on all), ties: the first.
            chosen, qids = {}, [*table[0]]
            for fold in sorted(set(fold_of.values())) or [""]:
                others = outside(fold_of, fold, qids) if fold_of else qids
                means = [sum(row[qid] for qid in others) / len(others) for row in table]
                chosen[fold] = points[means.index(max(means))]

            # Extends axes whose optimum is on the boundary by the next value of LADDERS, except those of the caller.
            edges = []
            for parameter, values in tried.items():
                low, high, best = min(values), max(values), {point[parameter] for point in chosen.values()}
                if len(values) == 1 or not best & {low, high}:
                    continue
                edges.append(parameter)
                if parameter not in (axes or {}):
                    below = [value for value in LADDERS[parameter] if value < low][-1:] if low in best else []
                    above = [value for value in LADDERS[parameter] if value > high][:1] if high in best else []
                    tried[parameter] = (*below, *tried[parameter], *above)
    for parameter in edges:
        say(f"note: the best {parameter} is the smallest or largest tried; widen --{parameter}")
    grid = [{**point, "mean": sum(row.values()) / len(row)} for point, row in zip(points, table)]
    result = Tuned(model, chosen.get(""), chosen if fold_of else None, str(chosen_by), len(judged), len(known), grid)
    result.save(output)
    return result
