"""Reports on runs: plain data from judgments, runs and their background (verdicts in words, training curves), and its HTML page;
tables and reports of run files (`Evaluation`, `report_files`)."""

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import lines, output_path, replacing
from harp_jax.base.made import Made, digest
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.corpus.documents import FIELDS, Documents, Texts
from harp_jax.corpus.paths import is_irds
from harp_jax.corpus.trec import Qrels, Ranking, Run, read_qrels, read_queries, read_run, read_subset
from harp_jax.evaluation.evaluate import CHANCE, MEASURES, NOT_ABOVE_BLANK, NOT_ABOVE_CHANCE, ORACLE, evaluate
from harp_jax.evaluation.measures import is_tested, parse_measures
from harp_jax.evaluation.results import Table
from harp_jax.evaluation.significance import Comparison

SHOWN = 5  # wins, and losses
SNIPPET = 220  # characters of a document
MOST_LINES = 6  # more cannot be told apart
RERANKED = "rerank_files"  # the function whose result counts truncated documents
LOSSES = (("train", "loss", "training loss"), ("validation", "mlm_loss", "MLM loss, held out"))

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """The curves of one metric, by name: points (step, value); the ticks of the values; whether they are accuracies of pairs."""

    title: str
    curves: dict[str, Points]
    ticks: list[float]
    of_pairs: bool


@dataclass(frozen=True)
class System:
    """A row of the table: the verdict in a few words and as a sentence, its figures, the comparison with the baseline. `tone` is
    "good", "bad", "unsure" or "plain" (no verdict)."""

    name: str
    verdict: str
    sentence: str
    figures: str
    tone: str
    change: Comparison | None


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
    table: Table
    measure: str  # the deciding one
    systems: list[System]
    focus: System  # of the headline, wins and losses
    facts: list[str]
    warnings: list[str]  # about other systems that have learned nothing
    remarks: list[str]
    curves: list[str]  # names of training workdirs
    panels: list[Panel]
    wins: list[Change]
    losses: list[Change]
    counts: tuple[int, int, int]  # queries: better, worse, unchanged


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
    qrels: Qrels, runs: Mapping[str, Run | Sequence[Run]], measures: str = MEASURES, page: Page = Page(), **options: Any
) -> Report:
    """The report of runs. `options` are those of `evaluate`; the default baseline is the first run without blank queries, and only
    the first measure is tested. Raises InputError for bad input."""
    blank = {*(options.get("blank") or {}).values()}
    judged = [name for name in runs if name not in blank]
    baseline, focus = options.get("baseline") or next(iter(judged), ""), page.focus or judged[-1]
    # Only one measure is tested: correcting for all of them would hide real differences.
    confirm = options.get("confirm") or next((str(m) for m in parse_measures(measures) if is_tested(m)), "")
    table = evaluate(qrels, runs, measures, **options | {"baseline": baseline, "confirm": confirm}, intervals=True)
    measure = table.judged_by or table.measures[0]
    systems = {name: system_of(table, name, blank) for name in table.mean}

    facts = [f"{table.queries} judged {'query' if table.queries == 1 else 'queries'}"]
    if comparison := comparison_of(table, focus):
        facts.append(f"p {'< 0.0001' if comparison.p < 0.0001 else f'= {comparison.p:.4f}'} after Holm’s correction")
    facts += [f"{table.seeds[focus]} seeds"] if table.seeds[focus] > 1 else []

    # Queries whose relevant documents are not among the candidates limit every re-ranker.
    first = {name: run if isinstance(run, Mapping) else run[0] for name, run in runs.items()}
    candidates, unreachable = first[options.get("chance") or baseline or focus], 0
    for qid, levels in qrels.items():
        relevant = {docid for docid, level in levels.items() if level > 0}
        unreachable += bool(relevant) and relevant.isdisjoint(candidates.get(qid, Ranking()).docids)
    missed = f"{unreachable} of {len(qrels)} queries have no relevant document among the candidates: retrieve more"

    if len(page.curves) > MOST_LINES:
        raise InputError(f"{len(page.curves)} curves: more than {MOST_LINES} cannot be told apart; leave some out")
    curves = {name: read_metrics(path) for name, path in page.curves.items()}
    if empty := [f"{name}: {page.curves[name]}" for name, lines in curves.items() if not lines]:
        raise InputError(f"the curves of {empty[0]} has no metrics; name a training workdir")
    docs = Documents.open(page.docs, page.fields) if page.docs else None
    queries = read_queries(page.query_texts) if page.query_texts else {}
    values = (table.per_query[baseline][measure], table.per_query[focus][measure])
    wins, losses, counts = changes(*values, (first[baseline], first[focus]), qrels, queries, docs)
    return Report(
        title=page.title,
        table=table,
        measure=measure,
        systems=list(systems.values()),
        focus=systems[focus],
        facts=facts,
        warnings=[f"{systems[name].sentence} {systems[name].figures}" for name in table.verdicts if name != focus],
        remarks=[*page.remarks, *table.notes(), *([missed] if unreachable else []), *table.about_seeds],
        curves=[*curves],
        panels=panels_of(curves),
        wins=wins,
        losses=losses,
        counts=counts if focus != baseline else (0, 0, 0),
    )


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
        rankings = [run.get(qid, Ranking()).ranked() for run in runs]
        ranks = [{docid: rank for rank, docid in enumerate(ranking, 1)} for ranking in rankings]

        def hit(docid: str) -> Hit:
            text = " ".join(docs[docid].split()) if docs is not None and docid in docs else ""
            if len(text) > SNIPPET:
                text = text[:SNIPPET].rsplit(" ", 1)[0] + " …"
            return Hit(docid, text, ranks[0].get(docid, 0), ranks[1].get(docid, 0))

        # The relevant document with the best rank in either system.
        relevant = [docid for docid, level in qrels[qid].items() if level > 0]
        best = min(relevant, key=lambda docid: min(each.get(docid, math.inf) for each in ranks), default="")
        first = [hit(ranking[0]) if ranking else None for ranking in rankings]
        return Change(qid, queries.get(qid, ""), before[qid], after[qid], hit(best) if best else None, *first)

    counts = (len(better), len(worse), len(moved) - len(better) - len(worse))
    return [change(qid) for qid in better[:SHOWN]], [change(qid) for qid in worse[:SHOWN]], counts


