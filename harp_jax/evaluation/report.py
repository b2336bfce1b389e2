"""A report: plain data from judgments, runs and their background (verdicts in words, training curves), then its HTML page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import InputError, needs
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.corpus.documents import FIELDS, Documents, Texts
from harp_jax.corpus.trec import Qrels, Ranking, Run, read_queries
from harp_jax.evaluation.evaluate import CHANCE, MEASURES, NOT_ABOVE_BLANK, NOT_ABOVE_CHANCE, ORACLE, evaluate
from harp_jax.evaluation.measures import is_tested, parse_measures
from harp_jax.evaluation.results import Table
from harp_jax.evaluation.significance import Comparison

if TYPE_CHECKING:
    from jinja2 import Environment

SHOWN = 5  # wins, and losses
SNIPPET = 220  # characters of a document
WORDS = {"better": "better", "worse": "worse", "inconclusive": "not decided"}
TONES = {"better": "good", "worse": "bad", "inconclusive": "unsure"}
MOST_LINES = 6  # more cannot be told apart
GUESSING = 0.5  # pair accuracy by chance
FIXED = (
    ("train", "loss", "Training loss"),
    ("train", "pair_accuracy", "Pair accuracy, training"),
    ("train", "mlm_loss", "MLM loss, training"),
    ("validation", "mlm_loss", "MLM loss, held out"),
)
WIDTH, HEIGHT = 360, 220  # of a drawing of curves; then its margins
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 12, 34

Rows = Mapping[str, Sequence[Mapping[str, Any]]]  # name → the lines of metrics.jsonl


@dataclass(frozen=True)
class Line:
    """A system's curve: points (step, value); `number` chooses colour and dashes."""

    name: str
    number: int
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """Curves of one metric; panels of one kind share their axes. `chance` is the value of guessing."""

    title: str
    lines: list[Line]
    steps: tuple[float, float]
    values: tuple[float, float]
    chance: float | None = None


@dataclass(frozen=True)
class System:
    """A row of the table: means, the interval of the mean by the deciding measure, the comparison with the baseline. `tone` is
    "good", "bad", "unsure" or "plain" (no verdict)."""

    name: str
    means: list[float]
    interval: tuple[float, float] | None = None
    change: Comparison | None = None
    verdict: str = ""
    tone: str = "plain"

    @property
    def significant(self) -> bool:
        """Whether both tests are significant after Holm's correction."""
        return self.change is not None and self.change.significant


@dataclass(frozen=True)
class Hit:
    """A document in two rankings; rank 0: not a candidate."""

    docid: str
    text: str
    before: int
    after: int


@dataclass(frozen=True)
class Change:
    """A query whose ranking became better or worse: its relevant document, and each system's first result."""

    qid: str
    query: str
    before: float
    after: float
    relevant: Hit | None
    first_before: Hit | None
    first_after: Hit | None


@dataclass(frozen=True)
class Report:
    """All parts of a report; empty ones are not rendered."""

    title: str
    headline: str
    figures: str  # after the headline
    tone: str
    facts: list[str]
    measures: list[str]
    measure: str  # the deciding one
    baseline: str
    systems: list[System] = field(default_factory=list)
    focus: str = ""  # the system in the headline, wins and losses
    warnings: list[str] = field(default_factory=list)  # about other systems that have learned nothing
    remarks: list[str] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    panels_left_out: int = 0
    wins: list[Change] = field(default_factory=list)
    losses: list[Change] = field(default_factory=list)
    counts: tuple[int, int, int] = (0, 0, 0)  # queries: better, worse, unchanged


@dataclass(frozen=True)
class Page:
    """What a report shows besides its table. `focus`: the run in the headline, wins and losses (default: the last); `remarks` below
    the table; `curves`: name → training workdir; `docs`, `fields`, `query_texts`: for the texts of wins and losses."""

    title: str = "Re-ranking"
    focus: str = ""
    remarks: tuple[str, ...] = ()
    curves: Mapping[str, str] = field(default_factory=dict)
    docs: str = ""
    fields: tuple[str, ...] = FIELDS
    query_texts: str = ""


