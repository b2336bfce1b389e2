"""A site end to end: from pages with links to a re-ranker that is tested without labels (`harp site`, `hj.Site`).

Budget: are there enough links to learn from and to test with, and how many steps of training fit into the time?
Plan: anchor texts of held-out pages are queries, the pages they lead to the relevant documents. The recipe is in
configs/data/site.py, configs/site.py and configs/finetune_site.py.
Run: the plan in two parts, prepare and measure, then train for so many steps and test.
`Site`: documents, links and BM25 of a site as Python objects.
"""

import importlib
import importlib.util
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_links, check_outside, link, read_json
from harp_jax.config import read_config
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.paths import are_pages
from harp_jax.corpus.trec import Qrels, read_qrels, read_queries
from harp_jax.experiments.execution import duration, execute, summary
from harp_jax.experiments.plan import Command, Step, listing, resolve
from harp_jax.experiments.steps import Collection as Judged
from harp_jax.experiments.steps import cross_validation, fitted_sum, trained_ranker, tuned_first_stage
from harp_jax.input.records import read_manifest, split_name
from harp_jax.ranking.first_stage import anchor_rows, indexed
from harp_jax.ranking.fuse import ANCHORS, BM25, INLINKS, VECTORS
from harp_jax.ranking.lexical import Collection, make, search
from harp_jax.text.languages import ENGLISH

MIN_QUERIES = 50  # the 95 % interval of RR@10 is then about ±.1
MIN_LINKS = 500  # training pairs of one epoch; fewer were never tried
MIN_STEPS = 20
MIN_PAIRS = 100  # training pairs of a task; tasks with fewer are left out
FEW_PAIRS = 10_000
MAX_EPOCHS = 10  # over the pairs: more repeats them without dropout


def check_survey(survey: Mapping[str, Any]) -> None:
    """Raises InputError, with what was found and what would be needed, for a survey of too few links."""
    links, queries = survey["links_kept"], survey["queries"]
    said = f"{survey['documents']:,} documents with {links:,} usable links, {queries:,} test queries"
    reasons = sorted(survey["losses"].items(), key=lambda item: -item[1]["count"])[:3]
    lost = ", ".join(f"{reason} {entry['count']:,}" for reason, entry in reasons)
    hint = f" Dropped most: {lost}." if lost else ""
    if links < MIN_LINKS:
        short = f"too few links to learn from: {said}; at least {MIN_LINKS} links are needed"
    elif queries < MIN_QUERIES:
        estimate = 100 * math.ceil(links * MIN_QUERIES / max(1, queries) / 100)
        enough = f", which takes about {estimate:,} links like these" if queries else ""
        short = f"too few links to test with: {said}; {MIN_QUERIES} queries are needed{enough}"
    else:
        return
    raise InputError(f"{short}.{hint} Use BM25, or add pages that link to these")


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
    steps = int(min(60 * minutes / seconds_per_step, math.ceil(MAX_EPOCHS * there / batch_pairs)))
    if steps < MIN_STEPS:
        raise InputError(
            f"--minutes={minutes:g}: a step takes {seconds_per_step:.2f} s and there are {there:,} training pairs, which "
            f"makes {steps} steps; at least {MIN_STEPS} are needed"
        )
    return steps


def expectation(pairs: int) -> str:
    """What a ranker of few training pairs is worth, by the sites of docs/experiments/site.md; empty where there are enough."""
    if pairs >= FEW_PAIRS:
        return ""
    return (
        f"{pairs:,} training pairs are few: with 25,743 of Python's manual the ranker added .05 RR@10 to BM25 and vectors; below "
        f"about {FEW_PAIRS:,} expect that BM25, anchor texts and the vectors of --start do as well without it."
    )


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


DATA, PRETRAIN, FINETUNE = "configs/data/site.py", "configs/site.py", "configs/finetune_site.py"
MEASURE = "RR@10"
FIELDS = ("title", "body")
HELD_OUT = Judged("{survey}/docs.jsonl", "{survey}/queries.tsv", "{survey}/qrels.txt", FIELDS)
SOURCES = "--exclude={survey}/sources.tsv"  # a query has the words of its own source
LABELLED = Judged("{survey}/docs.jsonl", "{labels}/queries.tsv", "{labels}/qrels.txt", FIELDS)
TEXTS = ["--anchors={survey}/anchors.tsv"]  # of trained pages
# Rows of the table.
ROW, LABELLED_ROW, EVERYTHING = "ranker", "ranker, fine-tuned on labels", "everything"
MAX_LENGTH = 128  # of configs/site.py


