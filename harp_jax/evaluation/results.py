"""The result of an evaluation, formatted as text, HTML or JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING

from harp_jax.corpus.trec import abbreviate
from harp_jax.evaluation.significance import LEVEL, ONE_RUN, Comparison

if TYPE_CHECKING:
    import pandas

MARK = "†"  # marks values that differ from the baseline in both tests after Holm's correction


@dataclass(frozen=True)
class Table:
    """Measures of several runs on the same queries; `str(table)` is the table as text.

    `mean` is run → measure → value; `per_query` is run → measure → qid → value (averaged over seeds). By run, `missing` lists
    queries only in the qrels (they count as zero), `unknown` queries only in the run (they are left out).
    """

    measures: list[str]
    queries: int
    mean: dict[str, dict[str, float]]
    per_query: dict[str, dict[str, dict[str, float]]]
    missing: dict[str, list[str]]
    unknown: dict[str, list[str]]
    groups: list[int]  # one per query; a group is resampled together
    seeds: dict[str, int] = field(default_factory=dict)
    baseline: str = ""
    comparisons: list[Comparison] = field(default_factory=list)
    few_groups: float = 0.0  # effective number of query groups if too few to resample, else 0
    verdicts: dict[str, list[str]] = field(default_factory=dict)  # system → what it does not beat (`evaluate`)
    judged_by: str = ""  # the measure of the verdicts and intervals
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)  # run → 95 % interval of its mean
    # System → queries whose candidates differ from those of "chance".
    other_candidates: dict[str, int] = field(default_factory=dict)

    @property
    def marked(self) -> set[tuple[str, str]]:
        """(run, measure) pairs that differ significantly from the baseline."""
        return {(c.run, c.measure) for c in self.comparisons if c.significant}

    @property
    def about_seeds(self) -> list[str]:
        """How much training seeds change the differences, compared with queries, if a system has several runs; and that the
        intervals of the others leave training seeds out."""
        said = [f"{c.run} {c.seed_ratio:.1f} ({c.measure})" for c in self.comparisons if c.seed_ratio is not None]
        spread = f"spread of training seeds, as a multiple of the standard error over queries: {', '.join(said)}"
        names = dict.fromkeys([*self.intervals, *(c.run for c in self.comparisons)])
        single = [name for name in names if self.seeds.get(name, 1) == 1]
        alone = f"one run of {', '.join(single)}: the intervals {ONE_RUN}"
        return [*([spread] if said else []), *([alone] if single else [])]

    def __str__(self) -> str:
        """One line per run, four decimal places, followed by the comparisons with the baseline."""
        marks = {pair: MARK for pair in self.marked}
        space = " " if marks else ""
        rows = [["run", *(measure + space for measure in self.measures)]]
        for name, mean in self.mean.items():
            seeds = self.seeds.get(name, 1)
            values = [f"{mean[m]:.4f}{marks.get((name, m), space)}" for m in self.measures]
            rows.append([name if seeds == 1 else f"{name} (mean of {seeds})", *values])
        verdicts = ["", *(", ".join(self.verdicts.get(name, ())) for name in self.mean)]
        lines = [f"{line}  {verdict}".rstrip() for line, verdict in zip(_aligned(rows), verdicts)]
        if not self.comparisons:
            return "\n".join(lines)
        legend = f"{MARK} differs from {self.baseline}: p < {LEVEL} in both tests after Holm's correction\n"
        columns = ["measure", "Δ", "95 % interval", "p t", "Holm", "p rand.", "Holm", "verdict"]
        rows = [[f"against {self.baseline}", *columns]]
        for c in self.comparisons:
            p_values = (c.t_test, c.t_test_holm, c.randomisation, c.randomisation_holm)
            shown = ["<.0001" if p < 0.0001 else f"{p:.4f}" for p in p_values]
            interval = f"[{c.interval[0]:+.4f}, {c.interval[1]:+.4f}]"
            rows.append([c.run, c.measure, f"{c.difference:+.4f}", interval, *shown, c.verdict])
        against = [line.rstrip() for line in _aligned(rows)]
        return "\n".join([*lines, legend if marks else "", *against, *self.about_seeds])

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas frame of the means: one row per run, one column per measure."""
        import pandas

        return pandas.DataFrame.from_dict(self.mean, orient="index", columns=self.measures)

    def _repr_html_(self) -> str:
        """The text, for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"

    def json(self) -> str:
        """All fields of the table, including the values of every query."""
        return json.dumps({**asdict(self), "about_seeds": self.about_seeds}, indent=1, ensure_ascii=False)

    def per_query_lines(self) -> list[str]:
        """Tab-separated run, measure, qid, value and the query's group, with a header. White space in names becomes a space."""
        return ["run\tmeasure\tqid\tvalue\tgroup"] + [
            f"{' '.join(name.split())}\t{measure}\t{qid}\t{value:.6f}\t{group}"
            for name, by_measure in self.per_query.items()
            for measure, values in by_measure.items()
            for (qid, value), group in zip(values.items(), self.groups)
        ]

    def notes(self) -> list[str]:
        """Warnings: queries that count as zero or are left out, other candidates than those of "chance", too few groups."""
        said = []
        for name, missing in self.missing.items():
            for qids, what in (
                (missing, "of the qrels are missing and count as zero"),
                (self.unknown[name], "are not in the qrels and are left out"),
            ):
                said += [f"{name}: {len(qids)} queries {what}: {abbreviate(qids)}"] if qids else []
        for name, count in self.other_candidates.items():
            differ = (
                f"the candidates of {count} of {self.queries} queries differ from those of the row of random orders"
            )
            said.append(f"{name}: {differ}, so its verdict compares different candidates")
        if self.verdicts and self.judged_by:
            rule = "the 95 % bootstrap interval of the difference includes 0 or lies below it"
            said.append(f"verdicts by {self.judged_by}: {rule}")
        if self.few_groups:
            said.append(
                f"queries that share relevant documents form an effective {self.few_groups:.1f} groups, too few to "
                "resample: intervals and tests treat single queries as independent, and are overconfident"
            )
        return said


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines of equal length; the first column is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join([f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:]))]) for row in rows]
