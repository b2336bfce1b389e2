"""A site end to end: from pages with links to a re-ranker tested without labels (`harp site`, `hj.Site`).

Budget: checks that there are enough links to train and to test, and computes how many training steps fit into the time.
Run: runs the plan (`site_plan.py`) in two parts: prepare and measure the training rate, then train and test.
`Site`: documents, links and BM25 of a site as Python objects.
"""

import importlib
import importlib.util
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from harp_jax.base.errors import InputError, missing
from harp_jax.base.files import check_links, check_outside, expand, link, read_json, replacing
from harp_jax.config import read_config
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.labels import read_labels
from harp_jax.corpus.trec import Qrels, components, read_qrels, read_queries
from harp_jax.experiments.execution import duration, execute, summary
from harp_jax.experiments.plan import Step, listing, resolve
from harp_jax.experiments.site_plan import (
    FIELDS,
    KNOWN,
    LABELLED_ROW,
    MAX_LENGTH,
    PARAMETERS,
    PRETRAIN,
    ROW,
    is_embedder,
    known_words,
    site_plan,
)
from harp_jax.input.records import read_manifest, split_name
from harp_jax.ranking.first_stage import anchor_rows, indexed
from harp_jax.ranking.fuse import ANCHORS, BM25, VECTORS, sum_in_words
from harp_jax.ranking.lexical import InvertedIndex, make, search
from harp_jax.text.languages import ENGLISH

MIN_QUERIES = 50  # the 95 % interval of RR@10 is then about ±.1
MIN_LABELLED = 20  # fewer user queries are weaker evidence than the anchors that they would overrule
MIN_LINKS = 500  # training pairs of one epoch; fewer were never tried
MIN_STEPS = 20
MIN_PAIRS = 100  # training pairs of a task; tasks with fewer are left out
FEW_PAIRS = 10_000
MAX_EPOCHS = 10  # more would repeat the pairs without dropout


def shortage(survey: Mapping[str, Any]) -> str:
    """Why the links of a survey are too few to train and test; empty if there are enough."""
    links, queries, needed = survey["links_kept"], survey["queries"], ""
    if links < MIN_LINKS:
        needed = f"too few links ({links:,} usable, {MIN_LINKS} needed)"
    elif queries < MIN_QUERIES:
        estimate = 100 * math.ceil(links * MIN_QUERIES / max(1, queries) / 100)
        enough = f"; that takes about {estimate:,} links like these {links:,}" if queries else ""
        needed = f"too few links ({queries} test queries, {MIN_QUERIES} needed{enough})"
    reasons = sorted(survey["losses"].items(), key=lambda item: -item[1]["count"])[:3]
    lost = ", ".join(f"{reason} {entry['count']:,}" for reason, entry in reasons)
    return f"{needed}. Dropped most: {lost}" if needed and lost else needed