def site_plan(
    pages: tuple[str, ...],
    format: str = "",
    base_url: str = "",
    redirects: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    split: str = "auto",
    start: str = "",
    layers: int = 0,
    vectors: str = "",
    labels: str = "",
    max_queries: int = 400,
    context_words: int = 3,
    depth: int = 20,
    windows: int = 4,
    seed: int = 0,
    language: str = "",
    vocabulary: str = "wordpiece",
    steps: int = 0,
    tasks: tuple[str, ...] = (),
    stems: str = ENGLISH,
) -> list[Command]:
    """The steps up to the training's rate, and with `steps` of pre-training all that follow.

    pages: folder of HTML, WARC, MediaWiki dump or linked JSONL; several of one format
    format: of the pages, where their content misleads
    base_url: where a folder of HTML is served
    redirects: files of alias<TAB>address
    exclude: patterns of the addresses of pages that are not read
    split: documents are pages, or sections; auto: sections where most links lead to one
    start: Hugging Face encoder to start from; empty: a small encoder from scratch
    layers: of the start that are kept, its first ones; 0: all
    vectors: Hugging Face encoder whose vectors are tested and teach; empty: the start
    labels: file of query<TAB>docid<TAB>level to fine-tune on
    max_queries: anchors of held-out pages that are tested, at most
    context_words: of an anchor's sentence that are added to its query
    depth: candidates of each first stage, BM25, BM25F and vectors, for each query
    windows: of MAX_LENGTH tokens of a long page, that the ranker and the encoder read
    seed: of pairs and training
    language: of sentences, stopwords and stems; empty: that of the pages
    vocabulary: of a small encoder from scratch: wordpiece, or unigram for scripts without spaces
    tasks: of pre-training, where the pages make no pairs of some of configs/site.py; empty: those
    stems: language of BM25, which the survey found
    """
    source = [f"--config={DATA}", f"--config.source.format={format}", f"--config.source.paths={pages!r}"]
    source += [f"--config.source.base_url={base_url}"] if base_url else []
    source += [f"--config.source.redirects={redirects!r}"] if redirects else []
    source += [f"--config.source.exclude={exclude!r}"] if exclude else []
    source += [f"--config.source.split={split}"] if split != "auto" else []
    source += [f"--config.language={language}"] if language else []
    shortened, encoder = [], vectors or start  # of all layers
    teacher = is_embedder(encoder) and bool(start)
    if layers:
        shortened = [Command("start", "export", [f"--encoder={start}", f"--layers={layers}", "--output={out}"])]
        start = "{start}"
    tokenizer = start or "{vocabulary}"
    # The order of a pair's documents by the vectors teaches, beside the link (docs/experiments/recipe.md).
    data, recipe = ("{taught}", f"{PRETRAIN}:taught") if teacher else ("{pairs}", PRETRAIN)
    training = [f"--config={recipe}", f"--config.init={start}", f"--config.data=('{data}',)", f"--config.seed={seed}"]
    training += [] if start else ["--config.tokenizer={vocabulary}", "--config.learning_rate=1e-3"]
    # A whole encoder forgets what it knows at the rate of a few layers.
    training += ["--config.learning_rate=1e-4"] if start and not layers else []
    training += [f"--config.tasks={tasks!r}"] if tasks else []
    survey = [*source, f"--max_queries={max_queries}", f"--context_words={context_words}", "--output={out}"]
    pairs = [*source, f"--config.tokenizer={tokenizer}", f"--config.seed={seed}", "--output={out}"]
    commands = [
        Command("survey", "survey", survey),
        *shortened,
        *([] if start else [Command("vocabulary", "vocabulary", [*source, f"--kind={vocabulary}", "--output={out}"])]),
        Command("pairs", "generate", pairs),
        *(
            [Command("taught", "teach", ["{pairs}", f"--model={encoder}", "--cosine", "--output={out}"])]
            if teacher
            else []
        ),
        Command("rate", "rate", [*training, "--output={out}"], suffix=".json"),
    ]
    if steps:
        commands += [
            Command("harp", "train", [*training, f"--config.steps={steps}", "--workdir={out}"]),
            Command("ranker", "export", ["--workdir={harp}", "--ranker", "--output={out}"]),
            *tuned(depth, stems),
        ]
        candidates = Candidates(depth, stems, encoder, windows)
        made, rows = tested(candidates)
        commands += made
        if labels:
            commands += with_labels(labels, seed, candidates)
            rows[LABELLED_ROW] = "{run_labelled}"
        commands += [*tables(rows), published("model", "harp", ROW)]
        commands += [published("labelled", "train_labelled", LABELLED_ROW)] if labels else []
    return commands


