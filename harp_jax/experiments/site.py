"""A site end to end: from pages with links to a re-ranker that is tested without labels (`harp site`, `hj.Site`).

Budget: are there enough links to learn from and to test with, and how many steps of training fit into the time?
Run: the plan `plans/site.py` in two parts, prepare and measure, then train for so many steps and test.
Verdict: which ranking to use, the first stage or its sum with a ranker. The ranker's weight is fitted on half of the queries and
its gain measured on the other, both ways ("cross-fitted"); the weight to use afterwards is fitted on all of them. The sum is used
only where the interval of its gain over the first stage lies above 0.
`Site`: documents, links and BM25 of a site as Python objects.
"""

import importlib
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_links, check_outside, link, read_json
from harp_jax.config import read_config
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import Qrels, Run, ordered, read_qrels, read_queries
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.tables import Table
from harp_jax.experiments.execution import execute, summary
from harp_jax.experiments.plan import Step, check_braces, listing, resolve
from harp_jax.experiments.plan_file import load_plan
from harp_jax.input.records import read_manifest, split_name
from harp_jax.ranking.first_stage import anchor_rows, indexed
from harp_jax.ranking.fuse import fitted
from harp_jax.ranking.lexical import Collection, make, search

MOST_MINUTES = 100_000  # ten weeks
MIN_QUERIES = 50  # the 95 % interval of RR@10 is then about ±.1
MIN_LINKS = 500  # training pairs of one epoch; fewer were never tried
MIN_STEPS = 20
MIN_PAIRS = 100  # training pairs of a task; tasks with fewer are left out
MAX_EPOCHS = 10  # over the pairs: more repeats them without dropout


def check_survey(survey: Mapping[str, Any]) -> None:
    """Raises InputError, with what was found and what would be needed, for a survey of too few links."""
    links, queries = survey["links_kept"], survey["queries"]
    said = f"{survey['documents']:,} documents with {links:,} usable links, {queries:,} test queries"
    reasons = sorted(survey["losses"].items(), key=lambda item: -item[1]["count"])[:3]
    lost = ", ".join(f"{reason} {entry['count']:,}" for reason, entry in reasons)
    hint = f" Dropped most: {lost}." if lost else ""
    if links < MIN_LINKS:
        raise InputError(
            f"too few links to learn from: {said}; at least {MIN_LINKS} links are needed.{hint} Use BM25, or add pages "
            "that link to these"
        )
    if queries < MIN_QUERIES:
        estimate = 100 * math.ceil(links * MIN_QUERIES / max(1, queries) / 100)
        enough = f", which takes about {estimate:,} links like these" if queries else ""
        raise InputError(
            f"too few links to test with: {said}; {MIN_QUERIES} queries are needed{enough}.{hint} Use BM25, or add "
            "pages that link to these"
        )


