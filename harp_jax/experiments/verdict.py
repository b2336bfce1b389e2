"""Decides which scores of a pool of candidates to add up, and measures the gain of each (`harp verdict`).

Each query's scores are scaled to 0…1 and added with equal weights. Parts are tried in the given order, cheap ones first, and kept
if the mean of the measure rises. A part that contains the first one is tried in its place: BM25F reads what BM25 reads, and a sum
of both counts words twice, which was worse on anchors and for users. Weights fitted on a few hundred anchors were worse, on these
anchors and for users: they favour parts that share words with anchors (docs/experiments/site.md). A part without information
lowers an equally weighted sum, so it is left out.

Anchors do not rank all parts as users do, so `harp site` corrects for what users of ten manuals showed. One part may be trusted:
vectors, because users' questions share fewer words with the pages than anchors do. It is kept unless the sum gets worse, as is
then the part that contains the first one, and counts double in the sum to use. Other parts may be reported only: a ranker trained
on the links is far better at anchors, which are links, than at questions.

The gain of the sum is measured by halves: chosen on one half of the queries, measured on the other. If there is none (with the
trusted part: if it is worse), the first part is used alone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from harp_jax.base.errors import InputError
from harp_jax.corpus.trec import Qrels, Run, ordered, outside, select
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.significance import LEVEL, ONE_RUN
from harp_jax.ranking.fuse import Fitting, pooled, sum_in_words, weighted

BETTER, SAME, WORSE = "better", "no difference shown", "worse"


@dataclass(frozen=True)
class Gain:
    """A sum's mean of the measure, its `difference` from another sum with a 95 % interval (not corrected), and the `verdict`."""

    inside: float
    difference: float
    interval: tuple[float, float]
    verdict: str

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.inside:.3f} ({self.difference:+.3f} [{low:+.3f}, {high:+.3f}])"


@dataclass(frozen=True)
class Rung(Gain):
    """A part that was tried: its gain over the parts kept before (verdict corrected for all parts), and its mean `alone`.

    `instead`: it replaces the first part.
    """

    part: str
    alone: float
    kept: bool
    instead: bool


@dataclass(frozen=True)
class Verdict:
    """The first part and its mean, the results of the others, the weights of the parts to use, and their gain over the first.

    `double`: the trusted part, or ""; `reported`: parts that are not added. `remark` says why the tests may be overconfident.
    """

    measure: str
    queries: int
    first: str
    mean: float
    rungs: tuple[Rung, ...]
    weights: dict[str, float]
    by_halves: Gain
    double: str = ""
    reported: tuple[str, ...] = ()
    remark: str = ""

    def as_dict(self) -> dict[str, object]:
        """All fields, and `words`, for a JSON file."""
        return {"use": self.use, "words": self.words()} | asdict(self)

    @property
    def use(self) -> str:
        """The parts to add up, with their weights."""
        return sum_in_words(self.weights)

    def words(self) -> str:
        """The verdict as sentences."""
        trusted = ", ".join([*(rung.part for rung in self.rungs if rung.instead), self.double] if self.double else [])
        found = [
            f"By {self.measure} over {self.queries} queries, {self.first} has {self.mean:.3f}. Added one by one with equal "
            f"weights, cheap ones first, and kept if the mean rises{f' ({trusted}: unless worse)' if trusted else ''}:"
        ]
        for rung in self.rungs:
            fate = f"kept{f' in place of {self.first}' if rung.instead else ''}" if rung.kept else "left out"
            fate = "only reported" if rung.part in self.reported else fate
            found.append(f"{rung.part} {rung}, alone {rung.alone:.3f}: {rung.verdict}, {fate};")
        if len(self.weights) > 1:
            found.append(f"use {self.use} (each query's scores scaled to 0…1 and added).")
        else:
            found.append(f"use {self.use} alone.")
        if self.reported:
            found.append(f"Anchors overrate {' and '.join(self.reported)}: judge your own queries before you add them.")
        so = "" if any(rung.kept for rung in self.rungs) else f", so {self.first} is used alone"
        found.append(
            f"Parts chosen on one half, their sum measured on the other: {self.by_halves}, {self.by_halves.verdict}{so}. "
            f"Parts are corrected for {len(self.rungs)} tests. Models were trained once each: the intervals {ONE_RUN}."
        )
        return " ".join([*found, *([f"Note: {self.remark}."] if self.remark else [])])