def is_embedder(start: str) -> bool:
    """Whether an encoder was trained to give vectors of texts: sentence-transformers stores how they are pooled."""
    return bool(start) and os.path.isdir(os.path.join(start, "1_Pooling"))


def tuned(depth: int, stems: str) -> list[Command]:
    """BM25 and BM25F on the held-out anchors, the parameters of each half tuned on the other; and those of all, for other queries.

    With the defaults Python's documentation had .605 RR@10; fitted on the other half it has .639.
    """
    halves = [f"--queries={HELD_OUT.queries}", f"--qrels={HELD_OUT.qrels}", "--count=2", "--output={out}"]
    commands = [Command("folds", "queries", ["folds", *halves], suffix=".tsv")]
    for model in ("bm25", "bm25f"):
        options = [SOURCES, f"--k={depth}", f"--language={stems}", *(TEXTS if model == "bm25f" else [])]
        judged = [f"--model={model}", f"--qrels={HELD_OUT.qrels}", f"--measure={MEASURE}", "--output={out}"]
        commands += tuned_first_stage(model, HELD_OUT, folds="{folds}", measure=MEASURE, options=options)
        commands.append(
            Command(f"parameters_{model}", "tune-first-stage", [*HELD_OUT.options, *options, *judged], suffix=".json")
        )
    return commands


class Candidates(NamedTuple):
    """The best `depth` of each first stage, BM25 with the stems of a language; `encoder` may be empty; windows of a long page."""

    depth: int
    stems: str
    encoder: str
    windows: int


def scored(
    where: Judged, suffix: str, lexical: Mapping[str, list[str]], candidates: Candidates, own: Sequence[str] = ()
) -> tuple[list[Command], dict[str, str]]:
    """A pool of candidates, the best of BM25, BM25F and the vectors, each scored by all of them; part → its run.

    `lexical` has the parameters of BM25 and BM25F, whose first stages are the steps bm25SUFFIX and bm25fSUFFIX; `own` are
    options that leave out the queries' own sources.
    """
    depth, _, encoder, windows = candidates
    vectors = ["--model=vectors", f"--encoder={encoder}", f"--passages={windows}"]
    first = ["{bm25" + suffix + "}", "{bm25f" + suffix + "}"]
    commands = []
    if encoder:
        near = [*vectors, *where.options, *own, f"--k={depth}", "--output={out}"]
        commands.append(Command(f"near{suffix}", "first-stage", near, suffix=".trec"))
        first.append("{near" + suffix + "}")
    pool = "{pool" + suffix + "}"
    commands.append(Command(f"pool{suffix}", "fuse", [*first, "--method=rrf", "--output={out}"], suffix=".trec"))
    among = [*where.options, f"--run={pool}", "--output={out}"]
    for model, parameters in lexical.items():
        commands.append(
            Command(f"{model}_pool{suffix}", "first-stage", [f"--model={model}", *among, *parameters], suffix=".trec")
        )
    inlinks = [f"--run={pool}", "--feature=inlinks", *TEXTS, "--output={out}"]
    commands.append(Command(f"inlinks{suffix}", "priors", inlinks, suffix=".trec"))
    parts = {
        BM25: "{bm25_pool" + suffix + "}",
        ANCHORS: "{bm25f_pool" + suffix + "}",
        INLINKS: "{inlinks" + suffix + "}",
    }
    if encoder:
        commands.append(Command(f"vectors{suffix}", "first-stage", [*vectors, *among], suffix=".trec"))
        parts[VECTORS] = "{vectors" + suffix + "}"
    ranker = ["--model={ranker}", f"--max_length={MAX_LENGTH}", f"--windows={windows}", *among]
    commands.append(Command(f"run_ranker{suffix}", "rerank", ranker, suffix=".trec"))
    return commands, parts | {ROW: "{run_ranker" + suffix + "}"}


