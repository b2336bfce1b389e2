"""The result of an evaluation, formatted as text, HTML or JSON."""

import json
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
    def one_run(self) -> str:
        """The note that intervals of systems with a single run leave out training seeds; "" if there are none."""
        names = [*self.intervals, *(c.run for c in self.comparisons)]
        names = [name for name in dict.fromkeys(names) if self.seeds.get(name, 1) == 1]
        return f"one run of {', '.join(names)}: the intervals {ONE_RUN}" if names else ""

    @property
    def about_seeds(self) -> list[str]:
        """How much training seeds change the differences, compared with queries, if a system has several runs; then `one_run`."""
        said = [f"{c.run} {c.seed_ratio:.1f} ({c.measure})" for c in self.comparisons if c.seed_ratio is not None]
        spread = f"spread of training seeds, as a multiple of the standard error over queries: {', '.join(said)}"
        return [*([spread] if said else []), *filter(None, [self.one_run])]

    @property
    def too_few(self) -> str:
        """A sentence if there are too few groups to resample, else ""."""
        said = (
            f"queries that share relevant documents form an effective {self.few_groups:.1f} groups, too few to "
            "resample: intervals and tests treat single queries as independent, and are overconfident"
        )
        return said if self.few_groups else ""

    def __str__(self) -> str:
        """One line per run, four decimal places, followed by the comparisons with the baseline."""
        marked = self.marked
        gap = 1 if marked else 0
        cells = [
            [f"{mean[m]:.4f}" + (MARK if (name, m) in marked else " " * gap) for m in self.measures]
            for name, mean in self.mean.items()
        ]
        counts = {name: self.seeds.get(name, 1) for name in self.mean}
        names = [name if n == 1 else f"{name} (mean of {n})" for name, n in counts.items()]
        head = ["run", *(m + " " * gap for m in self.measures)]
        rows = _aligned(head, [[n, *row] for n, row in zip(names, cells)]).split("\n")
        width = max(map(len, rows))
        said = ["", *(", ".join(self.verdicts.get(name, ())) for name in self.mean)]
        text = "\n".join(f"{row:<{width}}  {words}".rstrip() for row, words in zip(rows, said))
        if not self.comparisons:
            return text
        compared = []
        for c in self.comparisons:
            p_values = (c.t_test, c.t_test_holm, c.randomisation, c.randomisation_holm)
            words = ["<.0001" if p < 0.0001 else f"{p:.4f}" for p in p_values]
            interval = f"[{c.interval[0]:+.4f}, {c.interval[1]:+.4f}]"
            compared.append([c.run, c.measure, f"{c.difference:+.4f}", interval, *words, c.verdict])
        head = ["measure", "Δ", "95 % interval", "p t", "Holm", "p rand.", "Holm", "verdict"]
        legend = f"{MARK} differs from {self.baseline}: p < {LEVEL} in both tests after Holm's correction\n"
        against = _aligned([f"against {self.baseline}", *head], compared)
        return "\n".join([text, legend if marked else "", against, *self.about_seeds])

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas frame of the means: one row per run, one column per measure."""
        import pandas

        return pandas.DataFrame.from_dict(self.mean, orient="index", columns=self.measures)

    def _repr_html_(self) -> str:
        """The text, for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"

    def json(self) -> str:
        """All fields of the table, including the values of every query, and `one_run`."""
        return json.dumps({**asdict(self), "one_run": self.one_run}, indent=1, ensure_ascii=False)

    def per_query_lines(self) -> list[str]:
        """Tab-separated run, measure, qid, value and the query's group, with a header. White space in names becomes a space."""
        lines = ["run\tmeasure\tqid\tvalue\tgroup"]
        for name, by_measure in self.per_query.items():
            for measure, values in by_measure.items():
                start = f"{' '.join(name.split())}\t{measure}"
                lines += [f"{start}\t{qid}\t{values[qid]:.6f}\t{group}" for qid, group in zip(values, self.groups)]
        return lines

    def notes(self) -> list[str]:
        """Warnings: queries that count as zero or are left out, too few groups of queries."""
        said = [
            f"{name}: {len(by_run[name])} queries {what}: {abbreviate(by_run[name])}"
            for name in self.missing
            for by_run, what in (
                (self.missing, "of the qrels are missing and count as zero"),
                (self.unknown, "are not in the qrels and are left out"),
            )
            if by_run[name]
        ]
        said += [
            f"{name}: the candidates of {count} of {self.queries} queries differ from those of the row of random orders, "
            "so its verdict compares different candidates"
            for name, count in self.other_candidates.items()
        ]
        verdicts = (
            f"verdicts by {self.judged_by}: the 95 % bootstrap interval of the difference includes 0 or lies below it"
        )
        return [*said, *([verdicts] if self.verdicts and self.judged_by else []), *filter(None, [self.too_few])]


def _aligned(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join([f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:]))])
        for row in [head, *rows]
    ]
    return "\n".join(line.rstrip() for line in lines)
