"""Evaluates run files: a table (`Evaluation.table`), or a report as an HTML page (`report_files`)."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, output_path, replacing
from harp_jax.checkpoints.recorded import METRICS
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.paths import is_irds
from harp_jax.corpus.trec import Qrels, Run, read_qrels, read_run, read_subset
from harp_jax.evaluation.evaluate import MEASURES, check_names, evaluate
from harp_jax.evaluation.measures import parse_measures
from harp_jax.evaluation.render import as_html, as_markdown
from harp_jax.evaluation.report import Background, report
from harp_jax.evaluation.results import Table
from harp_jax.evaluation.significance import ROUNDS
from harp_jax.evaluation.upstream import cost, holding, texts_of, truncated_remark, upstream
from harp_jax.input.records import MANIFEST


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
    runs_per_draw: int = 1
    rounds: int = ROUNDS
    seed: int = 0

    def check(self) -> None:
        """Raises InputError for wrong names of measures and runs, before large runs are read."""
        parse_measures(self.measures)
        check_names(self.runs, self.baseline, self.chance, self.blank, self.oracle)

    def judgments(self) -> Qrels:
        """The judgments of the queries that count."""
        if bool(self.folds) != bool(self.fold):
            raise InputError("--folds and the names of some of its folds go together; give both or neither")
        return read_subset(read_qrels(self.qrels), self.queries, self.folds, self.fold)

    def read_runs(self) -> dict[str, list[Run]]:
        return {name: [read_run(path) for path in paths] for name, paths in self.runs.items()}

    def table(self) -> Table:
        """The table of all measures. Raises InputError for bad input."""
        self.check()
        return evaluate(
            self.judgments(), self.read_runs(), self.measures, self.baseline, self.confirm, self.rounds, self.seed,
            self.runs_per_draw, self.chance, self.blank, oracle=self.oracle,
        )  # fmt: skip


@dataclass(frozen=True)
class Page:
    """What a report shows besides its table. `focus`: the run in the headline (default: the last); `curves`: name → training
    workdir; `pairs`: name → output of a generation job; `docs`, `fields`, `query_texts`: for the texts of wins and losses.

    What is empty comes from the records of the runs (`upstream`).
    """

    title: str = "Re-ranking"
    focus: str = ""
    remarks: tuple[str, ...] = ()
    curves: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[str, str] = field(default_factory=dict)
    docs: str = ""
    fields: tuple[str, ...] = ()
    query_texts: str = ""


def report_files(
    given: Evaluation, page: Page, output: str, markdown: str = "", text: str = "", values: str = ""
) -> str:
    """Writes a report as the HTML page `output`, and on request its table as `markdown` and as `text`, which is returned, and the
    values per query as `values`. Raises InputError for bad input."""
    for path in filter(None, (output, markdown, text, values)):
        output_path(path)
    given.check()
    if page.focus and page.focus not in given.runs:
        raise InputError(f"no run is named {page.focus!r} for --focus; the runs are {', '.join(given.runs)}")
    focus = page.focus or [name for name in given.runs if name not in given.blank.values()][-1]
    found, table = report(
        given.judgments(), given.read_runs(), given.measures, title=page.title, baseline=given.baseline, focus=focus,
        confirm=given.confirm, chance=given.chance, blank=given.blank, oracle=given.oracle,
        remarks=[*page.remarks, *truncated_remark(given.runs)], background=_background(given, page, focus),
        runs_per_draw=given.runs_per_draw,
    )  # fmt: skip
    remarks = [remark for remark in found.remarks if remark not in table.about_seeds]  # these end the table
    said = [f"{found.headline} {found.figures}", *found.warnings]
    printed = "\n".join([str(table), *found.facts[:1], *remarks, *said])
    per_query = "".join(f"{line}\n" for line in table.per_query_lines())
    written = {output: as_html(found), markdown: as_markdown(found), text: printed + "\n", values: per_query}
    for path, content in written.items():
        if path:
            with replacing(path) as file:
                file.write(content)
    return printed


def _background(given: Evaluation, page: Page, focus: str) -> Background:
    """What the page says, completed from the records of the runs."""
    runs = [path for paths in given.runs.values() for path in paths]
    records = upstream([*runs, *page.curves.values(), *page.pairs.values()])
    docs, fields, queries = texts_of(given.runs[focus][0])
    listed = given.queries if _has_texts(given.queries) else ""
    return Background(
        pairs=page.pairs or holding(MANIFEST, records),
        curves=page.curves or holding(METRICS, records),
        docs=page.docs or docs,
        fields=page.fields or fields or FIELDS,
        queries=page.query_texts or listed or queries,
        cost=cost(records),
    )


def _has_texts(path: str) -> bool:
    """Whether the lines of a file have texts after the query ids."""
    if is_irds(path) or os.path.isdir(path):
        return True
    first = next((line for _, line in lines(path)), "") if path else ""
    return "\t" in first.strip() or first.startswith("{")