def decided(name: str, parts: Mapping[str, str], qrels: str, folds: str) -> Command:
    """The verdict on the parts, in their order."""
    options = [f"--qrels={qrels}", f"--folds={folds}", f"--measure={MEASURE}", "--output={out}"]
    return Command(
        name, "verdict", [*(f"--part={part}={run}" for part, run in parts.items()), *options], suffix=".json"
    )


def tested(candidates: Candidates) -> tuple[list[Command], dict[str, str]]:
    """All that is on the table, on the held-out anchors: the parts alone, their sums, and the verdict on them; row → its run."""
    stemmed = [SOURCES, "--folds={folds}", f"--language={candidates.stems}"]
    lexical = {
        "bm25": [*stemmed, "--parameters={tuned_bm25}"],
        "bm25f": [*stemmed, *TEXTS, "--parameters={tuned_bm25f}"],
    }
    commands, parts = scored(HELD_OUT, "", lexical, candidates, [SOURCES])
    sums = {"BM25 + anchor texts + in-links": [*parts.values()][:3]}
    if candidates.encoder:
        sums |= {"all without the ranker": [*parts.values()][:-1], "BM25 + vectors": [parts[BM25], parts[VECTORS]]}
    sums |= {"BM25 + ranker": [parts[BM25], parts[ROW]], EVERYTHING: [*parts.values()]}
    rows = dict(parts)
    for number, (row, runs) in enumerate(sums.items()):
        commands.append(fitted_sum(f"sum_{number}", runs, qrels=HELD_OUT.qrels, folds="{folds}", measure=MEASURE))
        rows[row] = "{" + commands[-1].name + "}"
    return [*commands, decided("verdict", parts, HELD_OUT.qrels, "{folds}")], rows


def tables(rows: Mapping[str, str]) -> list[Command]:
    """The table and the report of rows on the held-out anchors."""
    runs = [f"{row}={run}" for row, run in rows.items()]
    judged = [f"--qrels={HELD_OUT.qrels}", f"--measures={MEASURE} nDCG@10", "--baseline=BM25", "--chance=BM25"]
    page = [*judged, *(f"--run={run}" for run in runs), f"--focus={EVERYTHING}", f"--docs={HELD_OUT.docs}"]
    page += [f"--fields={','.join(FIELDS)}", f"--query_texts={HELD_OUT.queries}"]
    page += ["--curves=training={harp}", "--pairs=the site={pairs}", "--title=Search over a site", "--output={out}"]
    return [
        Command("table", "evaluate", [*runs, *judged, f"--confirm={MEASURE}", "--per_query={out}"], suffix=".tsv"),
        Command("report", "report", page, suffix=".html"),
    ]


def published(name: str, workdir: str, row: str) -> Command:
    """An export with the figures of its row of the table on its card."""
    where = "--evaluated_on=anchors of held-out pages, candidates of BM25, BM25F and vectors re-ranked"
    figures = ["--results={table}", f"--system={row}", where]
    return Command(name, "export", ["--workdir={" + workdir + "}", "--ranker", *figures, "--output={out}"])


