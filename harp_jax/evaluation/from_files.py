"""Evaluates run files: a table (`Evaluation.table`), or a report as an HTML page (`report_files`)."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, output_path, replacing
from harp_jax.base.made import Made, digest
from harp_jax.corpus.paths import is_irds
from harp_jax.corpus.trec import Qrels, Run, read_qrels, read_run, read_subset
from harp_jax.evaluation.evaluate import MEASURES, evaluate
from harp_jax.evaluation.report import Page, as_html, report
from harp_jax.evaluation.results import Table

RERANKED = "rerank_files"  # the function whose result counts truncated documents


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

    def judgments(self) -> Qrels:
        """The judgments of the queries that count."""
        if bool(self.folds) != bool(self.fold):
            raise InputError("--folds and the names of some of its folds go together; give both or neither")
        return read_subset(read_qrels(self.qrels), self.queries, self.folds, self.fold)

    def read_runs(self) -> dict[str, list[Run]]:
        return {name: [read_run(path) for path in paths] for name, paths in self.runs.items()}

    def compared(self) -> dict[str, Any]:
        """What the runs are compared with: options of `evaluate`."""
        return {name: getattr(self, name) for name in ("baseline", "confirm", "chance", "blank", "oracle")}

    def table(self) -> Table:
        """The table of all measures. Raises InputError for bad input."""
        return evaluate(self.judgments(), self.read_runs(), self.measures, **self.compared())


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
    written = report(options.judgments(), options.read_runs(), options.measures, page, **options.compared())
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
