"""Tests a site's search on judged queries, and decides which parts to add up.

The queries are anchor texts of held-out pages, or labelled ones. Every part scores the same candidates (`score_parts`). Each
query's scores are scaled to 0…1 and added with equal weights: greedy forward selection, cheapest first; a part is used if the
mean of the measure rises (`decide`). BM25F subsumes BM25 and replaces it: a sum of both would count words twice.

Anchors do not rank all parts as users do (docs/lab/site.md), so `harp site` trusts one part more: vectors. A trusted part, and the
part that replaces the first, is used unless the sum gets worse; the trusted part counts twice. Other parts may be measured without
being used.

The gain is measured by halves: chosen on one half of the queries, measured on the other. If there is none (with the trusted part:
if it is worse), the first part is used alone.
"""

import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from harp_jax.base.files import replacing
from harp_jax.base.made import KEPT, InputPath, Made, NamedInputs, Speed, digest, forget, once
from harp_jax.base.progress import progress
from harp_jax.base.steps import Steps
from harp_jax.corpus.query_sets import connected, make_folds
from harp_jax.corpus.trec import Qrels, Run, ordered, outside, read_qrels, read_queries, read_run, select, write_run
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.report import Page, as_html, comparison_of, report
from harp_jax.evaluation.significance import LEVEL
from harp_jax.ranking.first_stage import excluded_of
from harp_jax.ranking.fuse import ANCHORS, BM25, INLINKS, VECTORS, Fitting, pooled, sum_in_words, weighted
from harp_jax.ranking.rerank import Reranking, rerank_files
from harp_jax.site.options import FIELDS
from harp_jax.site.search import DOCS, LABELLED, RANKER, CombinedSearch, Settings

