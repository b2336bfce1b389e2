"""Builds a report, as plain data, from judgments, runs and their background."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.corpus.documents import FIELDS, Documents, Texts
from harp_jax.corpus.trec import Qrels, Ranking, Run, read_queries
from harp_jax.evaluation.evaluate import MEASURES, evaluate
from harp_jax.evaluation.floors import CHANCE
from harp_jax.evaluation.measures import is_tested, parse_measures
from harp_jax.evaluation.report.curves import MOST_LINES, Panel, panels_of, read_curves
from harp_jax.evaluation.report.findings import (
    Advice,
    System,
    comparison_of,
    headline,
    next_steps,
    systems_of,
    unreachable,
    warnings,
)
from harp_jax.evaluation.report.provenance import Step
from harp_jax.evaluation.tables import Table
from harp_jax.input.records import MANIFEST, read_manifest

SHOWN = 5  # wins, and losses
SNIPPET = 220  # characters of a document
WORKED = "worked"  # the manifest's field with a sentence and its pairs
SIDES = ("pos_query", "pos_doc", "neg_query", "neg_doc")


@dataclass(frozen=True)
class Pair:
    """A pre-training pair as text; an empty negative text is the same as the positive's."""

    task: str
    pos_query: str
    pos_doc: str
    neg_query: str = ""
    neg_doc: str = ""


@dataclass(frozen=True)
class Sentence:
    """A sentence with an anchor, and its training pairs; `words` are (text, weight 0…1, part of an anchor)."""

    words: list[tuple[str, float, bool]]
    pairs: list[Pair]


@dataclass(frozen=True)
class TrainingData:
    """A generation job: by task, the columns of the paper's Table 1 and the best trivial predictor."""

    name: str
    tasks: list[dict[str, str]]
    sentence: Sentence | None = None


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
    figures: str  # behind the headline
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
    data: list[TrainingData] = field(default_factory=list)
    wins: list[Change] = field(default_factory=list)
    losses: list[Change] = field(default_factory=list)
    counts: tuple[int, int, int] = (0, 0, 0)  # queries: better, worse, unchanged
    cost: list[Step] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)


@dataclass(frozen=True)
class Background:
    """Optional information about the runs.

    pairs: name → directory of a generation job; curves: name → training workdir; docs, fields, queries: texts for wins and
    losses; model: that of the system in the headline; paths: run files by name; cost: steps of a plan.
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
    """The report and its table. `baseline` is the run to compare with (default: the first), `focus` the run in the headline,
    wins and losses (default: the last). Rows with blank queries are never a default.

    `confirm` (default: the first measure), `chance`, `blank`, `oracle` and `runs_per_draw` as in `evaluate`. Raises InputError
    for bad input.
    """
    known, blank = background or Background(), dict(blank or {})
    # Only one measure is tested: correcting for all of them would hide real differences.
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
        advice=next_steps(table, focus, panels, missed, known.model, known.paths),
    )
    return found, table


def _facts(table: Table, focus: str, baseline: str) -> list[str]:
    queries = "query" if table.queries == 1 else "queries"
    facts = [f"{table.queries} judged {queries}"]
    if baseline != focus:
        facts.append(f"compared with {baseline}")
    if CHANCE in table.mean and table.judged_by:
        facts.append(f"chance {table.judged_by} {table.mean[CHANCE][table.judged_by]:.3f}")
    found = comparison_of(table, focus)
    if found:
        facts.append(f"p {'< 0.0001' if found.p < 0.0001 else f'= {found.p:.4f}'} after Holm’s correction")
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
    """(wins, losses, (queries better, worse, unchanged)), largest changes first.

    `before` and `after` are qid → measure; `runs` are both systems' rankings; unknown texts are left empty.
    """
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


def snippet(docid: str, docs: Texts | None, length: int = SNIPPET) -> str:
    """The beginning of a document, up to a word boundary; empty if unknown."""
    if docs is None or docid not in docs:
        return ""
    text = " ".join(docs[docid].split())
    return text if len(text) <= length else text[:length].rsplit(" ", 1)[0] + " …"


def training_data(name: str, directory: str) -> TrainingData:
    """The tables of a finished generation job. Raises InputError for an unfinished or damaged one."""
    manifest = read_manifest(directory)
    try:
        tasks = [_row(task, entry) for task, entry in manifest["tasks"].items()]
        return TrainingData(name, tasks, _sentence(manifest.get(WORKED)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{directory}: {MANIFEST} is damaged ({error!r}); copy it again, or generate the data again"
        ) from error


def _row(task: str, entry: dict[str, Any]) -> dict[str, str]:
    predictors = entry.get("predictors") or {}
    best = max(predictors, key=predictors.__getitem__, default="")
    return {
        "task": task.upper(),
        "pairs": f"{entry['pairs']:,}",
        "tokens": f"{entry['tokens']:,}",
        "query": _mean(entry.get("mean_query_tokens")),
        "document": _mean(entry.get("mean_doc_tokens")),
        "predictor": f"{best.replace('_', ' ')} {predictors[best]:.2f}" if best else "–",
    }


def _mean(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _sentence(worked: dict[str, Any] | None) -> Sentence | None:
    if not worked:
        return None
    words = [(str(text), min(1.0, max(0.0, float(weight))), bool(anchor)) for text, weight, anchor in worked["words"]]
    pairs = [Pair(str(one["task"]), *(str(one.get(side) or "") for side in SIDES)) for one in worked["pairs"]]
    return Sentence(words, pairs)