def usable_tasks(pairs: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """The tasks with at least MIN_PAIRS training pairs, and held-out ones, in the directory `pairs`."""
    return tuple(
        task for task in tasks if records(pairs, task, "train") >= MIN_PAIRS and records(pairs, task, "validation")
    )


def records(pairs: str, task: str, split: str) -> int:
    """Records of a split of a task in a finished generation job; 0 if there is none."""
    held = read_manifest(pairs)["splits"].get(split_name(task, split))
    return held["records"] if held else 0


def steps_within(minutes: float, seconds_per_step: float, pairs: str, tasks: Sequence[str], batch_pairs: int) -> int:
    """Steps that take `minutes`, at most MAX_EPOCHS over the training pairs in the directory `pairs`.

    Raises InputError for a time that is too short for MIN_STEPS.
    """
    there = sum(records(pairs, task, "train") for task in tasks)
    steps = int(min(60 * minutes / seconds_per_step, math.ceil(MAX_EPOCHS * there / batch_pairs)))
    if steps < MIN_STEPS:
        raise InputError(
            f"--minutes={minutes:g}: a step takes {seconds_per_step:.2f} s and there are {there:,} training pairs, which "
            f"allows {steps} steps; at least {MIN_STEPS} are needed"
        )
    return steps


def expectation(pairs: int) -> str:
    """What to expect from few training pairs, by the sites of docs/experiments/site.md; empty if there are enough."""
    if pairs >= FEW_PAIRS:
        return ""
    return (
        f"{pairs:,} training pairs are few: with 15,000 to 26,000 from a manual, rankers added .03 to .10 RR@10 on anchors, "
        "nothing for users; with fewer than 3,600, nothing on either. BM25, anchor texts and vectors do as well without."
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
                against = "negatives share more words: a shortcut against BM25"
                said = "shared words help, as in BM25" if accuracy > 0.5 else against
            else:
                said = "a shortcut" if best >= 0.7 else "a weak shortcut"
            found.append(f"{task} {name.replace('_', ' ')}: {accuracy:.2f} of {n:,} pairs, {said}")
    return found


# Packages that the steps need: one for each extra within [demo], and those of [web] by the format of the pages.
PACKAGES = ("tensorflow", "ir_measures", "bm25s")
WEB = {"html": ("selectolax",), "warc": ("fastwarc", "selectolax")}
# Embedding a MB of documents takes as long as this many training steps with as many layers (measured on Python's manual). A
# window has 256 tokens in all-MiniLM-L6-v2.
STEPS_PER_MB, WINDOW_BYTES = 20, 1500
CANDIDATES = 2.5  # documents per query and `depth` in the pool of three first stages (measured: 1.8 to 2.7)
MUCH = 0.5  # of the documents' text; below it, the windows are mentioned
GUESSED = 1.0  # seconds of a step in a dry run before it is measured
SCRATCH = (
    "No --start: a small encoder is trained from scratch on these pages. It can improve on BM25 if there are tens of thousands of "
    "links; --start=HF_DIR (an encoder such as all-MiniLM-L6-v2) gets more out of the same minutes."
)
# Name in the output directory → step whose output it is.
RESULTS = {
    "report.html": "report", "verdict.json": "verdict", "survey": "survey", "table.tsv": "table",
}  # fmt: skip
BY_LABELS = {"verdict.json": "verdict_labels", "anchors_verdict.json": "verdict"}
UNTESTED = "untested.json"  # the verdict if links are too few; verdict.json links to it
# Links to the ranker: the first name if the verdict uses it, else the second.
RANKER, REJECTED = "ranker", "ranker_not_used"


@dataclass(frozen=True)
class SiteRun:
    """The options of `site_plan`, the minutes of training, and the output directory."""

    options: Mapping[str, Any]
    output: str
    minutes: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.minutes < math.inf:
            raise InputError(f"--minutes={self.minutes:g}: use a positive number")
        if labels := self.options.get("labels"):
            _, qrels = read_labels(labels)
            relevant = {qid: judged for qid, judged in qrels.items() if max(judged.values()) > 0}
            if (groups := len(components(relevant))) < MIN_LABELLED:
                raise InputError(
                    f"--labels={labels}: only {groups} queries that share no relevant document, {MIN_LABELLED} needed to decide; "
                    "label more, or evaluate these with harp search --qrels"
                )
        # Imported by name, on call: harp_jax works without the generation job.
        detected = importlib.import_module("data_pipeline.sources.formats").format_of_content
        formats = {self.options.get("format") or detected(path) for path in expand(tuple(self.options["pages"]))}
        web = [package for name in sorted(formats) for package in WEB.get(name, ())]
        for extra, packages in (("demo", PACKAGES), ("web", web)):
            for package in packages:
                if importlib.util.find_spec(package) is None:
                    raise missing("harp site", package, extra)

    @property
    def encoder(self) -> str:
        """The encoder whose vectors are tested and teach; may be empty."""
        return self.options.get("vectors") or self.options.get("start", "")

    @property
    def recipe(self) -> tuple[str, ...]:
        """The tasks to train, if they have enough pairs."""
        return read_config(PRETRAIN).tasks

    def steps(self, steps: int = 0, tasks: tuple[str, ...] = (), stems: str = ENGLISH) -> dict[str, Step]:
        """The steps of the plan by name, up to the training if `steps` is 0; `stems` is the language of BM25.

        Raises InputError for an output inside an input.
        """
        check_outside(self.output, (*self.options["pages"], self.options.get("start", ""), self.encoder))
        planned = resolve(site_plan(**self.options, steps=steps, tasks=tasks, stems=stems), self.output)
        return {step.command.name: step for step in planned}

    def dry_run(self) -> str:
        """The commands, and their cost as far as it is known."""
        prepared = self.steps()
        tasks = self.tasks(prepared) if prepared["pairs"].done else ()
        rate = self.steps(tasks=tasks)["rate"]
        number = self.training_steps(rate, prepared["pairs"], tasks) if rate.done and tasks else 0
        after = self.after_training(prepared, rate) if number else ""
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
                f"The training steps assume {self.minutes:g} minutes at {GUESSED:g} s per step; the plan's step `rate` measures "
                "how many fit."
            )
            if self.encoder:
                after = f"Vectors: 1 MB of documents takes about as long as {STEPS_PER_MB} training steps of the whole encoder."
        lines += [after] if after else []
        return "\n".join(lines)

    def run(self) -> dict[str, Any]:
        """Runs the unfinished steps; returns the content of verdict.json, which is decided by labels if given.

        With too few links or pairs, nothing is trained or tested (`untested`).
        """
        results = RESULTS | (BY_LABELS if self.options.get("labels") else {})
        check_links(os.path.join(self.output, name) for name in (*results, RANKER, REJECTED))
        prepared = self.steps()
        surveyed = prepared["survey"].done
        carry_out([prepared["survey"]], self.output)
        survey = survey_of(prepared["survey"])
        if surveyed and "text" in survey:  # otherwise the command has just printed it
            print(survey["text"], flush=True)
        if part := self.unread(prepared["survey"]):
            print(part, flush=True)
        if short := shortage(survey):
            return self.untested(prepared["survey"], survey["language"], short)
        if "vocabulary" in prepared:
            print(SCRATCH, flush=True)
        carry_out([step for name, step in prepared.items() if name != "rate"], self.output)
        for sentence in verdicts(read_manifest(prepared["pairs"].place)):
            print(sentence, flush=True)
        tasks = self.tasks(prepared)
        if not tasks:
            counts = ", ".join(f"{task} {records(prepared['pairs'].place, task, 'train'):,}" for task in self.recipe)
            short = f"too few training pairs ({counts}; {MIN_PAIRS} needed)"
            return self.untested(prepared["survey"], survey["language"], short)
        if expected := expectation(sum(records(prepared["pairs"].place, task, "train") for task in tasks)):
            print(expected, flush=True)
        rate = self.steps(tasks=tasks)["rate"]
        if rate.done and not self.begun(rate, prepared["pairs"], tasks):
            os.remove(rate.place)  # measured earlier, when the machine may have been busy
        carry_out([rate], self.output)
        number = self.training_steps(rate, prepared["pairs"], tasks)
        took = duration(number * float(read_json(rate.place)["seconds_per_step"]))
        print(f"{number} steps of training, about {took} (--minutes={self.minutes:g}); tasks: {', '.join(tasks)}")
        print(self.after_training(prepared, rate), flush=True)
        if doubt := self.doubt(survey["language"], "used only if they help on anchors"):
            print(doubt, flush=True)
        planned = self.steps(number, tasks, survey["language"])
        carry_out(list(planned.values()), self.output)
        for name, step in results.items():
            link(planned[step].place, os.path.join(self.output, name))
        found = read_json(planned[results["verdict.json"]].place)
        self.hand_over(planned, found["weights"], survey["language"])
        return found

    def untested(self, survey: Step, stems: str, short: str) -> dict[str, Any]:
        """Writes a search with BM25, and with vectors if there is a sentence encoder; returns its verdict."""
        for name in (*RESULTS, *BY_LABELS, RANKER, REJECTED):
            if os.path.islink(path := os.path.join(self.output, name)):  # from earlier pages
                os.remove(path)
        doubt = self.doubt(stems, "left out")
        encoder = "" if doubt else self.encoder
        first = ANCHORS if encoder and survey_of(survey)["anchor_texts"] else BM25
        weights = {first: 1.0} | ({VECTORS: 2.0} if encoder else {})  # as in a verdict
        use, scaled = sum_in_words(weights), " (each query's scores scaled to 0…1 and added)" if encoder else ""
        words = (
            f"Untested: {short}. Nothing was trained; use {use}{scaled}, a common choice, not measured on these "
            f"pages.{f' {doubt}' if doubt else ''} Add pages that link to these, or judge queries of your own and test "
            "on them: harp search --qrels."
        )
        found = {"use": use, "words": words, "weights": weights, "untested": True}
        with replacing(place := os.path.join(self.output, UNTESTED)) as file:
            json.dump(found, file, indent=1)
        link(place, os.path.join(self.output, "verdict.json"))
        link(survey.place, os.path.join(self.output, "survey"))
        self.save_search(weights, stems, encoder, {})
        return found

    def doubt(self, language: str, use: str) -> str:
        """Why the vectors are not trusted and how they are used: no sentence encoder, or one that does not know the language."""
        if not self.encoder:
            return ""
        if not is_embedder(self.encoder):
            return f"{self.encoder} is no sentence encoder (it has no 1_Pooling), so its vectors are {use}; --vectors names one."
        if (share := known_words(self.encoder, language)) >= KNOWN:
            return ""
        return (
            f"The vocabulary of {self.encoder} has {share:.2f} of the function words of {language} (at least {KNOWN} if an encoder "
            f"knows the language), so its vectors are {use}. Try --start with an encoder that knows it, such as "
            "multilingual-e5-small."
        )

    def hand_over(self, planned: Mapping[str, Step], weights: dict[str, float], stems: str) -> None:
        """Writes `search.json` and links the ranker, under another name if the verdict leaves it out."""
        models = {ROW: "model"} | ({LABELLED_ROW: "labelled"} if "labelled" in planned else {})
        best = LABELLED_ROW if LABELLED_ROW in weights else ROW
        for name in (RANKER, REJECTED):
            if os.path.lexists(path := os.path.join(self.output, name)):
                os.remove(path)
        link(planned[models[best]].place, os.path.join(self.output, RANKER if best in weights else REJECTED))
        relative = {part: os.path.relpath(planned[step].place, self.output) for part, step in models.items()}
        self.save_search(weights, stems, self.encoder, relative)

    def save_search(self, weights: dict[str, float], stems: str, encoder: str, models: dict[str, str]) -> None:
        """Writes `search.json`, and the parameters of BM25 and BM25F; `models` are paths relative to it by part."""
        from harp_jax.ranking.combined import Settings  # loads JAX

        for model, parameters in PARAMETERS.items():
            with replacing(os.path.join(self.output, f"{model}.json")) as file:
                json.dump({"model": model, "parameters": parameters}, file)
        windows = self.options.get("windows", 4)
        Settings(
            docs="survey/docs.jsonl", fields=FIELDS, anchors="survey/anchors.tsv", parameters=PARAMETERS, weights=weights,
            language=stems, encoder=encoder and os.path.abspath(encoder), depth=self.options.get("depth", 20),
            models=models, windows=windows, passages=windows, max_length=self.options.get("max_length", MAX_LENGTH),
        ).save(self.output)  # fmt: skip

    def unread(self, survey: Step) -> str:
        """A sentence if much of the documents is beyond the windows that are read; else ""."""
        windows = self.options.get("windows", 4)
        documents = bytes_of(survey, WINDOW_BYTES * (windows + 1) / 2)  # windows overlap by half
        share = documents.read / documents.all
        if share >= MUCH:
            return ""
        split = self.options.get("split", "auto") != "sections" and survey_of(survey)["format"] in WEB
        return (
            f"{windows} windows hold about {share:.0%} of the documents' text for vectors, less for the ranker; BM25 reads all. "
            f"{'--split=sections makes every section a document; ' if split else ''}--windows reads more."
        )

    def tasks(self, prepared: Mapping[str, Step]) -> tuple[str, ...]:
        """The tasks of the recipe that have enough finished pairs."""
        return usable_tasks(prepared["pairs"].place, self.recipe)

    def after_training(self, prepared: Mapping[str, Step], rate: Step) -> str:
        """What is embedded and ranked after the training, with estimated times from the training rate."""
        scratch, start = read_config(PRETRAIN).model, self.options.get("start")
        sizes = {"num_hidden_layers": scratch.layers, "hidden_size": scratch.hidden}
        of_encoder, of_start = (
            sizes | read_json(os.path.join(model, "config.json")) if model else sizes for model in (self.encoder, start)
        )
        documents = bytes_of(prepared["survey"], self.options.get("windows", 4) * WINDOW_BYTES)
        megabytes = documents.read / 1e6
        queries = survey_of(prepared["survey"])["queries"]
        candidates = min(CANDIDATES * self.options.get("depth", 20), documents.number)
        ranked = queries * candidates * megabytes / documents.number
        seconds = STEPS_PER_MB * float(read_json(rate.place)["seconds_per_step"])
        # A step of the preset taught reads twice as many documents.
        seconds /= 2 if is_embedder(self.encoder) and start else 1
        words = f"ranking for {queries} test queries, about {duration(seconds * ranked)}."
        if not self.encoder:
            return f"Then {words}"
        cost = of_encoder["num_hidden_layers"] / (self.options.get("layers") or of_start["num_hidden_layers"])
        cost *= (of_encoder["hidden_size"] / of_start["hidden_size"]) ** 2
        took = duration(seconds * cost * megabytes)
        return f"Then embedding {megabytes:.1f} MB of the documents, once, about {took}, and {words}"

    def begun(self, rate: Step, pairs: Step, tasks: tuple[str, ...]) -> bool:
        """Whether training for the number of steps that the recorded rate allows was started."""
        try:
            number = self.training_steps(rate, pairs, tasks)
        except InputError:  # the rate is too slow to train, such as a busy machine's: nothing was started
            return False
        return os.path.exists(self.steps(number, tasks)["harp"].place)

    def training_steps(self, rate: Step, pairs: Step, tasks: tuple[str, ...]) -> int:
        """Steps that fit into the minutes at the recorded rate, so that a repeated command trains for the same number."""
        seconds = float(read_json(rate.place, "remove it and run again")["seconds_per_step"])
        return steps_within(self.minutes, seconds, pairs.place, tasks, read_config(PRETRAIN).batch_pairs)


def ranker_of(output: str) -> str:
    """The ranker in the output of `harp site`, even if the verdict leaves it out."""
    return next(
        (path for name in (RANKER, REJECTED) if os.path.exists(path := os.path.join(output, name))),
        os.path.join(output, RANKER),
    )


def survey_of(step: Step) -> dict[str, Any]:
    """What the finished step `survey` found."""
    return read_json(os.path.join(step.place, "survey.json"))


class Bytes(NamedTuple):
    """The `number` of documents, `all` their bytes, and those that are `read`."""

    number: int
    all: int
    read: float


def bytes_of(survey: Step, most: float) -> Bytes:
    """The documents of the finished step `survey`, of which at most `most` bytes each are read."""
    number, total, read = 0, 0, 0.0
    with open(os.path.join(survey.place, "docs.jsonl"), "rb") as file:
        for line in file:
            number, total, read = number + 1, total + len(line), read + min(len(line), most)
    return Bytes(number, total, read)


def carry_out(steps: list[Step], output: str) -> None:
    """Runs the unfinished steps."""
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
    def from_pages(
        cls,
        pages: str | os.PathLike[str] | Sequence[str],
        format: str = "",
        base_url: str = "",
        redirects: Sequence[str] = (),
        language: str = "",
        directory: str = "",
    ) -> "Site":
        """Reads HTML, a WARC, a MediaWiki dump or linked JSONL; format and language are detected unless given.

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
        importlib.import_module("data_pipeline.commands.survey").write_survey(config, place)
        options = {"pages": paths, "format": format, "base_url": base_url, "redirects": tuple(redirects)}
        return cls(place, options | {"language": language}, temporary)

    @cached_property
    def documents(self) -> dict[str, str]:
        """docid → title and text, all in memory."""
        return dict(Documents.open(os.path.join(self.directory, "docs.jsonl"), FIELDS).texts())

    def pairs(self) -> list[tuple[str, str]]:
        """(anchor text, docid) for each anchor text of each document, without held-out pages: positives for any trainer."""
        return [(text, docid) for docid, text, _ in anchor_rows(os.path.join(self.directory, "anchors.tsv"))]

    def held_out(self) -> tuple[dict[str, str], Qrels]:
        """(queries, judgments): anchor texts that only held-out pages use, and where they lead."""
        path = self.directory
        return read_queries(os.path.join(path, "queries.tsv")), read_qrels(os.path.join(path, "qrels.txt"))

    @cached_property
    def _index(self) -> InvertedIndex:
        return indexed(
            self.documents.items(), "bm25", read_json(os.path.join(self.directory, "survey.json"))["language"]
        )

    def bm25(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """The best `k` documents of a query as (docid, score); fewer if fewer share a word with it."""
        docids, scores = search(make("bm25", self._index, PARAMETERS["bm25"]), self._index, query, k)
        return [(docid, float(score)) for docid, score in zip(docids, scores)]