def report(
    qrels: Qrels,
    runs: Mapping[str, Run | Sequence[Run]],
    measures: str = MEASURES,
    page: Page = Page(),
    *,
    baseline: str = "",
    confirm: str = "",
    chance: str = "",
    blank: Mapping[str, str] | None = None,
    oracle: str = "",
    runs_per_draw: int = 1,
) -> tuple[Report, Table]:
    """The report and its table. `baseline`: the run to compare with (default: the first, without blank queries). `confirm`
    (default: the first measure), `chance`, `blank`, `oracle` and `runs_per_draw` as in `evaluate`. Raises InputError for bad
    input."""
    blank = dict(blank or {})
    # Only one measure is tested: correcting for all of them would hide real differences.
    confirm = confirm or next((str(m) for m in parse_measures(measures) if is_tested(m)), "")
    judged = [name for name in runs if name not in blank.values()]
    baseline = baseline or next(iter(judged), "")
    table = evaluate(
        qrels, runs, measures, baseline, confirm, runs_per_draw=runs_per_draw,
        chance=chance, blank=blank, oracle=oracle, intervals=True,
    )  # fmt: skip
    focus = page.focus or judged[-1]
    measure = table.judged_by or table.measures[0]
    said, figures, tone = headline(table, focus)
    rows = {name: read_metrics(path) for name, path in page.curves.items()}
    for name in (name for name, run in rows.items() if not run):
        raise InputError(f"the curves of {name}: {page.curves[name]} has no metrics; name a training workdir")
    first = {name: run if isinstance(run, Mapping) else run[0] for name, run in runs.items()}
    written = Report(
        title=page.title,
        headline=said,
        figures=figures,
        tone=tone,
        facts=_facts(table, focus, baseline),
        measures=table.measures,
        measure=measure,
        baseline=baseline,
        systems=systems_of(table, blank),
        focus=focus,
        warnings=[" ".join(headline(table, other)[:2]) for other in table.verdicts if other != focus],
        remarks=[
            *page.remarks,
            *table.notes(),
            *_unreachable(qrels, first[chance or baseline or focus]),
            *table.about_seeds,
        ],
        panels=panels_of(rows),
        panels_left_out=max(0, len(rows) - MOST_LINES),
    )
    if focus != baseline:
        values = (table.per_query[baseline][measure], table.per_query[focus][measure])
        docs = Documents.open(page.docs, page.fields) if page.docs else None
        queries = read_queries(page.query_texts) if page.query_texts else {}
        wins, losses, counts = changes(*values, (first[baseline], first[focus]), qrels, queries, docs)
        written = replace(written, wins=wins, losses=losses, counts=counts)
    return written, table


def _unreachable(qrels: Qrels, run: Run) -> list[str]:
    """A remark on the queries with relevant documents, but none among the candidates; [] for none."""
    count = 0
    for qid, judged in qrels.items():
        relevant = {docid for docid, level in judged.items() if level > 0}
        count += bool(relevant) and relevant.isdisjoint(run[qid].docids if qid in run else ())
    missed = f"{count} of {len(qrels)} queries have no relevant document among the candidates: retrieve more"
    return [missed] if count else []


def _facts(table: Table, focus: str, baseline: str) -> list[str]:
    facts = [f"{table.queries} judged {'query' if table.queries == 1 else 'queries'}"]
    if baseline != focus:
        facts.append(f"compared with {baseline}")
    if CHANCE in table.mean and table.judged_by:
        facts.append(f"chance {table.judged_by} {table.mean[CHANCE][table.judged_by]:.3f}")
    if comparison := comparison_of(table, focus):
        facts.append(f"p {'< 0.0001' if comparison.p < 0.0001 else f'= {comparison.p:.4f}'} after Holm’s correction")
    if (seeds := table.seeds.get(focus, 1)) > 1:
        facts.append(f"{seeds} seeds")
    return facts


def changes(
    before: Mapping[str, float],
    after: Mapping[str, float],
    runs: tuple[Run, Run],
    qrels: Qrels,
    queries: Mapping[str, str],
    docs: Texts | None,
) -> tuple[list[Change], list[Change], tuple[int, int, int]]:
    """(wins, losses, (queries better, worse, unchanged)), largest changes first. `before` and `after` are qid → measure; `runs` are
    both systems' rankings; unknown texts are left empty."""
    moved = sorted(before, key=lambda qid: before[qid] - after[qid])
    better = [qid for qid in moved if after[qid] > before[qid]]
    worse = [qid for qid in reversed(moved) if after[qid] < before[qid]]

    def change(qid: str) -> Change:
        old, new = (run.get(qid, Ranking()).ranked() for run in runs)
        relevant = [docid for docid, level in qrels[qid].items() if level > 0]
        # Show the relevant document with the best rank in either system.
        places = {
            d: min(rank for rank in (_rank(old, d), _rank(new, d)) if rank) for d in relevant if d in {*old, *new}
        }
        best = min(places, key=places.__getitem__) if places else (relevant[0] if relevant else "")

        def hit(docid: str) -> Hit | None:
            return Hit(docid, snippet(docid, docs), _rank(old, docid), _rank(new, docid)) if docid else None

        first = [hit(ranking[0]) if ranking else None for ranking in (old, new)]
        return Change(qid, queries.get(qid, ""), before[qid], after[qid], hit(best), first[0], first[1])

    counts = (len(better), len(worse), len(moved) - len(better) - len(worse))
    return [change(qid) for qid in better[:SHOWN]], [change(qid) for qid in worse[:SHOWN]], counts