def with_labels(labels: str, seed: int, candidates: Candidates) -> list[Command]:
    """The ranker fine-tuned on all labels; and the verdict by labels, on rankers fine-tuned on one half and tested on the other."""
    suffix, stemmed = "_labels", [f"--language={candidates.stems}"]
    lexical = {
        "bm25": [*stemmed, "--parameters={parameters_bm25}"],
        "bm25f": [*stemmed, *TEXTS, "--parameters={parameters_bm25f}"],
    }
    first = [
        Command(
            f"{model}{suffix}",
            "first-stage",
            [f"--model={model}", *LABELLED.options, *given, f"--k={candidates.depth}", "--output={out}"],
            suffix=".trec",
        )
        for model, given in lexical.items()
    ]  # fmt: skip
    commands, parts = scored(LABELLED, suffix, lexical, candidates)
    halves = [f"--queries={LABELLED.queries}", f"--qrels={LABELLED.qrels}", "--count=2", "--output={out}"]
    training: dict[str, Any] = {
        "config": FINETUNE,
        "candidates": "{pool_labels}",
        "settings": ["init={harp}", f"seed={seed}"],
    }
    rerank = [f"max_length={MAX_LENGTH}", f"windows={candidates.windows}"]
    return [
        Command("labels", "queries", ["labels", f"--labels={labels}", "--output={out}"]),
        *first,
        *commands,
        Command("folds_labels", "queries", ["folds", *halves], suffix=".tsv"),
        *cross_validation(
            "labels", LABELLED, folds="{folds_labels}", fold_names=("0", "1"), rerank=rerank, export=False, **training
        ),
        decided("verdict_labels", parts | {LABELLED_ROW: "{joined_labels}"}, LABELLED.qrels, "{folds_labels}"),
        *trained_ranker("labelled", LABELLED, test=HELD_OUT, test_candidates="{pool}", rerank=rerank, **training),
    ]


# One package of each extra that the steps need, the last one for HTML.
PACKAGES = {"tensorflow": "demo", "ir_measures": "demo", "bm25s": "demo", "selectolax": "web"}
# Embedding a MB of documents takes as long as so many steps of training of as many layers: measured on Python's manual.
STEPS_PER_MB, WINDOW_BYTES = 20, 750
GUESSED = 1.0  # seconds of a step in a dry run before it is measured
SCRATCH = (
    "No --start: a small encoder is trained from scratch with the words of these pages. It can add to BM25 where there are tens of "
    "thousands of links; with --start=HF_DIR (an encoder such as all-MiniLM-L6-v2) the same minutes go further."
)
# Name in the output directory → step whose output it is.
RESULTS = {
    "report.html": "report", "verdict.json": "verdict", "survey": "survey", "table.tsv": "table",
    "bm25.json": "parameters_bm25", "bm25f.json": "parameters_bm25f",
}  # fmt: skip
BY_LABELS = {"verdict.json": "verdict_labels", "anchors_verdict.json": "verdict"}
# The ranker by the verdict: under the first name where it is a part of what to use.
RANKER, REJECTED = "ranker", "ranker_not_used"