def usable_tasks(pairs: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """Those of the tasks that have MIN_PAIRS training pairs, and held-out ones, in the directory `pairs`.

    Raises InputError if there are none.
    """
    found = tuple(
        task for task in tasks if records(pairs, task, "train") >= MIN_PAIRS and records(pairs, task, "validation")
    )
    if not found:
        counts = ", ".join(f"{task} {records(pairs, task, 'train'):,}" for task in tasks)
        raise InputError(
            f"too few training pairs: {counts}; one task needs {MIN_PAIRS}. Use BM25, or add pages with links"
        )
    return found


def records(pairs: str, task: str, split: str) -> int:
    """Records of a split of a task in a finished generation job; 0 where there is none."""
    return int(read_manifest(pairs).get("splits", {}).get(split_name(task, split), {}).get("records", 0))


def steps_within(minutes: float, seconds_per_step: float, pairs: str, tasks: Sequence[str], batch_pairs: int) -> int:
    """Steps that take `minutes`, at most MAX_EPOCHS over the training pairs in the directory `pairs`.

    Raises InputError for a time that is too short for MIN_STEPS.
    """
    there = sum(records(pairs, task, "train") for task in tasks)
    steps = min(int(60 * minutes / seconds_per_step), math.ceil(MAX_EPOCHS * there / batch_pairs))
    if steps < MIN_STEPS:
        raise InputError(
            f"--minutes={minutes:g}: a step takes {seconds_per_step:.2f} s and there are {there:,} training pairs, which "
            f"makes {steps} steps; at least {MIN_STEPS} are needed"
        )
    return steps


def verdicts(manifest: Mapping[str, Any]) -> list[str]:
    """A sentence on each trivial predictor of each task of a generation job, by its accuracy on held-out pairs."""
    found = []
    for task, entry in manifest["tasks"].items():
        n = entry.get("predictor_pairs", 0)
        for name, accuracy in entry.get("predictors", {}).items():
            best, margin = max(accuracy, 1 - accuracy), 1 / math.sqrt(max(1, n))  # two standard errors
            if best <= 0.5 + margin:
                said = "no shortcut"
            elif name in ("overlap", "idf"):
                said = "shared words help, as they do BM25"
            else:
                said = "a shortcut" if best >= 0.7 else "a weak shortcut"
            found.append(f"{task} {name.replace('_', ' ')}: {accuracy:.2f} of {n:,} pairs, {said}")
    return found


PLAN, PRETRAIN = "site", "site"
GUESSED = 1.0  # seconds of a step in a dry run before it is measured
SCRATCH = (
    "No --start: a small encoder is trained from scratch with the words of these pages. It can add to BM25 where there are tens of "
    "thousands of links; with --start=HF_DIR (a BERT such as all-MiniLM-L6-v2) the same minutes go further."
)
# Name in the output directory → step whose output it is.
RESULTS = {
    "ranker": "model", "report.html": "report", "verdict.json": "verdict", "survey": "survey", "table.tsv": "table",
    "bm25.trec": "bm25", "bm25.json": "parameters", "ranker.trec": "run_ranker", "bm25_ranker.trec": "bm25_ranker",
}  # fmt: skip
LABELLED = {"verdict.json": "verdict_labels", "anchors_verdict.json": "verdict"}


@dataclass(frozen=True)
class SiteRun:
    """The options of `harp plan site`, minutes of training, and the directory that receives everything."""

    options: Mapping[str, Any]
    output: str
    minutes: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.minutes <= MOST_MINUTES:
            raise InputError(f"--minutes={self.minutes:g}: use a positive number, at most {MOST_MINUTES:,}")

    def steps(self, steps: int = 0, tasks: tuple[str, ...] = ()) -> dict[str, Step]:
        """The steps of the plan by name, up to the training where `steps` is 0.

        Raises InputError for braces in the options, and for an output within what is read.
        """
        check_braces(self.options)
        check_outside(self.output, (*self.options["pages"], self.options.get("start", "")))
        planned = resolve(load_plan(PLAN).get_plan(**self.options, steps=steps, tasks=tasks), self.output)
        return {step.command.name: step for step in planned}

    def dry_run(self) -> str:
        """The commands, and what they cost as far as that is known."""
        prepared = self.steps()
        tasks = self.tasks(prepared) if prepared["pairs"].done else ()
        rate = self.steps(tasks=tasks)["rate"]
        number = self.training_steps(rate, prepared["pairs"], tasks) if rate.done and tasks else 0
        planned = list(self.steps(number or max(1, round(60 * self.minutes / GUESSED)), tasks).values())
        lines = [listing(planned), summary(planned, self.output)]
        if not number:
            lines.append(
                f"The steps of harp stand for {self.minutes:g} minutes at {GUESSED:g} s a step; the step rate measures how "
                "many fit."
            )
        return "\n".join(lines)

    def run(self) -> dict[str, Any]:
        """Runs what is not done; returns the content of verdict.json, by labels where there are some.

        Raises InputError where links are too few.
        """
        results = RESULTS | (LABELLED if self.options.get("labels") else {})
        check_links(os.path.join(self.output, name) for name in results)
        self.check_start()
        prepared = self.steps()
        surveyed = prepared["survey"].done
        carry_out([prepared["survey"]], self.output)
        survey = read_json(os.path.join(prepared["survey"].place, "survey.json"))
        if surveyed and "text" in survey:  # otherwise the command has just printed it
            print(survey["text"], flush=True)
        check_survey(survey)
        if "vocabulary" in prepared:
            print(SCRATCH, flush=True)
        carry_out([step for name, step in prepared.items() if name != "rate"], self.output)
        for sentence in verdicts(read_manifest(prepared["pairs"].place)):
            print(sentence, flush=True)
        tasks = self.tasks(prepared)
        rate = self.steps(tasks=tasks)["rate"]
        carry_out([rate], self.output)
        number = self.training_steps(rate, prepared["pairs"], tasks)
        print(f"{number} steps of training, within {self.minutes:g} minutes; tasks: {', '.join(tasks)}", flush=True)
        planned = self.steps(number, tasks)
        carry_out(list(planned.values()), self.output)
        for name, step in results.items():
            link(planned[step].place, os.path.join(self.output, name))
        return read_json(planned[results["verdict.json"]].place)

    def check_start(self) -> None:
        """Raises InputError, before anything runs, for a start that has too few layers or reads shorter rows than the recipe's."""
        path = os.path.join(str(self.options.get("start") or ""), "config.json")
        if self.options.get("start") and os.path.isfile(path):
            start, rows = read_json(path), read_config(PRETRAIN).row_length
            length, layers = start.get("max_position_embeddings"), start.get("num_hidden_layers")
            if isinstance(layers, int) and layers < self.options.get("layers", 0):
                raise InputError(f"--layers={self.options['layers']}: the encoder of --start has {layers}")
            if isinstance(length, int) and length < rows:
                raise InputError(
                    f"--start: the encoder reads {length} tokens at most, the recipe {rows}; choose another start"
                )

    def tasks(self, prepared: Mapping[str, Step]) -> tuple[str, ...]:
        """The tasks of the recipe that the finished pairs suffice for."""
        return usable_tasks(prepared["pairs"].place, read_config(PRETRAIN).tasks)

    def training_steps(self, rate: Step, pairs: Step, tasks: tuple[str, ...]) -> int:
        """Steps within the minutes: a function of the recorded rate, so that a command that is repeated trains for as many."""
        seconds = float(read_json(rate.place, "remove it and run again")["seconds_per_step"])
        return steps_within(self.minutes, seconds, pairs.place, tasks, read_config(PRETRAIN).batch_pairs)


def carry_out(steps: list[Step], output: str) -> None:
    """Runs those of the steps that are not done."""
    if to_do := [step for step in steps if not step.done]:
        execute(to_do, output)


BETTER, SAME, WORSE = "better", "no difference shown", "worse"
VERDICTS = {"better": BETTER, "inconclusive": SAME, "worse": WORSE}  # of `significance.Comparison`
FIRST, RANKER, BOTH = "first stage", "ranker", "both"


@dataclass(frozen=True)
class Gain:
    """A system's mean of the measure, its difference to the first stage with a 95 % bootstrap interval, and the verdict of the
    tests (`significance.Comparison`)."""

    mean: float
    difference: float
    interval: tuple[float, float]
    verdict: str = SAME

    @property
    def change(self) -> str:
        """The difference and its interval, in brackets."""
        low, high = self.interval
        return f"({self.difference:+.3f} [{low:+.3f}, {high:+.3f}])"

    def __str__(self) -> str:
        return f"{self.mean:.3f} {self.change}"


@dataclass(frozen=True)
class Verdict:
    """What to use and why. `weight` is the ranker's, relative to 1 for the first stage, both normalised by `normalise`; 0: use
    the first stage alone. `fitted_weight` is the one that is best on all queries, also where the gain is not shown. `before` is the
    sum with the run of the ranker's start; `training` is the sum with the ranker, compared with `before`. `links` is a run that
    uses the links without a model; `beside_links` is its sum with the ranker, compared with it.
    """

    measure: str
    queries: int
    first: float
    ranker: Gain
    both: Gain
    fitted_weight: float
    normalise: str = "minmax"
    before: Gain | None = None
    training: Gain | None = None
    links: Gain | None = None
    beside_links: Gain | None = None

    @property
    def verdict(self) -> str:
        return self.both.verdict

    @property
    def weight(self) -> float:
        return self.fitted_weight if self.verdict == BETTER else 0.0

    @property
    def use(self) -> str:
        return BOTH if self.weight else FIRST

    def as_dict(self) -> dict[str, object]:
        """All fields and decisions, for a JSON file."""
        decided = {"verdict": self.verdict, "use": self.use, "weight": self.weight, "words": self.words()}
        return decided | asdict(self)

    def words(self, first: str = "BM25") -> str:
        """The verdict as sentences."""
        found = (
            f"By {self.measure} over {self.queries} queries: {first} {self.first:.3f}, the ranker alone {self.ranker}, "
            f"{first} + ranker {self.both}."
        )
        if self.verdict == BETTER:
            advice = (
                f"The sum is better than {first}: use it, with weight {self.weight:g} for the ranker's scores (each query's "
                "scores scaled to 0…1)."
            )
        elif self.verdict == WORSE:
            advice = f"The ranker makes {first} worse: use {first} alone."
        else:
            advice = (
                f"No difference to {first} is shown: use {first} alone. More links, more training, or labelled queries may "
                "change that."
            )
        return " ".join(filter(None, [found, advice, self._of_training(first), self._of_links()]))

    def _of_training(self, first: str) -> str:
        """What the training adds to the sum with the start's own run."""
        if self.before is None or self.training is None:
            return ""
        said = {
            BETTER: "the training adds to it",
            SAME: "that the training adds to it is not shown",
            WORSE: "the training made it worse: rank with the start's vectors (harp rerank --cosine)",
        }[self.training.verdict]
        return f"{first} + the start's own vectors, without training: {self.before}; {said} {self.training.change}."

    def _of_links(self) -> str:
        """What the ranker adds to a ranking that uses the links without a model."""
        if self.links is None or self.beside_links is None:
            return ""
        said = {
            BETTER: "the ranker adds to it",
            SAME: "that the ranker adds to it is not shown, and it needs no model",
            WORSE: "the ranker makes it worse: use it alone",
        }[self.beside_links.verdict]
        return (
            f"The links without a model (anchor texts as a field, in-links): {self.links}; {said} "
            f"{self.beside_links.change}."
        )


def decide(
    qrels: Qrels,
    folds: Mapping[str, str],
    first: Run,
    ranker: Run,
    measure: str = "RR@10",
    normalise: str = "minmax",
    before: Run | None = None,
    links: Run | None = None,
) -> Verdict:
    """The verdict on two runs of the same queries; `folds` (qid → fold) divides them for cross-fitting.

    `before`: what the start of the ranker's training ranked; `links`: what the links rank without a model. Raises InputError for
    unknown measures, and for queries without a fold.
    """

    def in_sum(one: Run, other: Run) -> Run:
        return dict(ordered(fitted([one, other], qrels, folds, measure, normalise)[1]))

    runs = {"first": first, "ranker": ranker, "both": in_sum(first, ranker)}
    if before is not None:
        runs["before"] = in_sum(first, before)
    if links is not None:
        runs |= {"links": links, "beside_links": in_sum(links, ranker)}
    weights, _ = fitted([first, ranker], qrels, {}, measure, normalise)
    table = evaluate(qrels, runs, measure, baseline="first")
    gains = _gains(table)
    name = table.measures[0]
    training = _gains(evaluate(qrels, runs, measure, baseline="before"))["both"] if before is not None else None
    beside = _gains(evaluate(qrels, runs, measure, baseline="links"))["beside_links"] if links is not None else None
    return Verdict(
        name, table.queries, table.mean["first"][name], gains["ranker"], gains["both"], weights[""][1], normalise,
        gains.get("before"), training, gains.get("links"), beside,
    )  # fmt: skip


def _gains(table: Table) -> dict[str, Gain]:
    name = table.measures[0]
    return {
        c.run: Gain(table.mean[c.run][name], c.difference, c.interval, VERDICTS[c.verdict]) for c in table.comparisons
    }


FIELDS = ("title", "body")


class Site:
    """The documents and links of a site, read once into the folder `directory` (`harp survey`).

    `options` are those of the plan behind `harp site` that name the pages; `Reranker.pretrain` passes them on.

    >>> import harp_jax as hj
    >>> site = hj.Site.from_pages("pages.jsonl")
    >>> len(site.documents) > 0, len(site.pairs()) > 0
    (True, True)
    >>> docid, text = next(iter(site.documents.items()))
    >>> site.bm25(text, k=1)[0][0] == docid
    True
    """

    def __init__(self, directory: str, options: dict[str, Any], temporary: Any = None) -> None:
        self.directory, self.options, self._temporary = directory, options, temporary

    @classmethod
    def from_html(cls, folder: str | os.PathLike[str], base_url: str = "", directory: str = "") -> "Site":
        """Reads a folder of HTML that is served at `base_url`; its documents go to `directory` (a temporary one)."""
        return cls.from_pages(folder, format="html", base_url=base_url, directory=directory)

    @classmethod
    def from_pages(
        cls,
        pages: str | os.PathLike[str] | Sequence[str],
        format: str = "",
        base_url: str = "",
        redirects: Sequence[str] = (),
        directory: str = "",
    ) -> "Site":
        """Reads HTML, a WARC, a MediaWiki dump or linked JSONL, told by content unless `format` names it.

        Raises InputError for bad input.
        """
        paths = (os.fspath(pages),) if isinstance(pages, str | os.PathLike) else tuple(pages)
        if not paths:
            raise InputError("no pages; name a folder of HTML, a WARC, a dump or linked JSONL")
        source = {"format": format, "paths": paths, "base_url": base_url, "redirects": tuple(redirects)}
        config = read_config("data/site")
        config.update_from_flattened_dict({f"source.{name}": value for name, value in source.items()})
        temporary = tempfile.TemporaryDirectory(prefix="harp-site-") if not directory else None
        place = os.path.join(temporary.name, "survey") if temporary else directory
        # By name, at the call: harp_jax works without the generation job.
        importlib.import_module("data_pipeline.commands.survey").write_survey(config, place)
        return cls(
            place, {"pages": paths, "format": format, "base_url": base_url, "redirects": tuple(redirects)}, temporary
        )

    @cached_property
    def documents(self) -> dict[str, str]:
        """docid → title and text, all in memory."""
        return dict(Documents.open(os.path.join(self.directory, "docs.jsonl"), FIELDS).texts())

    def pairs(self) -> list[tuple[str, str]]:
        """(anchor text, docid) for each text of each document, without the held-out pages: positives for any trainer."""
        return [(text, docid) for docid, text, _ in anchor_rows(os.path.join(self.directory, "anchors.tsv"))]

    def held_out(self) -> tuple[dict[str, str], Qrels]:
        """(queries, judgments): anchor texts that only held-out pages use, and where they lead."""
        path = self.directory
        return read_queries(os.path.join(path, "queries.tsv")), read_qrels(os.path.join(path, "qrels.txt"))

    @cached_property
    def _index(self) -> Collection:
        return indexed(self.documents.items(), "bm25", "english")

    def bm25(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """The best `k` documents of a query as (docid, score); fewer where fewer share a word with it."""
        docids, scores = search(make("bm25", self._index, {}), self._index, query, k)
        return [(docid, float(score)) for docid, score in zip(docids, scores)]
