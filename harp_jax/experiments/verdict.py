"""Which ranking to use, the first stage or its sum with a ranker (`harp verdict`).

The ranker's weight is fitted on half of the queries and its gain measured on the other, both ways ("cross-fitted"); the weight to
use afterwards is fitted on all of them. The sum is used only where the interval of its gain over the first stage lies above 0.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from harp_jax.corpus.trec import Qrels, Run, ordered
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.significance import ONE_RUN
from harp_jax.evaluation.tables import Table
from harp_jax.ranking.fuse import fitted

BETTER, SAME, WORSE = "better", "no difference shown", "worse"
VERDICTS = {"better": BETTER, "inconclusive": SAME, "worse": WORSE}  # of `significance.Comparison`
FIRST, RANKER, BOTH = "first stage", "ranker", "both"


@dataclass(frozen=True)
class Gain:
    """A system's mean of the measure, its difference to the first stage with a 95 % bootstrap interval, and the verdict of the
    tests (`significance.Comparison`)."""

    mean: float
    difference: float
    interval: tuple[float, float]
    verdict: str = SAME

    @property
    def change(self) -> str:
        """The difference and its interval, in brackets."""
        low, high = self.interval
        return f"({self.difference:+.3f} [{low:+.3f}, {high:+.3f}])"

    def __str__(self) -> str:
        return f"{self.mean:.3f} {self.change}"


@dataclass(frozen=True)
class Verdict:
    """What to use and why. `weight` is the ranker's, relative to 1 for the first stage, both normalised by `normalise`; 0: use
    the first stage alone. `fitted_weight` is the one that is best on all queries, also without a significant gain. `before` is the
    sum with the run of the initial encoder; `training` compares the sum with the ranker with `before`. `links` is a run that uses
    the links without a model; `beside_links` compares its sum with the ranker with it. `remark` says why the tests may be too sure.
    """

    measure: str
    queries: int
    first: float
    ranker: Gain
    both: Gain
    fitted_weight: float
    normalise: str = "minmax"
    before: Gain | None = None
    training: Gain | None = None
    links: Gain | None = None
    beside_links: Gain | None = None
    remark: str = ""

    @property
    def verdict(self) -> str:
        return self.both.verdict

    @property
    def weight(self) -> float:
        return self.fitted_weight if self.verdict == BETTER else 0.0

    @property
    def use(self) -> str:
        return BOTH if self.weight else FIRST

    def as_dict(self) -> dict[str, object]:
        """All fields and decisions, for a JSON file."""
        decided = {"verdict": self.verdict, "use": self.use, "weight": self.weight, "words": self.words()}
        return decided | asdict(self)

    def words(self, first: str = "BM25") -> str:
        """The verdict as sentences."""
        found = (
            f"By {self.measure} over {self.queries} queries: {first} {self.first:.3f}, the ranker alone {self.ranker}, "
            f"{first} + ranker {self.both}."
        )
        if self.verdict == BETTER:
            advice = (
                f"The sum is better than {first}: use it, with weight {self.weight:g} for the ranker's scores (each query's "
                "scores scaled to 0…1)."
            )
        elif self.verdict == WORSE:
            advice = f"The ranker makes {first} worse: use {first} alone."
        else:
            advice = (
                f"No difference to {first} is shown: use {first} alone. More links, more training, or labelled queries may "
                "change that."
            )
        remarks = [f"One run of the ranker: the intervals {ONE_RUN}.", self.remark and f"Note: {self.remark}."]
        return " ".join(filter(None, [found, advice, self._of_training(first), self._of_links(), *remarks]))

    def _of_training(self, first: str) -> str:
        """Whether training improves the sum, compared with the initial encoder's run."""
        if self.before is None or self.training is None:
            return ""
        said = {
            BETTER: "training improves it",
            SAME: "no significant gain from training",
            WORSE: "training made it worse: rank with the initial embeddings (harp rerank --cosine)",
        }[self.training.verdict]
        return f"{first} + the initial encoder's embeddings, before training: {self.before}; {said} {self.training.change}."

    def _of_links(self) -> str:
        """What the ranker adds to a ranking that uses the links without a model."""
        if self.links is None or self.beside_links is None:
            return ""
        said = {
            BETTER: "the ranker improves it",
            SAME: "no significant gain from the ranker, and the links need no model",
            WORSE: "the ranker makes it worse: use it alone",
        }[self.beside_links.verdict]
        return (
            f"The links without a model (anchor texts as a field, in-links): {self.links}; {said} "
            f"{self.beside_links.change}."
        )


def decide(
    qrels: Qrels,
    folds: Mapping[str, str],
    first: Run,
    ranker: Run,
    measure: str = "RR@10",
    normalise: str = "minmax",
    before: Run | None = None,
    links: Run | None = None,
) -> Verdict:
    """The verdict on two runs of the same queries; `folds` (qid → fold) divides them for cross-fitting.

    `before`: the run of the encoder before training; `links`: the run of the links without a model. Raises InputError for
    unknown measures, and for queries without a fold.
    """

    def in_sum(one: Run, other: Run) -> Run:
        return dict(ordered(fitted([one, other], qrels, folds, measure, normalise)[1]))

    runs = {"first": first, "ranker": ranker, "both": in_sum(first, ranker)}
    training = beside = None
    if before is not None:
        runs["before"] = in_sum(first, before)
        (training,) = _gains(
            evaluate(qrels, {"before": runs["before"], "both": runs["both"]}, measure, "before")
        ).values()
    if links is not None:
        runs["links"] = links
        (beside,) = _gains(evaluate(qrels, {"links": links, "sum": in_sum(links, ranker)}, measure, "links")).values()
    weights, _ = fitted([first, ranker], qrels, {}, measure, normalise)
    table = evaluate(qrels, runs, measure, baseline="first")
    gains = _gains(table)
    name = table.measures[0]
    return Verdict(
        name, table.queries, table.mean["first"][name], gains["ranker"], gains["both"], weights[""][1], normalise,
        gains.get("before"), training, gains.get("links"), beside, table.too_few,
    )  # fmt: skip


def _gains(table: Table) -> dict[str, Gain]:
    name = table.measures[0]
    return {
        c.run: Gain(table.mean[c.run][name], c.difference, c.interval, VERDICTS[c.verdict]) for c in table.comparisons
    }