@dataclass(frozen=True)
class SiteRun:
    """The options of `site_plan`, minutes of training, and the directory that receives everything."""

    options: Mapping[str, Any]
    output: str
    minutes: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.minutes < math.inf:
            raise InputError(f"--minutes={self.minutes:g}: use a positive number")
        crawled = any(os.path.isdir(path) and are_pages(path) for path in self.options["pages"])
        for package, extra in PACKAGES.items():
            if importlib.util.find_spec(package) is None and (crawled or extra != "web"):
                raise InputError(f"harp site needs the package {package}; install harp_jax[{extra}]")

    @property
    def encoder(self) -> str:
        """Whose vectors are tested, and teach; may be empty."""
        return self.options.get("vectors") or self.options.get("start", "")

    def steps(self, steps: int = 0, tasks: tuple[str, ...] = (), stems: str = ENGLISH) -> dict[str, Step]:
        """The steps of the plan by name, up to the training where `steps` is 0; `stems` is the language of BM25.

        Raises InputError for an output within what is read.
        """
        check_outside(self.output, (*self.options["pages"], self.options.get("start", ""), self.encoder))
        planned = resolve(site_plan(**self.options, steps=steps, tasks=tasks, stems=stems), self.output)
        return {step.command.name: step for step in planned}

    def dry_run(self) -> str:
        """The commands, and what they cost as far as that is known."""
        prepared = self.steps()
        tasks = self.tasks(prepared) if prepared["pairs"].done else ()
        rate = self.steps(tasks=tasks)["rate"]
        number = self.training_steps(rate, prepared["pairs"], tasks) if rate.done and tasks else 0
        embedding = self.embedding(prepared, rate) if number else ""
        known = number or max(1, round(60 * self.minutes / GUESSED))
        stems = (
            survey_of(prepared["survey"])["language"]
            if prepared["survey"].done
            else self.options.get("language") or ENGLISH
        )
        planned = list(self.steps(known, tasks, stems).values())
        lines = [listing(planned), summary(planned, self.output)]
        if not number:
            lines.append(
                f"The steps of harp stand for {self.minutes:g} minutes at {GUESSED:g} s a step; the step rate measures how "
                "many fit."
            )
            if self.options.get("start"):
                embedding = (
                    f"Vectors: a MB of documents takes about as long as {STEPS_PER_MB} of these steps with all layers."
                )
        lines += [embedding] if embedding else []
        return "\n".join(lines)

    def run(self) -> dict[str, Any]:
        """Runs what is not done; returns the content of verdict.json, by labels where there are some.

        Raises InputError where links are too few.
        """
        results = RESULTS | (BY_LABELS if self.options.get("labels") else {})
        check_links(os.path.join(self.output, name) for name in (*results, RANKER, REJECTED))
        prepared = self.steps()
        surveyed = prepared["survey"].done
        carry_out([prepared["survey"]], self.output)
        survey = survey_of(prepared["survey"])
        if surveyed and "text" in survey:  # otherwise the command has just printed it
            print(survey["text"], flush=True)
        check_survey(survey)
        if "vocabulary" in prepared:
            print(SCRATCH, flush=True)
        carry_out([step for name, step in prepared.items() if name != "rate"], self.output)
        for sentence in verdicts(read_manifest(prepared["pairs"].place)):
            print(sentence, flush=True)
        tasks = self.tasks(prepared)
        if expected := expectation(sum(records(prepared["pairs"].place, task, "train") for task in tasks)):
            print(expected, flush=True)
        rate = self.steps(tasks=tasks)["rate"]
        if rate.done and not self.begun(rate, prepared["pairs"], tasks):
            os.remove(rate.place)  # of another time, when the machine may have been busy
        carry_out([rate], self.output)
        number = self.training_steps(rate, prepared["pairs"], tasks)
        print(f"{number} steps of training, within {self.minutes:g} minutes; tasks: {', '.join(tasks)}")
        if vectors := self.embedding(prepared, rate):
            print(vectors, flush=True)
        planned = self.steps(number, tasks, survey["language"])
        carry_out(list(planned.values()), self.output)
        for name, step in results.items():
            link(planned[step].place, os.path.join(self.output, name))
        found = read_json(planned[results["verdict.json"]].place)
        self.hand_over(planned, found["weights"], survey["language"])
        return found

    def hand_over(self, planned: Mapping[str, Step], weights: dict[str, float], stems: str) -> None:
        """Writes `search.json`, and links the ranker: under another name where the verdict leaves it out."""
        from harp_jax.ranking.combined import Settings  # loads JAX

        models = {ROW: "model"} | ({LABELLED_ROW: "labelled"} if "labelled" in planned else {})
        best = LABELLED_ROW if LABELLED_ROW in weights else ROW
        for name in (RANKER, REJECTED):
            if os.path.lexists(path := os.path.join(self.output, name)):
                os.remove(path)
        link(planned[models[best]].place, os.path.join(self.output, RANKER if best in weights else REJECTED))
        parameters = {name: read_json(planned[f"parameters_{name}"].place)["parameters"] for name in ("bm25", "bm25f")}
        windows, encoder = self.options.get("windows", 4), self.encoder and os.path.abspath(self.encoder)
        Settings(
            docs="survey/docs.jsonl", fields=FIELDS, anchors="survey/anchors.tsv", parameters=parameters, weights=weights,
            language=stems, encoder=encoder, depth=self.options.get("depth", 20),
            models={part: os.path.relpath(planned[step].place, self.output) for part, step in models.items()},
            windows=windows, passages=windows, max_length=MAX_LENGTH,
        ).save(self.output)  # fmt: skip

    def tasks(self, prepared: Mapping[str, Step]) -> tuple[str, ...]:
        """The tasks of the recipe that the finished pairs suffice for."""
        return usable_tasks(prepared["pairs"].place, read_config(PRETRAIN).tasks)

    def embedding(self, prepared: Mapping[str, Step], rate: Step) -> str:
        """How long the vectors of all documents take, from the rate of training; empty without `start`."""
        if not (start := self.options.get("start")):
            return ""
        of_encoder, of_start = (
            read_json(os.path.join(model, "config.json")).get("num_hidden_layers", 1) for model in (self.encoder, start)
        )
        layers = of_encoder / (self.options.get("layers") or of_start)
        layers /= 2 if is_embedder(self.encoder) else 1  # a step of the preset taught reads twice as many documents
        read = self.options.get("windows", 4) * WINDOW_BYTES
        with open(os.path.join(prepared["survey"].place, "docs.jsonl"), "rb") as file:
            megabytes = sum(min(len(line), read) for line in file) / 1e6
        seconds = STEPS_PER_MB * megabytes * layers * float(read_json(rate.place)["seconds_per_step"])
        return (
            f"Then vectors of the {megabytes:.1f} MB that it reads of the documents: about {duration(seconds)}, once."
        )

    def begun(self, rate: Step, pairs: Step, tasks: tuple[str, ...]) -> bool:
        """Whether a training of as many steps as the recorded rate allows was started."""
        try:
            number = self.training_steps(rate, pairs, tasks)
        except InputError:  # no rate to train by, such as that of a busy machine: none was started
            return False
        return os.path.exists(self.steps(number, tasks)["harp"].place)

    def training_steps(self, rate: Step, pairs: Step, tasks: tuple[str, ...]) -> int:
        """Steps within the minutes: a function of the recorded rate, so that a command that is repeated trains for as many."""
        seconds = float(read_json(rate.place, "remove it and run again")["seconds_per_step"])
        return steps_within(self.minutes, seconds, pairs.place, tasks, read_config(PRETRAIN).batch_pairs)


