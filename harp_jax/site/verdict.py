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
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.corpus.trec import Qrels, Run, ordered, outside, select
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.significance import LEVEL, Comparison
from harp_jax.ranking.fuse import Fitting, pooled, sum_in_words, weighted

BETTER, UNDECIDED, WORSE = "better", "not decided", "worse"


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
        return "\n".join([f"Use: {self.use}", f"Gain: {self.gain()}", *([f"Next: {self.next}"] if self.next else [])])

    def line(self) -> str:
        """The verdict as one line."""
        if self.expected is None or self.use == self.first:
            return f"{self.use} ({'untested' if self.expected is None else 'no sum ranked better'})"
        certain = "" if self.expected.verdict == BETTER else ", not certain"
        return f"{self.use} ({self.measure} {self.expected.difference:+.3f} compared with {self.first}{certain})"

    def gain(self) -> str:
        """The expected gain as a sentence."""
        if self.expected is None:
            return f"not measured: {self.untested}"
        if self.use == self.first:
            return f"none: no sum ranked {self.queries} queries better than {self.first} ({self.measure} {self.baseline:.3f})"
        low, high = self.expected.interval
        # An interval above 0 beside "do not decide" would contradict itself: the tests are corrected for all rows of the table.
        sure = f"95 % interval {low:+.3f} to {high:+.3f}" if self.expected.verdict != UNDECIDED else "not certain"
        means = f"{self.baseline:.3f} → {self.expected.mean:.3f}"
        return f"{self.measure} {means} compared with {self.first}, {self.expected.difference:+.3f} ({sure})"

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

    `instead`: the part that contains the first one and is tried in its place. `trusted`: the part that counts twice. `measured`:
    parts that are tested and not used. Raises InputError for a single part, unknown measures, one of these that is not a part after
    the first, and queries without a fold.
    """
    if len(parts) < 2:
        raise InputError("give two or more parts")
    pool = pooled([*parts.values()], "minmax")
    if lost := [qid for qid in pool if qid not in folds]:
        raise InputError(f"query {lost[0]} of the runs is in no fold; correct --folds")
    first, *others = parts
    for option, part in (("instead", instead), ("double", trusted), *(("reported", each) for each in measured)):
        if part and part not in others:
            raise InputError(
                f"no part after {first} is named {part!r} for --{option}; the parts are {', '.join(others)}"
            )
    replacing_first = [first, *others].index(instead) if instead else 0
    alone = evaluate(qrels, parts, measure, baseline=first)
    fitting, name = Fitting(pool, qrels, measure), alone.measures[0]

    def gain(before: Run, after: Run, tests: int) -> Gain:
        table = evaluate(qrels, {"before": before, "after": after}, measure, baseline="before")
        return Gain.of(table.mean["after"][name], table.comparisons[0], tests)

    def summed(weights: Sequence[float], queries: Qrels) -> Run:
        return dict(ordered(weighted({qid: pool[qid] for qid in queries if qid in pool}, weights)))

    def with_trust(weights: Sequence[float]) -> Weights:
        return tuple(2 * weight if part == trusted else weight for part, weight in zip(parts, weights))

    def adds(queries: Sequence[str], before: Weights, after: Weights, part: str) -> bool:
        if part in measured:
            return False
        values = [fitting.values(weights) for weights in (before, after)]
        if sum(values[1][qid] - values[0][qid] for qid in queries) > 0:
            return True
        judged = select(qrels, queries)
        unless_worse = trusted and part in (trusted, instead)
        return bool(unless_worse) and gain(summed(before, judged), summed(after, judged), len(others)).verdict != WORSE

    # The parts to use, chosen on all queries; and the sum by halves, chosen on the other half.
    chosen, tried = selected(adds, list(qrels), [*parts], replacing_first)
    halves: Run = {}
    for fold in sorted(set(folds.values())):
        of_others, _ = selected(adds, outside(folds, fold, qrels), [*parts], replacing_first)
        halves |= summed(with_trust(of_others), select(qrels, [qid for qid, each in folds.items() if each == fold]))
    expected = gain(parts[first], halves, 1)
    uses_trusted = bool(dict(zip(parts, chosen)).get(trusted))
    holds = expected.difference > 0 or (uses_trusted and expected.verdict != WORSE)
    components = []
    for part, weight, (before, after) in zip(others, chosen[1:], tried):
        found = gain(summed(before, qrels), summed(after, qrels), len(tried))
        used = holds and weight > 0
        components.append(ComponentResult(**asdict(found), part=part, alone=alone.mean[part][name], used=used,
                                          replaces_first=part == instead))  # fmt: skip
    return Verdict(
        weights={part: weight for part, weight in zip(parts, with_trust(chosen)) if weight} if holds else {first: 1.0},
        first=first,
        measure=name,
        queries=alone.queries,
        baseline=alone.mean[first][name],
        expected=expected,
        components=tuple(components),
        trusted=trusted,
        measured=(*measured,),
        remark=alone.too_few,
    ), halves


Weights = tuple[float, ...]


def selected(
    adds: Callable[[Sequence[str], Weights, Weights, str], bool],
    queries: Sequence[str],
    parts: Sequence[str],
    instead: int,
) -> tuple[Weights, list[tuple[Weights, Weights]]]:
    """The weights (1 for parts to use, 0 for others), and for each part after the first the weights without and with it.

    `adds` decides on a part by `queries`. `instead`: the index of the part that replaces the first, or 0.
    """
    weights: Weights = (1.0, *(0.0,) * (len(parts) - 1))
    tried = []
    for number, part in enumerate(parts[1:], 1):
        more = (weights[0] * (number != instead), *weights[1:number], 1.0, *weights[number + 1 :])
        tried.append((weights, more))
        if adds(queries, weights, more, part):
            weights = more
    return weights, tried