def comparison_of(table: Table, name: str) -> Comparison | None:
    """The comparison of a system with the baseline by the deciding measure."""
    return next((c for c in table.comparisons if c.run == name and c.measure == table.judged_by), None)


def system_of(table: Table, name: str, blank: Collection[str] = ()) -> System:
    """A row of the table; `blank`: the rows of blank queries."""
    measure = table.judged_by or table.measures[0]
    fails, comparison, base = table.verdicts.get(name, []), comparison_of(table, name), table.baseline
    figures = f"{measure} {table.mean[name][measure]:.3f}"
    if NOT_ABOVE_CHANCE in fails:
        figures += f"; the same candidates in random order: {table.mean[CHANCE][measure]:.3f}"
        verdict, said = "at chance level", "is at chance level: it orders its candidates no better than a random order."
    elif NOT_ABOVE_BLANK in fails:
        verdict = NOT_ABOVE_BLANK
        said = "does not read the query: it ranks no better than with the query blanked."
    elif fails:
        verdict, said = fails[0], f"does not rank: {fails[0]}."
    elif comparison:
        low, high = comparison.interval
        figures += f" against {table.mean[base][measure]:.3f}: {comparison.difference:+.3f}"
        figures += f" (95 % interval {low:+.3f} to {high:+.3f})"
        verdict, said = comparison.verdict, f"ranks {comparison.verdict} than {base}."
    else:
        known = {CHANCE: "candidates in random order", ORACLE: "candidates in the best order", base: "baseline"}
        verdict = "documents scored without the query" if name in blank else known.get(name, "")
        said = f"reaches {figures}."
        if interval := table.intervals.get(name):
            figures += f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f})"
    sentence = f"{name} {said}"
    tone = "bad" if fails or verdict == "worse" else "good" if verdict == "better" else "plain"
    if verdict == "inconclusive":
        verdict, tone = "not decided", "unsure"
        queries = f"{table.queries} queries do" if table.queries != 1 else "One query does"
        sentence = f"{queries} not decide whether {name} ranks better than {base}."
        if table.per_query[name][measure] == table.per_query[base][measure]:
            sentence = f"{name} ranks every query as {base} does, by {measure}."
    return System(name, verdict, sentence, figures, tone, comparison)


def panels_of(curves: Mapping[str, Sequence[Mapping[str, float | str]]]) -> list[Panel]:
    """A panel for each held-out pair accuracy, then for the losses. `curves`: name → the lines of a workdir's metrics.jsonl."""
    fields = {name for lines in curves.values() for line in lines if line["split"] == "validation" for name in line}
    accuracies = sorted(name for name in fields if name.endswith("_accuracy") and not name.startswith("mlm"))
    metrics = [("validation", name, f"{name.replace('_', ' ')}, held-out pairs") for name in accuracies]
    panels = []
    for split, metric, title in (*metrics, *LOSSES):
        drawn = {}
        for name, rows in curves.items():
            points = [(float(x["step"]), float(x[metric])) for x in rows if x["split"] == split and metric in x]
            if points := [point for point in points if math.isfinite(point[1])]:
                drawn[name] = points
        if drawn:
            of_pairs, values = metric in accuracies, [value for points in drawn.values() for _, value in points]
            scale = ticks(min(0.4, *values), 1.0) if of_pairs else ticks(min(0.0, *values), max(values))
            panels.append(Panel(title, drawn, scale, of_pairs))
    return panels