def ranker_of(output: str) -> str:
    """The ranker in the output of `harp site`, also of one that the verdict leaves out."""
    return next(
        (path for name in (RANKER, REJECTED) if os.path.exists(path := os.path.join(output, name))),
        os.path.join(output, RANKER),
    )


def survey_of(step: Step) -> dict[str, Any]:
    """What the finished step `survey` found."""
    return read_json(os.path.join(step.place, "survey.json"))


def carry_out(steps: list[Step], output: str) -> None:
    """Runs those of the steps that are not done."""
    if to_do := [step for step in steps if not step.done]:
        execute(to_do, output)


class Site:
    """The documents and links of a site, read once into the folder `directory` (`harp survey`).

    `options` are those of `site_plan` that name the pages; `Reranker.pretrain` passes them on.

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
    def from_html(
        cls, folder: str | os.PathLike[str], base_url: str = "", language: str = "", directory: str = ""
    ) -> "Site":
        """Reads a folder of HTML that is served at `base_url`; its documents go to `directory` (a temporary one)."""
        return cls.from_pages(folder, format="html", base_url=base_url, language=language, directory=directory)

    @classmethod
    def from_pages(
        cls,
        pages: str | os.PathLike[str] | Sequence[str],
        format: str = "",
        base_url: str = "",
        redirects: Sequence[str] = (),
        language: str = "",
        directory: str = "",
    ) -> "Site":
        """Reads HTML, a WARC, a MediaWiki dump or linked JSONL; format and language are detected unless they are named.

        Raises InputError for bad input.
        """
        paths = (os.fspath(pages),) if isinstance(pages, str | os.PathLike) else tuple(pages)
        if not paths:
            raise InputError("no pages; name a folder of HTML, a WARC, a dump or linked JSONL")
        source = {"format": format, "paths": paths, "base_url": base_url, "redirects": tuple(redirects)}
        config = read_config("data/site")
        config.update_from_flattened_dict({f"source.{name}": value for name, value in source.items()})
        config.language = language
        temporary = tempfile.TemporaryDirectory(prefix="harp-site-") if not directory else None
        place = os.path.join(temporary.name, "survey") if temporary else directory
        # By name, at the call: harp_jax works without the generation job.
        importlib.import_module("data_pipeline.commands.survey").write_survey(config, place)
        options = {"pages": paths, "format": format, "base_url": base_url, "redirects": tuple(redirects)}
        return cls(place, options | {"language": language}, temporary)

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
        return indexed(
            self.documents.items(), "bm25", read_json(os.path.join(self.directory, "survey.json"))["language"]
        )

    def bm25(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """The best `k` documents of a query as (docid, score); fewer where fewer share a word with it."""
        docids, scores = search(make("bm25", self._index, {}), self._index, query, k)
        return [(docid, float(score)) for docid, score in zip(docids, scores)]