def _rank(ranking: list[str], docid: str) -> int:
    return ranking.index(docid) + 1 if docid in ranking else 0


def snippet(docid: str, docs: Texts | None) -> str:
    """The beginning of a document, up to a word boundary; empty if unknown."""
    if docs is None or docid not in docs:
        return ""
    text = " ".join(docs[docid].split())
    return text if len(text) <= SNIPPET else text[:SNIPPET].rsplit(" ", 1)[0] + " …"


def comparison_of(table: Table, name: str) -> Comparison | None:
    """The comparison of a system with the baseline by the deciding measure."""
    return next((c for c in table.comparisons if c.run == name and c.measure == table.judged_by), None)


def systems_of(table: Table, blank: Mapping[str, str]) -> list[System]:
    """The rows of the table, in order."""
    known = {CHANCE: "candidates in random order", ORACLE: "candidates in the best order", table.baseline: "baseline"}
    known |= dict.fromkeys(blank.values(), "documents scored without the query")
    rows = []
    for name, means in table.mean.items():
        comparison, fails = comparison_of(table, name), table.verdicts.get(name, [])
        verdict, tone = known.get(name, ""), "plain"
        if NOT_ABOVE_CHANCE in fails or NOT_ABOVE_BLANK in fails:
            verdict, tone = "at chance level" if NOT_ABOVE_CHANCE in fails else NOT_ABOVE_BLANK, "bad"
        elif fails:
            verdict, tone = fails[0], "bad"
        elif comparison:
            verdict, tone = WORDS[comparison.verdict], TONES[comparison.verdict]
        values = [means[m] for m in table.measures]
        rows.append(System(name, values, table.intervals.get(name), comparison, verdict, tone))
    return rows


def headline(table: Table, name: str) -> tuple[str, str, str]:
    """(a sentence about a system, its figures, its tone)."""
    measure = table.judged_by or table.measures[0]
    mean = table.mean[name][measure]
    fails, comparison = table.verdicts.get(name, []), comparison_of(table, name)
    if NOT_ABOVE_CHANCE in fails:
        figures = f"{measure} {mean:.3f}; the same candidates in random order: {table.mean[CHANCE][measure]:.3f}"
        return f"{name} is at chance level: it orders its candidates no better than a random order.", figures, "bad"
    if NOT_ABOVE_BLANK in fails:
        said = f"{name} does not read the query: it ranks no better than with the query blanked."
        return said, f"{measure} {mean:.3f}", "bad"
    if fails:
        return f"{name} does not rank: {fails[0]}.", f"{measure} {mean:.3f}", "bad"
    if not comparison:
        figures = f"{measure} {mean:.3f}{_between(table.intervals.get(name))}"
        return f"{name} reaches {measure} {mean:.3f}.", figures, "plain"
    base = table.mean[table.baseline][measure]
    change = f"{comparison.difference:+.3f}{_between(comparison.interval, '+')}"
    figures = f"{measure} {mean:.3f} against {base:.3f}: {change}"
    if table.per_query[name][measure] == table.per_query[table.baseline][measure]:
        return f"{name} ranks every query as {table.baseline} does, by {measure}.", figures, "unsure"
    if comparison.verdict == "inconclusive":
        queries = f"{table.queries} queries do" if table.queries != 1 else "One query does"
        return f"{queries} not decide whether {name} ranks better than {table.baseline}.", figures, "unsure"
    return f"{name} ranks {comparison.verdict} than {table.baseline}.", figures, TONES[comparison.verdict]


def _between(interval: tuple[float, float] | None, sign: str = "") -> str:
    return f" (95 % interval {interval[0]:{sign}.3f} to {interval[1]:{sign}.3f})" if interval else ""


def panels_of(rows: Rows) -> list[Panel]:
    """One panel per metric of the first MOST_LINES runs, pair accuracies first. All panels share the step axis; accuracy panels
    share their value axis, and so do the MLM losses."""
    rows = dict(list(rows.items())[:MOST_LINES])
    names = {name for run in rows.values() for row in run if row["split"] == "validation" for name in row}
    tasks = sorted(name for name in names if name.endswith("_accuracy") and not name.startswith("mlm"))
    named = {name: name.removesuffix("_accuracy").upper() for name in tasks} | {"pair_accuracy": "Pair"}
    held_out = [("validation", name, f"{named[name]} accuracy, held-out pairs") for name in tasks]
    lines_of = {
        (split, metric, title): lines for split, metric, title in (*held_out, *FIXED) if (lines := _lines(rows, split, metric))
    }  # fmt: skip
    if not lines_of:
        return []
    steps = max(x for lines in lines_of.values() for line in lines for x, _ in line.points)
    panels = []
    for (_, metric, title), lines in lines_of.items():
        alike = [other for (_, name, _), other in lines_of.items() if _kind(name) == _kind(metric)]
        values = [y for some in alike for line in some for _, y in line.points]
        chance = GUESSING if _kind(metric) == "accuracy" else None
        low, high = (min([*values, 0.4]), 1.0) if chance else (min([*values, 0.0]), max(values))
        panels.append(Panel(title, lines, (0.0, steps), _rounded(low, high), chance))
    return panels


