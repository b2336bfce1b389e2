"""Decides which scores of a pool of candidates to add up (`decide`), and says it (`Verdict`).

Each query's scores are scaled to 0…1 and added with equal weights: greedy forward selection, cheapest first; a part is used if the
mean of the measure rises. BM25F subsumes BM25 and replaces it: a sum of both would count words twice. Fitted weights favour parts
that share words with anchors, so no weights are fitted.

Anchors do not rank all parts as users do (docs/lab/site.md), so `harp site` trusts one part more: vectors, because users'
questions share fewer words with the pages than anchors do. A trusted part, and the part that replaces the first, is used unless the
sum gets worse; the trusted part counts twice. Other parts may be measured without being used: a ranker trained on the links is far
better at anchors, which are links, than at questions.

The gain is measured by halves: chosen on one half of the queries, measured on the other. If there is none (with the trusted part:
if it is worse), the first part is used alone.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from harp_jax.base.files import replacing
from harp_jax.corpus.trec import Qrels, Run, ordered, outside, select
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.significance import LEVEL
from harp_jax.ranking.fuse import Fitting, pooled, sum_in_words, weighted

RECOMMENDED = "recommended"  # row of the sum to use
ANCHOR_TEST, LABEL_TEST = "anchors", "labels"
Weights = tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """A system's mean, and its change from the first part: with a 95 % interval, and whether it is certain; None for the first."""

    system: str
    mean: float
    change: float | None = None
    interval: tuple[float, float] | None = None
    certain: bool | None = None


@dataclass(frozen=True)
class Verdict:
    """What to use: `weights` (part → weight), and what that gains over the `first` part: `rows` has every system, the sum last.

    `test`: ANCHOR_TEST or LABEL_TEST; `untested`: why nothing was tested, or ""; `next`: what to do next.
    """

    weights: dict[str, float]
    first: str
    untested: str = ""
    test: str = ""
    measure: str = ""
    queries: int = 0
    rows: tuple[Row, ...] = ()
    next: str = ""

    @property
    def use(self) -> str:
        """The parts to add up, with their weights."""
        return sum_in_words(self.weights)

    def words(self) -> str:
        """The verdict as three lines (two without advice): what to use, what it gains, what to do next."""
        if not self.rows:
            gain = f"Gain: not measured: {self.untested}"
        elif self.use == self.first:
            mean = f"{self.measure} {self.rows[0].mean:.3f}"
            gain = f"Gain: none: no sum ranked {self.queries} queries better than {self.first} ({mean})"
        else:
            row = self.rows[-1]
            assert row.change is not None and row.interval is not None
            means = f"{self.measure} {self.rows[0].mean:.3f} → {row.mean:.3f} compared with {self.first}"
            low, high = row.interval
            # An interval above 0 beside "not certain" would contradict itself: the tests are corrected for all rows of the table.
            sure = f"95 % interval {low:+.3f} to {high:+.3f}" if row.certain else "not certain"
            gain = f"Gain: {means}, {row.change:+.3f} ({sure})"
            if row.change < 0:  # of a trusted part that is not certainly worse
                by, decide = f"{self.queries} judged queries", "more judged queries"
                if self.test == ANCHOR_TEST:
                    by, decide = "the site's own anchor texts", "judged queries"
                gain = f"Measured by {by}: {means}, lower, not certain; {decide} decide: harp tune"
        return "\n".join([f"Use: {self.use}", gain, *([f"Next: {self.next}"] if self.next else [])])

    def line(self) -> str:
        """The verdict as one line."""
        if not self.rows or self.use == self.first:
            return f"{self.use} ({'no sum ranked better' if self.rows else 'untested'})"
        row = self.rows[-1]
        certain = "" if row.certain else ", not certain"
        return f"{self.use} ({self.measure} {row.change:+.3f} compared with {self.first}{certain})"

    def table(self) -> str:
        """The rows as text: system, score, change, certain."""
        width = max(len(row.system) for row in self.rows)
        lines = [f"{'system':<{width}}  {self.measure:>6}  change  certain?"]
        for row in self.rows:
            change = f"{row.change:+.3f}" if row.change is not None else ""
            certain = {True: "yes", False: "no", None: ""}[row.certain]
            lines.append(f"{row.system:<{width}}  {row.mean:>6.3f}  {change:>6}  {certain}".rstrip())
        return "\n".join(lines)

    def save(self, path: str) -> None:
        """Writes all fields, `use`, `words` and `line` as JSON."""
        with replacing(path) as file:
            json.dump({"use": self.use, "words": self.words(), "line": self.line()} | asdict(self), file, indent=1)


def decide(
    qrels: Qrels,
    folds: Mapping[str, str],
    parts: Mapping[str, Run],
    measure: str = "RR@10",
    instead: str = "",
    trusted: str = "",
    measured: Collection[str] = (),
) -> tuple[dict[str, float], Run]:
    """Part → weight, from runs of the same candidates, and the run by halves; `folds` (qid → fold) divides the queries for it.

    `parts`: two or more, the first stage first. `instead`: the part that contains the first one and is tried in its place.
    `trusted`: the part that counts twice. `measured`: parts that are not used.
    """
    first, *others = parts
    pool = pooled([*parts.values()], "minmax")
    fitting = Fitting(pool, qrels, measure)

    def summed(weights: Sequence[float], queries: Qrels) -> Run:
        return dict(ordered(weighted({qid: pool[qid] for qid in queries if qid in pool}, weights)))

    def change(before: Run, after: Run, tests: int) -> tuple[float, bool]:
        """The difference of the means, and whether it is certainly worse, corrected for `tests` tests (Bonferroni)."""
        (comparison,) = evaluate(qrels, {"before": before, "after": after}, measure, baseline="before").comparisons
        return comparison.difference, comparison.difference < 0 and comparison.p * tests < LEVEL

    def choose(queries: Sequence[str]) -> Weights:
        """The weights that `queries` choose."""
        weights: Weights = (1.0, *(0.0,) * len(others))
        for number, part in enumerate(others, 1):
            if part in measured:
                continue
            more = (0.0 if part == instead else weights[0], *weights[1:number], 1.0, *weights[number + 1 :])
            before, after = fitting.values(weights), fitting.values(more)
            adds = sum(after[qid] - before[qid] for qid in queries) > 0
            if not adds and trusted and part in (trusted, instead):  # used unless it is worse
                judged = select(qrels, queries)
                adds = not change(summed(weights, judged), summed(more, judged), len(others))[1]
            weights = more if adds else weights
        return tuple(2 * weight if part == trusted else weight for part, weight in zip(parts, weights))

    # The parts to use, chosen on all queries; and the sum by halves, chosen on the other half.
    chosen = dict(zip(parts, choose(list(qrels))))
    halves: Run = {}
    for fold in sorted(set(folds.values())):
        weights = choose(outside(folds, fold, qrels))
        halves |= summed(weights, select(qrels, [qid for qid, each in folds.items() if each == fold]))
    gain, worse = change(parts[first], halves, 1)
    holds = gain > 0 or (chosen.get(trusted) and not worse)
    return {part: weight for part, weight in chosen.items() if weight} if holds else {first: 1.0}, halves
