"""Which scores of a pool of candidates to add up, and what each of them is worth (`harp verdict`).

Parts are tried in the given order, cheap ones first. A part is kept where the sum with it is better than the sum of those kept
before: the weights are fitted on one half of the queries and the gain measured on the other, both ways ("cross-fitted"), and its
p-values are corrected for the number of parts that were tried. The weights to use afterwards are fitted on all queries.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from harp_jax.base.errors import InputError
from harp_jax.corpus.trec import Qrels, Run, ordered
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.significance import LEVEL, ONE_RUN
from harp_jax.ranking.fuse import fitted

BETTER, SAME, WORSE = "better", "no difference shown", "worse"


@dataclass(frozen=True)
class Rung:
    """A part that was tried: its mean of the measure `alone` and `inside` the sum with the parts kept before; the sum's
    `difference` to the sum without it, with a 95 % interval (not corrected), and the `verdict` (corrected)."""

    part: str
    alone: float
    inside: float
    difference: float
    interval: tuple[float, float]
    verdict: str

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.inside:.3f} ({self.difference:+.3f} [{low:+.3f}, {high:+.3f}], alone {self.alone:.3f})"


@dataclass(frozen=True)
class Verdict:
    """The first part and its mean, what came of the others, and the weights of those to use, fitted on all queries; each query's
    scores are scaled to 0…1 first (minmax). `remark` says why the tests may be too sure."""

    measure: str
    queries: int
    first: str
    mean: float
    rungs: tuple[Rung, ...]
    weights: dict[str, float]
    remark: str = ""

    def as_dict(self) -> dict[str, object]:
        """All fields, and `words`, for a JSON file."""
        return {"use": self.use, "words": self.words()} | asdict(self)

    @property
    def use(self) -> str:
        """The parts to add up."""
        return " + ".join(self.weights)

    def words(self) -> str:
        """The verdict as sentences."""
        found = [
            f"By {self.measure} over {self.queries} queries, {self.first} has {self.mean:.3f}. Added one by one, cheap ones first:"
        ]
        said = {BETTER: "better, kept", SAME: "no difference shown, left out", WORSE: "worse, left out"}
        found += [f"{rung.part} {rung}: {said[rung.verdict]};" for rung in self.rungs]
        if len(self.weights) > 1:
            weights = ", ".join(f"{part} {weight:g}" for part, weight in self.weights.items())
            found.append(f"use {self.use} (weights {weights}; each query's scores scaled to 0…1).")
        else:
            found.append(f"use {self.first} alone.")
        found.append(f"Corrected for {len(self.rungs)} tests. Of models one training each: the intervals {ONE_RUN}.")
        return " ".join([*found, *([f"Note: {self.remark}."] if self.remark else [])])


def decide(qrels: Qrels, folds: Mapping[str, str], parts: Mapping[str, Run], measure: str = "RR@10") -> Verdict:
    """The verdict on runs of the same candidates; `folds` (qid → fold) divides the queries for cross-fitting.

    Raises InputError for one part only, for unknown measures, and for queries without a fold.
    """
    if len(parts) < 2:
        raise InputError("give two parts or more")
    first, *others = parts
    alone = evaluate(qrels, parts, measure, baseline=first)
    name = alone.measures[0]
    kept, rungs = [first], []
    before = parts[first]
    for part in others:
        _, found = fitted([parts[each] for each in (*kept, part)], qrels, folds, measure, "minmax")
        after = dict(ordered(found))
        table = evaluate(qrels, {"before": before, "after": after}, measure, baseline="before")
        (gain,) = table.comparisons
        verdict = SAME
        if gain.p * len(others) < LEVEL:
            verdict = BETTER if gain.difference > 0 else WORSE
        mean = alone.mean[part][name], table.mean["after"][name]
        rungs.append(Rung(part, *mean, gain.difference, gain.interval, verdict))
        if verdict == BETTER:
            kept, before = [*kept, part], after
    weights, _ = fitted([parts[part] for part in kept], qrels, {}, measure, "minmax")
    chosen = dict(zip(kept, weights[""]))
    return Verdict(name, alone.queries, first, alone.mean[first][name], tuple(rungs), chosen, alone.too_few)
