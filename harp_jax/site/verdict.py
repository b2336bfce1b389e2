"""Decides which scores of a pool of candidates to add up, and what the sum is expected to gain (`harp site`).

Each query's scores are scaled to 0…1 and added with equal weights: greedy forward selection, cheapest first; a part is used if the
mean of the measure rises. BM25F subsumes BM25 and replaces it: a sum of both would count words twice. Fitted weights favour parts
that share words with anchors, so no weights are fitted.

Anchors do not rank all parts as users do (docs/lab/site.md), so `harp site` trusts one part more: vectors, because users'
questions share fewer words with the pages than anchors do. A trusted part, and the part that replaces the first, is used unless the
sum gets worse; the trusted part counts twice. Other parts may be measured without being used: a ranker trained on the links is far
better at anchors, which are links, than at questions.

The expected gain is measured by halves: chosen on one half of the queries, measured on the other. If there is none (with the
trusted part: if it is worse), the first part is used alone.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from harp_jax.base.files import replacing
from harp_jax.corpus.trec import Qrels, Run, ordered, outside, select
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.significance import LEVEL, Comparison
from harp_jax.ranking.fuse import Fitting, pooled, sum_in_words, weighted

BETTER, UNDECIDED, WORSE = "better", "not decided", "worse"
Weights = tuple[float, ...]


@dataclass(frozen=True)
class Gain:
    """A sum's mean of the measure, its `difference` from another sum with a 95 % interval, and the `verdict` of the tests."""

    mean: float
    difference: float
    interval: tuple[float, float]
    verdict: str

    @classmethod
    def of(cls, mean: float, comparison: Comparison, tests: int = 1) -> "Gain":
        """The verdict is corrected for `tests` further tests (Bonferroni)."""
        certain = comparison.p * tests < LEVEL
        verdict = (BETTER if comparison.difference > 0 else WORSE) if certain else UNDECIDED
        return cls(mean, comparison.difference, comparison.interval, verdict)


@dataclass(frozen=True)
class ComponentResult(Gain):
    """A part that was tried: its gain over the parts used before it, and its mean `alone`."""

    part: str
    alone: float
    used: bool
    replaces_first: bool


@dataclass(frozen=True)
class Verdict:
    """What to use: `weights` (part → weight), its `expected` gain over the `first` part (mean `baseline`), and why.

    `trusted`: the part that counts twice, or ""; `measured`: parts that are not used; `untested`: why nothing was tested, or "";
    `remark`: why the tests may be overconfident, or ""; `next`: what to do next.
    """

    weights: dict[str, float]
    first: str
    measure: str = ""
    queries: int = 0
    baseline: float = 0.0
    expected: Gain | None = None
    components: tuple[ComponentResult, ...] = ()
    trusted: str = ""
    measured: tuple[str, ...] = ()
    untested: str = ""
    remark: str = ""
    next: str = ""

    @property
    def use(self) -> str:
        """The parts to add up, with their weights."""
        return sum_in_words(self.weights)

    def words(self) -> str:
        """The verdict as three lines (two without advice): what to use, what it gains, what to do next."""
        if self.expected is None:
            gain = f"not measured: {self.untested}"
        elif self.use == self.first:
            gain = f"none: no sum ranked {self.queries} queries better than {self.first} ({self.measure} {self.baseline:.3f})"
        else:
            low, high = self.expected.interval
            # An interval above 0 beside "not decided" would contradict itself: the tests are corrected for all rows of the table.
            sure = f"95 % interval {low:+.3f} to {high:+.3f}" if self.expected.verdict != UNDECIDED else "not certain"
            means = f"{self.measure} {self.baseline:.3f} → {self.expected.mean:.3f}"
            gain = f"{means} compared with {self.first}, {self.expected.difference:+.3f} ({sure})"
        return "\n".join([f"Use: {self.use}", f"Gain: {gain}", *([f"Next: {self.next}"] if self.next else [])])

    def line(self) -> str:
        """The verdict as one line."""
        if self.expected is None or self.use == self.first:
            return f"{self.use} ({'untested' if self.expected is None else 'no sum ranked better'})"
        certain = "" if self.expected.verdict == BETTER else ", not certain"
        return f"{self.use} ({self.measure} {self.expected.difference:+.3f} compared with {self.first}{certain})"

    def save(self, path: str) -> None:
        """Writes all fields, `use`, `words` and `line` as JSON."""
        said = {"use": self.use, "words": self.words(), "line": self.line()}
        with replacing(path) as file:
            json.dump(said | asdict(self), file, indent=1)