RECOMMENDED = "recommended"  # row of the sum to use
ANCHOR_TEST, LABEL_TEST = "anchors", "labels"
MEASURE = "RR@10"
FILES = {BM25: "bm25.trec", ANCHORS: "bm25f.trec", INLINKS: "inlinks.trec", VECTORS: "vectors.trec"}
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
    `test`: ANCHOR_TEST or LABEL_TEST; `untested`: why nothing was tested, or ""; `next`: what to do next."""

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
    instead: str = "",
    trusted: str = "",
    measured: Collection[str] = (),
) -> tuple[dict[str, float], Run]:
    """Part → weight, from runs of the same candidates, and the run by halves; `folds` (qid → fold) divides the queries for it.
    `parts`: two or more, the first stage first. `instead`: the part that subsumes the first one and may replace it.
    `trusted`: the part that counts twice. `measured`: parts that are not used."""
    first, *others = parts
    pool = pooled([*parts.values()], "minmax")
    fitting = Fitting(pool, qrels, MEASURE)

    def summed(weights: Sequence[float], queries: Qrels) -> Run:
        return dict(ordered(weighted({qid: pool[qid] for qid in queries if qid in pool}, weights)))

    def change(before: Run, after: Run, tests: int) -> tuple[float, bool]:
        """The difference of the means, and whether it is certainly worse, corrected for `tests` tests (Bonferroni)."""
        (comparison,) = evaluate(qrels, {"before": before, "after": after}, MEASURE, baseline="before").comparisons
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


@once(changed=KEPT)
def score_parts(
    folder: Speed[str], settings: Settings, queries: InputPath, exclude: InputPath, output: str
) -> tuple[str, ...]:
    """Writes the scores of each part but the rankers as runs of the same candidates, and the candidates; returns the parts.
    `exclude`: qid<TAB>docid lines, such as the pages that the queries were taken from."""
    search = CombinedSearch(folder, settings.everything, settings=settings)
    barred, texts = excluded_of(exclude), read_queries(queries)
    bar = progress(texts.items(), unit="queries", desc="search")
    scored = {qid: scores for qid, text in bar if (scores := search.scores(text, barred.get(qid, set()))).docids}
    os.makedirs(output, exist_ok=True)
    pool = ((qid, each.docids, np.arange(len(each.docids), 0, -1)) for qid, each in scored.items())
    write_run(os.path.join(output, "pool.trec"), pool)
    for part in search.names:
        run = ((qid, each.docids, each.parts[part]) for qid, each in scored.items())
        write_run(os.path.join(output, FILES[part]), run)
    return tuple(search.names)


@once(changed=KEPT)
def judge(
    parts: NamedInputs,
    queries: InputPath,
    qrels: InputPath,
    test: str,
    trusted: str,
    measured: tuple[str, ...],
    docs: InputPath,
    curves: Speed[Mapping[str, str]],
    output: str,
) -> Verdict:
    """The verdict on the runs of `parts`. Writes the report `output`, and beside it the values per query as .tsv. The report and
    the verdict have the same comparisons. `test`: what it is called in the verdict; `trusted`, `measured`: see `decide`; `curves`:
    training workdirs by name."""
    judged, texts = read_qrels(qrels), read_queries(queries)
    runs = {part: read_run(path) for part, path in parts.items()}
    folds = {qid: str(fold) for qid, fold in make_folds(connected([*texts], judged), 2).items()}
    weights, halves = decide(judged, folds, runs, ANCHORS, trusted, measured)
    rows = runs | {RECOMMENDED: halves if weights != {BM25: 1.0} else runs[BM25]}
    unseen = f"{RECOMMENDED}: {sum_in_words(weights)}, measured on queries that did not choose its parts"
    page = Page("Search over a site", RECOMMENDED, (unseen,), curves, docs, FIELDS, queries)
    written = report(judged, rows, f"{MEASURE} nDCG@10", page, baseline=BM25, confirm=MEASURE, chance=BM25)
    table = written.table
    with replacing(output) as file:
        file.write(as_html(written))
    with replacing(os.path.splitext(output)[0] + ".tsv") as file:
        file.writelines(line + "\n" for line in table.per_query_lines())

    def row(name: str) -> Row:
        mean, change = table.mean[name][MEASURE], comparison_of(table, name)
        return Row(name, mean, change.difference, change.interval, change.significant) if change else Row(name, mean)

    return Verdict(weights, BM25, "", test, MEASURE, table.queries, tuple(map(row, rows)))


@dataclass(frozen=True)
class SearchTest:
    """A test of the search in the folder `output`, on the queries in test/labels or of anchors; `trusted`: whether vectors are."""

    name: str
    output: str
    settings: Settings
    trusted: bool
    steps: Steps

    def path(self, *names: str) -> str:
        """A path in the folder of the test's runs and report."""
        return os.path.join(self.output, "test", self.name, *names)

    def page(self, with_ranker: bool) -> str:
        """The report of the verdict on all parts, or on all but the rankers."""
        return self.path(f"verdict{'_with_ranker' if with_ranker else ''}.html")

    @property
    def training(self) -> str:
        """The folder of what is trained, to be tested."""
        return os.path.join(self.output, "training")

    @property
    def collection(self) -> dict[str, str]:
        """The test's documents, queries, judgments and candidates, as paths."""
        queries = os.path.join(self.output, "pages") if self.name == ANCHOR_TEST else self.path()
        return {
            "docs": os.path.join(self.output, DOCS),
            "queries": os.path.join(queries, "queries.tsv"),
            "qrels": os.path.join(queries, "qrels.txt"),
            "candidates": self.path("runs", "pool.trec"),
        }

    def rank(self, title: str, model: str, output: str, **how: Any) -> None:
        """Ranks the candidates by a trained model, unless it has ranked those of earlier pages. Runs and verdicts of a model that
        was trained anew are removed."""
        made = Made.read(output)
        if made and os.path.exists(model) and digest(model).sha256 != made.inputs["model"].sha256:
            for path in (output, self.page(True)):
                forget(path)
        if not os.path.exists(output):
            paths, options = self.collection, Reranking(FIELDS, windows=self.settings.windows, **how)
            texts = (paths["docs"], paths["queries"], paths["candidates"])
            self.steps(title, rerank_files, model, *texts, output, options)

    def run(self) -> Verdict:
        """The verdict; its report is copied to OUTPUT/report.html. If vectors are trusted, anchors do not decide on in-links and
        rankers."""
        paths, by_anchors = self.collection, self.name == ANCHOR_TEST
        # A query's source page contains its words.
        exclude = os.path.join(self.output, "pages", "sources.tsv") if by_anchors else ""
        searching = (self.output, replace(self.settings, weights={}), paths["queries"], exclude)
        parts = self.steps(f"Search for the {self.name}", score_parts, *searching, output=self.path("runs"))
        rankers = {RANKER: self.path("ranker.trec")}
        rankers |= {} if by_anchors else {LABELLED: os.path.join(self.training, "labels.trec")}
        rankers = {part: run for part, run in rankers.items() if os.path.exists(run)}
        runs = {part: self.path("runs", FILES[part]) for part in parts} | rankers
        measured = (INLINKS, *rankers) if self.trusted and by_anchors else ()
        curves = {"training": os.path.join(self.training, "ranker")} if rankers else {}
        trusted = VECTORS if self.trusted else ""
        judging = (runs, paths["queries"], paths["qrels"], self.name, trusted, measured, paths["docs"], curves)
        page = self.page(bool(rankers))
        made = judge.already(*judging, output=page)
        verdict = made.result if made else judge(*judging, output=page)
        shutil.copyfile(page, os.path.join(self.output, "report.html"))
        return verdict