def decide(
    qrels: Qrels,
    folds: Mapping[str, str],
    parts: Mapping[str, Run],
    measure: str = "RR@10",
    instead: str = "",
    double: str = "",
    reported: Collection[str] = (),
) -> Verdict:
    """The verdict on runs of the same candidates; `folds` (qid → fold) divides the queries for `by_halves`.

    `instead`: the part that contains the first one and is tried in its place. `double`: the trusted part. `reported`: parts that
    are tested and not added. Raises InputError for a single part, unknown measures, one of these that is not a part
    after the first, and queries without a fold.
    """
    if len(parts) < 2:
        raise InputError("give two or more parts")
    pool = pooled([*parts.values()], "minmax")
    if lost := [qid for qid in pool if qid not in folds]:
        raise InputError(f"query {lost[0]} of the runs is in no fold; correct --folds")
    first, *others = parts
    for option, part in (("instead", instead), ("double", double), *(("reported", each) for each in reported)):
        if part and part not in others:
            raise InputError(
                f"no part after {first} is named {part!r} for --{option}; the parts are {', '.join(others)}"
            )
    place = [first, *others].index(instead) if instead else 0
    alone = evaluate(qrels, parts, measure, baseline=first)
    fitting, name = Fitting(pool, qrels, measure), alone.measures[0]

    def gain(before: Run, after: Run, tests: int) -> Gain:
        table = evaluate(qrels, {"before": before, "after": after}, measure, baseline="before")
        (found,) = table.comparisons
        sure = found.p * tests < LEVEL
        verdict = (BETTER if found.difference > 0 else WORSE) if sure else SAME
        return Gain(table.mean["after"][name], found.difference, found.interval, verdict)

    def summed(weights: Sequence[float], queries: Qrels) -> Run:
        return dict(ordered(weighted({qid: pool[qid] for qid in queries if qid in pool}, weights)))

    def used(weights: Sequence[float]) -> Weights:
        return tuple(2 * weight if part == double else weight for part, weight in zip(parts, weights))

    def keeps(queries: Sequence[str], before: Weights, after: Weights, part: str) -> bool:
        if part in reported:
            return False
        values = [fitting.values(weights) for weights in (before, after)]
        if sum(values[1][qid] - values[0][qid] for qid in queries) > 0:
            return True
        judged = select(qrels, queries)
        trusted = double and part in (double, instead)
        return bool(trusted) and gain(summed(before, judged), summed(after, judged), len(others)).verdict != WORSE

    chosen, tried = kept(keeps, list(qrels), [*parts], place)
    halves: Run = {}
    for fold in sorted(set(folds.values())):
        of_others, _ = kept(keeps, outside(folds, fold, qrels), [*parts], place)
        halves |= summed(used(of_others), select(qrels, [qid for qid, each in folds.items() if each == fold]))
    by_halves = gain(parts[first], halves, 1)
    holds = by_halves.difference > 0 or (bool(dict(zip(parts, chosen)).get(double)) and by_halves.verdict != WORSE)
    rungs = []
    for part, weight, (before, after) in zip(others, chosen[1:], tried):
        found = gain(summed(before, qrels), summed(after, qrels), len(tried))
        by_itself = alone.mean[part][name]
        rungs.append(
            Rung(**asdict(found), part=part, alone=by_itself, kept=holds and weight > 0, instead=part == instead)
        )
    weights = {part: weight for part, weight in zip(parts, used(chosen)) if weight} if holds else {first: 1.0}
    return Verdict(
        name,
        alone.queries,
        first,
        alone.mean[first][name],
        tuple(rungs),
        weights,
        by_halves,
        double,
        (*reported,),
        alone.too_few,
    )


Weights = tuple[float, ...]


def kept(
    keeps: Callable[[Sequence[str], Weights, Weights, str], bool],
    queries: Sequence[str],
    parts: Sequence[str],
    instead: int,
) -> tuple[Weights, list[tuple[Weights, Weights]]]:
    """The weights (1 for kept parts, 0 for others), and for each part after the first the weights without and with it.

    `keeps` decides on a part by `queries`. `instead`: the index of the part that replaces the first, or 0.
    """
    weights: Weights = (1.0, *(0.0,) * (len(parts) - 1))
    tried = []
    for place, part in enumerate(parts[1:], 1):
        more = (weights[0] * (place != instead), *weights[1:place], 1.0, *weights[place + 1 :])
        tried.append((weights, more))
        if keeps(queries, weights, more, part):
            weights = more
    return weights, tried