def decide(
    qrels: Qrels,
    folds: Mapping[str, str],
    parts: Mapping[str, Run],
    measure: str = "RR@10",
    instead: str = "",
    trusted: str = "",
    measured: Collection[str] = (),
) -> tuple[Verdict, Run]:
    """The verdict on runs of the same candidates, and the run by halves; `folds` (qid → fold) divides the queries for it.

    `parts`: two or more, the first stage first. `instead`: the part that contains the first one and is tried in its place.
    `trusted`: the part that counts twice. `measured`: parts that are tested and not used.
    """
    first, *others = parts
    pool = pooled([*parts.values()], "minmax")
    alone = evaluate(qrels, parts, measure, baseline=first)
    fitting, name = Fitting(pool, qrels, measure), alone.measures[0]

    def summed(weights: Sequence[float], queries: Qrels) -> Run:
        return dict(ordered(weighted({qid: pool[qid] for qid in queries if qid in pool}, weights)))

    def gain(before: Run, after: Run, tests: int) -> Gain:
        table = evaluate(qrels, {"before": before, "after": after}, measure, baseline="before")
        return Gain.of(table.mean["after"][name], table.comparisons[0], tests)

    def choose(queries: Sequence[str]) -> tuple[Weights, list[tuple[Weights, Weights]]]:
        """The weights that `queries` choose (1 or 0), and for each part after the first those without and with it."""
        weights: Weights = (1.0, *(0.0,) * len(others))
        tried = []
        for number, part in enumerate(others, 1):
            more = (0.0 if part == instead else weights[0], *weights[1:number], 1.0, *weights[number + 1 :])
            tried.append((weights, more))
            if part in measured:
                continue
            before, after = fitting.values(weights), fitting.values(more)
            adds = sum(after[qid] - before[qid] for qid in queries) > 0
            if not adds and trusted and part in (trusted, instead):  # used unless it is worse
                judged = select(qrels, queries)
                adds = gain(summed(weights, judged), summed(more, judged), len(others)).verdict != WORSE
            weights = more if adds else weights
        return weights, tried

    def with_trust(weights: Weights) -> Weights:
        return tuple(2 * weight if part == trusted else weight for part, weight in zip(parts, weights))

    # The parts to use, chosen on all queries; and the sum by halves, chosen on the other half.
    chosen, tried = choose(list(qrels))
    halves: Run = {}
    for fold in sorted(set(folds.values())):
        weights, _ = choose(outside(folds, fold, qrels))
        halves |= summed(with_trust(weights), select(qrels, [qid for qid, each in folds.items() if each == fold]))
    expected = gain(parts[first], halves, 1)
    uses_trusted = bool(dict(zip(parts, chosen)).get(trusted))
    holds = expected.difference > 0 or (uses_trusted and expected.verdict != WORSE)
    components = tuple(
        ComponentResult(
            **asdict(gain(summed(before, qrels), summed(after, qrels), len(tried))),
            part=part,
            alone=alone.mean[part][name],
            used=holds and weight > 0,
            replaces_first=part == instead,
        )
        for part, weight, (before, after) in zip(others, chosen[1:], tried)
    )
    return Verdict(
        weights={part: weight for part, weight in zip(parts, with_trust(chosen)) if weight} if holds else {first: 1.0},
        first=first,
        measure=name,
        queries=alone.queries,
        baseline=alone.mean[first][name],
        expected=expected,
        components=components,
        trusted=trusted,
        measured=(*measured,),
        remark=alone.too_few,
    ), halves
