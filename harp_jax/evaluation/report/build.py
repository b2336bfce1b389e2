"""Builds a report from judgments and runs, and from what is known about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import Qrels, Run, read_queries
from harp_jax.evaluation.evaluate import MEASURES, evaluate
from harp_jax.evaluation.floors import CHANCE
from harp_jax.evaluation.measures import is_tested, parse_measures
from harp_jax.evaluation.report.advice import next_steps, unreachable
from harp_jax.evaluation.report.changes import changes
from harp_jax.evaluation.report.content import Change, Report, Step
from harp_jax.evaluation.report.curves import MOST_LINES, panels_of, read_curves
from harp_jax.evaluation.report.training_data import training_data
from harp_jax.evaluation.report.verdict import comparison_of, headline, systems_of, warnings
from harp_jax.evaluation.tables import Table


@dataclass(frozen=True)
class Background:
    """What is known about the runs, each part empty where it is not.

    pairs: name → directory of a generation job; curves: name → training workdir; docs, fields, queries: texts for wins and
    losses; model: of the system in the headline; paths: of the runs, by name; cost: steps of a plan.
    """

    pairs: Mapping[str, str] = field(default_factory=dict)
    curves: Mapping[str, str] = field(default_factory=dict)
    docs: str = ""
    fields: tuple[str, ...] = FIELDS
    queries: str = ""
    model: str = ""
    paths: Mapping[str, str] = field(default_factory=dict)
    cost: Sequence[Step] = ()


def report(
    qrels: Qrels,
    runs: Mapping[str, Run | Sequence[Run]],
    measures: str = MEASURES,
    *,
    title: str = "Re-ranking",
    baseline: str = "",
    focus: str = "",
    confirm: str = "",
    chance: str = "",
    blank: Mapping[str, str] | None = None,
    oracle: str = "",
    remarks: Sequence[str] = (),
    background: Background | None = None,
    runs_per_draw: int = 1,
) -> tuple[Report, Table]:
    """The report and its table. `baseline` is the run that others are compared with (default: the first run), `focus` the one
    that the headline, the wins and the losses are about (default: the last run that is no row of blank queries).

    `confirm` (default: the first measure), `chance`, `blank`, `oracle` and `runs_per_draw` as in `evaluate`. Raises InputError
    for bad input.
    """
    known, blank = background or Background(), dict(blank or {})
    # One measure decides: to test all of them and correct for it would hide what is there.
    confirm = confirm or next((str(m) for m in parse_measures(measures) if is_tested(m)), "")
    baseline = baseline or next((name for name in runs if name not in blank.values()), "")
    table = evaluate(
        qrels,
        runs,
        measures,
        baseline=baseline,
        confirm=confirm,
        chance=chance,
        blank=blank,
        oracle=oracle,
        intervals=True,
        runs_per_draw=runs_per_draw,
    )
    judged = [name for name in runs if name not in blank.values()]
    focus = focus or judged[-1]
    measure = table.judged_by or table.measures[0]
    said, figures, tone = headline(table, focus)
    rows = read_curves(known.curves)
    panels = panels_of(rows)
    first = {name: run if isinstance(run, Mapping) else run[0] for name, run in runs.items()}
    wins: list[Change] = []
    losses: list[Change] = []
    counts = (0, 0, 0)
    if focus != baseline:
        values = (table.per_query[baseline][measure], table.per_query[focus][measure])
        docs = Documents.open(known.docs, known.fields) if known.docs else None
        queries = read_queries(known.queries) if known.queries else {}
        wins, losses, counts = changes(*values, (first[baseline], first[focus]), qrels, queries, docs)
    missed = unreachable(qrels, first[chance or baseline or focus])
    found = Report(
        title=title,
        headline=said,
        figures=figures,
        tone=tone,
        facts=_facts(table, focus, baseline),
        measures=table.measures,
        measure=measure,
        baseline=baseline,
        systems=systems_of(table, blank),
        focus=focus,
        warnings=warnings(table, focus),
        remarks=[*remarks, *table.notes()],
        panels=panels,
        panels_left_out=max(0, len(rows) - MOST_LINES),
        data=[training_data(name, path) for name, path in known.pairs.items()],
        wins=wins,
        losses=losses,
        counts=counts,
        cost=list(known.cost),
        advice=next_steps(table, focus, panels, missed, known.model, known.docs, known.paths),
    )
    return found, table


def _facts(table: Table, focus: str, baseline: str) -> list[str]:
    """Short facts below the headline."""
    queries = "query" if table.queries == 1 else "queries"
    facts = [f"{table.queries} judged {queries}"]
    if baseline != focus:
        facts.append(f"compared with {baseline}")
    if CHANCE in table.mean and table.judged_by:
        facts.append(f"chance {table.judged_by} {table.mean[CHANCE][table.judged_by]:.3f}")
    found = comparison_of(table, focus)
    if found:
        p = max(found.t_test_holm, found.randomisation_holm)
        facts.append(f"p {'< 0.0001' if p < 0.0001 else f'= {p:.4f}'} after Holm’s correction")
    if (seeds := table.seeds.get(focus, 1)) > 1:
        facts.append(f"{seeds} seeds")
    return facts
