"""Tables of runs for people, papers and programs: text, LaTeX and JSON, with the comparisons against a baseline."""

import json
from dataclasses import asdict, dataclass, field

from harp_jax.evaluation.measures import is_tested, parse_measures
from harp_jax.evaluation.significance import Comparison

LEVEL = 0.05
MARK = "†"  # beside a value whose difference from the baseline both tests call significant after Holm's correction


@dataclass(frozen=True)
class Table:
    """What several runs score on the same queries.

    `mean` is run → measure → value; `per_query` is run → measure → qid → value (means over seeds where a system has
    several runs); `missing` are queries of the qrels that the run lacks (they count as zero), `unknown` those of the run
    that the qrels lack (they are left out).
    """

    measures: list[str]
    queries: int
    mean: dict[str, dict[str, float]]
    per_query: dict[str, dict[str, dict[str, float]]]
    missing: dict[str, list[str]]
    unknown: dict[str, list[str]]
    seeds: dict[str, int] = field(default_factory=dict)
    baseline: str = ""
    comparisons: list[Comparison] = field(default_factory=list)
    few_groups: float = (
        0.0  # equal groups that those of queries with shared documents are worth, where too few to be drawn
    )

    @property
    def marked(self) -> set[tuple[str, str]]:
        """(run, measure) that differ significantly from the baseline."""
        return {(c.run, c.measure) for c in self.comparisons if max(c.t_test_holm, c.randomisation_holm) < LEVEL}


def as_text(table: Table) -> str:
    """A table for people: a run a line, four digits; then the comparisons."""
    marked = table.marked
    gap = 1 if marked else 0
    cells = [
        [f"{mean[m]:.4f}" + (MARK if (name, m) in marked else " " * gap) for m in table.measures]
        for name, mean in table.mean.items()
    ]
    names = [_with_seeds(table, name) for name in table.mean]
    text = _aligned(["run", *(m + " " * gap for m in table.measures)], [[n, *row] for n, row in zip(names, cells)])
    if not table.comparisons:
        return text
    rows = [
        [
            c.run,
            c.measure,
            f"{c.difference:+.4f}",
            f"[{c.interval[0]:+.4f}, {c.interval[1]:+.4f}]",
            *(_p(p) for p in (c.t_test, c.t_test_holm, c.randomisation, c.randomisation_holm)),
            c.verdict,
        ]
        for c in table.comparisons
    ]
    head = ["against " + table.baseline, "measure", "Δ", "95 % interval", "p t", "Holm", "p rand.", "Holm", "verdict"]
    legend = (
        f"{MARK} differs from {table.baseline}: p < {LEVEL} in both tests after Holm's correction\n" if marked else ""
    )
    return f"{text}\n{legend}\n{_aligned(head, rows)}"


def _aligned(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join([f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:]))])
        for row in [head, *rows]
    ]
    return "\n".join(line.rstrip() for line in lines)


def _with_seeds(table: Table, name: str) -> str:
    count = table.seeds.get(name, 1)
    return name if count == 1 else f"{name} (mean of {count})"


def _p(value: float) -> str:
    return "<.0001" if value < 0.0001 else f"{value:.4f}"


def as_latex(table: Table) -> str:
    """A tabular (booktabs) in which the best value of each measure is bold and significant differences have a dagger.

    What says nothing about how good a run is (unjudged@10, an oracle) is never bold.
    """
    judging = [m for m in table.measures if all(map(is_tested, parse_measures([m])))]
    best = {m: max(round(mean[m], 4) for mean in table.mean.values()) for m in judging}
    rows = []
    for name, mean in table.mean.items():
        cells = []
        for m in table.measures:
            cell = rf"\textbf{{{mean[m]:.4f}}}" if round(mean[m], 4) == best.get(m) else f"{mean[m]:.4f}"
            cells.append(cell + (r"$^\dagger$" if (name, m) in table.marked else ""))
        rows.append(" & ".join([_escaped(_with_seeds(table, name)), *cells]) + r" \\")
    head = " & ".join(["Run", *map(_escaped, table.measures)]) + r" \\"
    columns = "l" + "r" * len(table.measures)
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "#$%&_{}" else c for c in text)


def as_json(table: Table) -> str:
    """All of the table, the values of every query included."""
    return json.dumps(asdict(table), indent=1, ensure_ascii=False)


FORMATS = {"text": as_text, "latex": as_latex, "json": as_json}


def per_query_lines(table: Table) -> list[str]:
    """Tab-separated run, measure, qid, value: a header, then a line a value."""
    lines = ["run\tmeasure\tqid\tvalue"]
    for name, by_measure in table.per_query.items():
        for measure, values in by_measure.items():
            lines += [f"{name}\t{measure}\t{qid}\t{value:.6f}" for qid, value in values.items()]
    return lines


def notes(table: Table) -> list[str]:
    """What a reader of the table must know: queries that count as zero, queries left out, intervals that are too narrow."""
    found = []
    for name in table.missing:
        for qids, what in (
            (table.missing[name], "of the qrels are missing and count as zero"),
            (table.unknown[name], "are not in the qrels and are left out"),
        ):
            if qids:
                shown = ", ".join(qids[:5]) + (", …" if len(qids) > 5 else "")
                found.append(f"{name}: {len(qids)} queries {what}: {shown}")
    if table.few_groups:
        found.append(
            f"shared relevant documents tie the queries into groups worth {table.few_groups:.1f} equal ones, too few to draw "
            "again: intervals draw single queries, as if they were independent, and are too narrow"
        )
    return found