def ticks(low: float, high: float) -> list[float]:
    """About five round values that enclose `low` to `high`; their distance is 1, 2 or 5 times a power of ten."""
    rough = (high - low or abs(high) or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if rough <= m * power * 1.0001)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def as_html(report: Report) -> str:
    """The HTML page, without external resources. Raises InputError if Jinja2 is not installed."""
    with needs("a report", "jinja2", "eval"):
        from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("harp_jax.evaluation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters["signed"] = lambda value: f"{value:+.3f}".replace("-", "−")
    table, measure = report.table, report.measure
    bounds = [high for _, high in table.intervals.values()]
    scale = ticks(0.0, max(*bounds, *(mean[measure] for mean in table.mean.values()), 1e-9))
    templates.filters["percent"] = lambda value: f"{100 * min(max(value / scale[-1], 0.0), 1.0):.2f}%"
    curves = [points for panel in report.panels for points in panel.curves.values()]
    steps = ticks(0.0, max((step for points in curves for step, _ in points), default=0.0))
    page = templates.get_template("report.html")
    return page.render(report=report, table=table, measure=measure, scale=scale, steps=steps, chance=CHANCE)


@dataclass(frozen=True)
class Evaluation:
    """Judgments, runs and how to compare them. `runs`: system → its run files, one per training seed. Only the queries listed in
    the file `queries`, and those of the folds `fold` in the file `folds`, count. The other options as in `evaluate`."""

    qrels: str
    runs: Mapping[str, Sequence[str]]
    queries: str = ""
    folds: str = ""
    fold: tuple[str, ...] = ()
    measures: str = MEASURES
    baseline: str = ""
    confirm: str = ""
    chance: str = ""
    blank: Mapping[str, str] = field(default_factory=dict)
    oracle: str = ""

    def read(self) -> dict[str, Any]:
        """The arguments of `evaluate`. Raises InputError for bad input."""
        if bool(self.folds) != bool(self.fold):
            raise InputError("--folds and the names of some of its folds go together; give both or neither")
        qrels = read_subset(read_qrels(self.qrels), self.queries, self.folds, self.fold)
        runs = {name: [read_run(path) for path in paths] for name, paths in self.runs.items()}
        options = ("measures", "baseline", "confirm", "chance", "blank", "oracle")
        return {"qrels": qrels, "runs": runs, **{name: getattr(self, name) for name in options}}

    def table(self) -> Table:
        """The table of all measures. Raises InputError for bad input."""
        return evaluate(**self.read())


def report_files(options: Evaluation, page: Page, output: str, text: str = "", values: str = "") -> str:
    """Writes a report as the HTML page `output`, and on request its table as `text`, which is returned, and the values per query as
    `values`. Raises InputError for bad input."""
    for path in filter(None, (output, text, values)):
        output_path(path)
    if page.focus and page.focus not in options.runs:
        raise InputError(f"no run is named {page.focus!r} for --focus; the runs are {', '.join(options.runs)}")
    if not page.query_texts and (path := options.queries):
        # Lines of --queries may be ids alone.
        first = "\t" if is_irds(path) or os.path.isdir(path) else next((line.strip() for _, line in lines(path)), "")
        page = replace(page, query_texts=path if "\t" in first or first.startswith("{") else "")
    page = replace(page, remarks=(*page.remarks, *truncated_remark(options.runs)))
    written = report(page=page, **options.read())
    table = written.table
    remarks = [remark for remark in written.remarks if remark not in table.about_seeds]  # these end the table
    headline = f"{written.focus.sentence} {written.focus.figures}"
    printed = "\n".join([str(table), *written.facts[:1], *remarks, headline, *written.warnings])
    per_query = "".join(f"{line}\n" for line in table.per_query_lines())
    for path, content in {output: as_html(written), text: printed + "\n", values: per_query}.items():
        if path:
            with replacing(path) as file:
                file.write(content)
    return printed


def truncated_remark(paths: Mapping[str, Sequence[str]]) -> list[str]:
    """A sentence on the systems (name → its runs) whose re-ranking truncated documents, from the records of the runs; [] for none.
    Ignores records of runs that were rewritten later, and does not look up the runs behind a fused one."""
    said = []
    for name, runs in paths.items():
        records = [(run, made) for run in runs if (made := Made.read(run)) and made.function == RERANKED]
        own = [made.result for run, made in records if digest(run, made.output).sha256 == made.output.sha256]
        documents, pairs = (sum(result[key] for result in own) for key in ("truncated", "pairs"))
        if documents:
            said.append(f"{name} in {documents} of {pairs} pairs")
    return [f"only the beginning of the document was read: {', '.join(said)}; --windows reads more"] if said else []