def _kind(metric: str) -> str:
    return "accuracy" if metric.endswith("_accuracy") else metric


def _lines(rows: Rows, split: str, metric: str) -> list[Line]:
    lines = []
    for number, (name, run) in enumerate(rows.items()):
        points = [(float(row["step"]), float(row[metric])) for row in run if row["split"] == split and metric in row]
        points = [point for point in points if math.isfinite(point[1])]
        if points:
            lines.append(Line(name, number, points))
    return lines


def _rounded(low: float, high: float) -> tuple[float, float]:
    """Axis limits, rounded to ticks."""
    step = _step(low, high)
    return math.floor(low / step + 1e-9) * step, max(math.ceil(high / step - 1e-9), math.floor(low / step) + 1) * step


def _step(low: float, high: float) -> float:
    """The spacing of about four ticks: 1, 2 or 5 times a power of ten."""
    rough = (high - low or abs(high) or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if rough <= m * power * 1.0001)


def ticks(low: float, high: float) -> list[float]:
    """Round values from `low` to `high`."""
    step = _step(low, high)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def as_html(report: Report) -> str:
    """The HTML page, without external resources."""
    column = report.measures.index(report.measure)
    scale = axis(report.systems, column)
    page = environment().get_template("report.html")
    return page.render(report=report, column=column, top=scale[-1], scale=scale, chance=CHANCE, **FUNCTIONS)


@cache
def environment() -> "Environment":
    """The templates. Raises InputError if Jinja2 is not installed."""
    with needs("a report", "jinja2", "eval"):
        from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("harp_jax.evaluation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters["signed"] = signed
    return templates


def axis(systems: Sequence[System], column: int) -> list[float]:
    """Ticks of the bar axis, from 0 to above all intervals and all means of a column."""
    highest = max([*(s.interval[1] for s in systems if s.interval), *(s.means[column] for s in systems), 1e-9])
    values = ticks(0.0, highest)
    step = values[1] - values[0] if len(values) > 1 else highest
    return values if values[-1] >= highest - 1e-9 else [*values, round(values[-1] + step, 10)]


def percent(value: float, top: float) -> str:
    """A position on the bar axis, in percent."""
    return f"{100 * min(max(value / top, 0.0), 1.0):.2f}%"


def ranks(hit: Any) -> str:
    """ "rank 3 → 1" of a document; – if a run lacks it."""
    return f"rank {hit.before or '–'} → {hit.after or '–'}"


def signed(value: float) -> str:
    """A difference with its sign."""
    return f"{value:+.3f}".replace("-", "−")


def x_of(panel: Panel, step: float) -> float:
    """SVG x of a step."""
    low, high = panel.steps
    return round(LEFT + (step - low) / ((high - low) or 1.0) * (WIDTH - LEFT - RIGHT), 1)


def y_of(panel: Panel, value: float) -> float:
    """SVG y of a value."""
    low, high = panel.values
    return round(HEIGHT - BOTTOM - (value - low) / ((high - low) or 1.0) * (HEIGHT - TOP - BOTTOM), 1)


def path_of(panel: Panel, line: Line) -> str:
    """The line as SVG `points`."""
    return " ".join(f"{x_of(panel, x)},{y_of(panel, y)}" for x, y in line.points)


def spoken(panel: Panel) -> str:
    """The panel in words, for screen readers: where each line starts and ends."""
    said = [
        f"{line.name} from {line.points[0][1]:.3g} at step {line.points[0][0]:g} "
        f"to {line.points[-1][1]:.3g} at step {line.points[-1][0]:g}"
        for line in panel.lines
    ]
    chance = [f"chance is {panel.chance:g}"] if panel.chance is not None else []
    return f"{panel.title}: {'; '.join([*said, *chance])}."


FUNCTIONS = {
    "percent": percent,
    "ranks": ranks,
    "ticks": ticks,
    "x_of": x_of,
    "y_of": y_of,
    "path_of": path_of,
    "spoken": spoken,
    "drawing": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT,
                "top": TOP, "bottom": BOTTOM},
}  # fmt: skip
