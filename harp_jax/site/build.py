"""`harp site` from top to bottom: pages, vectors, a test on anchors of held-out pages, a ranker if asked, the verdict.

The folder that it writes holds all that a search needs, under fixed names (CONTENTS), and may be copied to another machine. Every
step is a function with `made.once`: repeated, it returns at once; after other options it names the difference. Changed pages are
read again, and only new texts are embedded; the test and the ranker of earlier pages are kept.
"""

import contextlib
import glob
import importlib.util
import json
import os
import shutil
import time
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError, how_to_fetch, missing
from harp_jax.base.files import SUMS, check_outside, expand, output_folder, replacing, walk
from harp_jax.base.made import AGAIN, InputPath, forget, once
from harp_jax.base.progress import duration
from harp_jax.base.steps import Steps
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import components, read_qrels, read_run
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.ranking.fuse import ANCHORS, BM25, INLINKS, VECTORS, sum_in_words
from harp_jax.ranking.rerank import Reranking, rerank_files
from harp_jax.ranking.vectors import SAMPLE, Embedded, add_texts, made_with, read_texts, text_hashes
from harp_jax.site.measure import FILES, MEASURE, POOL, judge, score_parts
from harp_jax.site.options import FIELDS, SiteOptions, Training
from harp_jax.site.pages import PARAMETERS, Read, read_pages
from harp_jax.site.ranker import adapt, adapt_encoder, fine_tune, publish, train_ranker
from harp_jax.site.search import DOCS, ENCODER, VECTORS_FOLDER, Settings, documents
from harp_jax.site.tune import read_judged
from harp_jax.site.verdict import ANCHOR_TEST, LABEL_TEST, Verdict
from harp_jax.text.languages import function_words
from harp_jax.text.tokenizer import load_tokenizer, read_config

RANKER, LABELLED = "ranker", "ranker, fine-tuned on labels"  # parts
FOLDERS = {RANKER: "ranker", LABELLED: "ranker_labelled"}
ADAPTED = "encoder_adapted"
DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
NO_ENCODER = "none"
MIN_LABELLED = 20  # fewer user queries are weaker evidence than the anchors that they would overrule
# Minimum share of a language's function words in the vocabulary of an encoder that knows it: all-MiniLM-L6-v2 has .84 of
# English's, .45 of Danish's, .17 of German's, .06 of Chinese's; a multilingual vocabulary of 130,000 has .75 of German's.
KNOWN = 0.5
SPACE = "▁"  # SentencePiece's token
# What later steps need, and its extra; tensorflow is for training.
PACKAGES = {"ir_measures": "demo", "bm25s": "demo", "tensorflow": "data"}
READ_SECONDS_PER_MB, QUERIES_PER_SECOND = 0.6, 15.0
CONTENTS = """| | |
|---|---|
| `search.json` | the recommended sum: weights, parameters of BM25 and BM25F |
| `pages/` | the documents, what other pages call them (`anchors.tsv`), test queries |
| `vectors/` | of the documents: float16, memory-mapped; `texts.tsv` has a hash of the encoder and of each text |
| `encoder/` | the sentence encoder that made them, and that embeds queries, with checksums |
| `encoder_adapted/` | with `--train=vectors`: the encoder adapted to the links, for a vector database; the search does not use it |
| `ranker/`, `ranker_labelled/` | the trained ranker, if there is one: a Hugging Face directory |
| `verdict.json`, `report.html` | what to use and what it gains; every system, with intervals and tests |
| `test/`, `training/`, `logs/` | how it was made; not needed to search |

The folder may be copied to another path or machine, and be read-only. Use it with `harp serve` (JSON over HTTP), `harp look` (a
page), `harp search` (a file of queries), or in Python `hj.CombinedSearch(folder).search(query)`.
"""


@dataclass(frozen=True)
class SiteResult:
    """The verdict, the folder of the ranker, and in words what an adapted encoder gains; the last two are "" if there are none."""

    verdict: Verdict
    ranker: str = ""
    adapted: str = ""


def build(options: SiteOptions, output: str, force: bool = False) -> SiteResult:
    """Makes or updates the folder `output`, and returns the verdict. `force`: makes everything again.

    Raises InputError for bad input, and for other options than those that made the folder.
    """
    check(options, output)
    path = partial(os.path.join, output)
    with contextlib.closing(Steps(output)) as steps:
        if force:
            for name in ("pages", VECTORS_FOLDER, ENCODER, ADAPTED, *FOLDERS.values()):
                forget(path(name))
            for name in ("test", "training"):
                shutil.rmtree(path(name), ignore_errors=True)
        before = None
        with contextlib.suppress(InputError):  # there is none, or it is damaged
            before = None if force else Settings.load(output)

        # Pages to documents, anchor texts, and anchors of held-out pages as test queries.
        reading = (options.source, options.max_queries, options.context_words)
        if not (known := read_pages.already(*reading, output=path("pages"))):
            print(opening(options), flush=True)
        read = steps("Read the pages", read_pages, *reading, output=path("pages"))
        if not known:
            print(read.change or read.text, flush=True)

        # A copy of the encoder, and a vector of each text that has none.
        encoder, advice, trusted = choose_encoder(options, read, path(ENCODER))
        if encoder:
            if not os.path.exists(path(ENCODER)):  # a test without vectors is superseded
                shutil.rmtree(path("test"), ignore_errors=True)
            copy_encoder(encoder, output=path(ENCODER))
            embed_documents(options.windows, read, output, steps)

        # Ready to search, with a common choice of weights until a test decides.
        settings = Settings(
            parameters=PARAMETERS,
            weights={ANCHORS if trusted and read.anchor_texts else BM25: 1.0} | ({VECTORS: 2.0} if trusted else {}),
            language=read.language,
            encoder=encoder and ENCODER,
            depth=options.depth,
            windows=options.windows,
        )
        if not before:
            settings.save(output)

        # The test: on labels, else on anchors of held-out pages, if there are enough.
        if options.labels:
            take_labels(options, output)
        test = SearchTest(LABEL_TEST if options.labels else ANCHOR_TEST, output, settings, trusted, steps)
        verdict = Verdict(settings.weights, BM25, untested=read.shortage)
        if options.labels or not read.shortage:
            verdict = test.run()

        # What is trained on the links: a ranker, tested as one more part, or an encoder for a vector database.
        adapted = ""
        if options.training and options.training.model == "vectors":
            adapted = add_adapted(options, options.training, test, bool(verdict.rows))
        elif options.training:
            lacking = add_ranker(options, options.training, test) if verdict.rows else read.shortage
            if lacking:
                print(f"No ranker: {lacking}.", flush=True)
            else:
                verdict = test.run()

        # The verdict, with what to do next.
        labels = f"judge 30 queries of your own in harp look {output}, then repeat with --labels={path('labels.tsv')}"
        if not advice:
            advice = f"add pages that link to these, or {labels}" if verdict.untested else labels
            advice = f"harp look {output}" if options.labels else advice
        verdict = replace(verdict, next=advice)
        verdict.save(path("verdict.json"))
        if verdict.rows:
            shutil.copyfile(test.report, path("report.html"))
        with replacing(path("README.md")) as file:
            file.write(f"# A search made by harp site\n\n```\n{verdict.words()}\n```\n\n{CONTENTS}")

        # The search that it recommends, unless `harp tune` has chosen the weights of the same parts.
        rankers = {part: name for part, name in FOLDERS.items() if os.path.exists(path(name))}
        settings = replace(settings, weights=verdict.weights, models=rankers)
        if before and before.tuned and before.everything == settings.everything:
            settings = replace(settings, weights=before.weights, tuned=before.tuned)
            print(f"search.json keeps the weights of harp tune: {sum_in_words(settings.weights)}", flush=True)
        elif before and before.tuned:
            print("The parts have changed: the weights of harp tune are replaced; tune again.", flush=True)
        settings.save(output)
    best = rankers.get(LABELLED if LABELLED in verdict.weights else RANKER, "")
    return SiteResult(verdict, best and path(best), adapted)


def check(options: SiteOptions, output: str) -> None:
    """Raises InputError for what is wrong before anything runs: paths, packages, too few labels."""
    training = options.training
    inputs = [path for path in (options.encoder, training.start if training else "") if path and path != NO_ENCODER]
    for path in inputs:
        if not os.path.isdir(path):
            raise InputError(f"{path} is not a directory{how_to_fetch(path)}")
    check_outside(output, (*options.source.pages, *inputs))
    if options.queries and not options.labels:
        raise InputError("--queries has the texts of --labels; name both")
    if options.labels:
        _, qrels, _ = read_judged(options.labels, options.queries)
        if (groups := len(components(qrels))) < MIN_LABELLED:
            raise InputError(
                f"--labels={options.labels}: only {groups} queries that share no relevant document, {MIN_LABELLED} needed to "
                "decide; label more, or evaluate these with harp search --qrels"
            )
    expand(options.source.pages)  # fails for pages that are not there
    for package, extra in PACKAGES.items():
        if (training or extra != "data") and importlib.util.find_spec(package) is None:
            raise missing("harp site", package, extra)


def opening(options: SiteOptions) -> str:
    """What is about to be read, and how long that takes."""
    files = [file for path in expand(options.source.pages) for file in (walk(path) if os.path.isdir(path) else [path])]
    read = [file for file in files if ".htm" in file] or files  # a folder of HTML has images too
    megabytes = sum(map(os.path.getsize, read)) / 1e6
    seconds = 5 + READ_SECONDS_PER_MB * megabytes
    more, training = "", options.training
    if training:
        longest = f"{training.minutes:g} min" if training.model == "ranker" else "a minute or two"
        more = f"Training adds {longest}, and pairs and ranking. "
    return (
        f"Reads {megabytes:.1f} MB, about {duration(seconds)}; then says how long the rest takes. {more}If interrupted, repeat "
        "the command to resume."
    )


def choose_encoder(options: SiteOptions, read: Read, copied: str) -> tuple[str, str, bool]:
    """The encoder ("" for none), advice about it, and whether its vectors are trusted: they are used unless they rank worse.

    Trusted is a sentence encoder that knows the language. Of others the vectors are used only if they rank better in the test.
    """
    named = options.encoder or (options.training.start if options.training else "")
    if named == NO_ENCODER:
        return "", "", False
    encoder = named or downloaded(DEFAULT_ENCODER) or (copied if os.path.exists(copied) else "")
    if not encoder:
        folder = os.path.basename(DEFAULT_ENCODER)
        fetch = f"hf download {DEFAULT_ENCODER} --local-dir {folder}"
        return "", f"search by meaning too: {fetch}, and repeat with --encoder={folder}", False
    if not os.path.isdir(os.path.join(encoder, "1_Pooling")):  # where sentence-transformers stores how it pools
        wrong = f"{encoder} is not a sentence encoder (it has no 1_Pooling)"
        advice = "name a sentence encoder with --encoder"
    elif (share := known_words(encoder, read.language)) < KNOWN:
        wrong = (
            f"The vocabulary of {encoder} has {share:.2f} of the function words of {read.language} (at least {KNOWN} if an "
            "encoder knows the language)"
        )
        advice = f"name an encoder that knows {read.language} with --encoder, such as multilingual-e5-small"
    else:
        return encoder, "", True
    tested = named and (options.labels or not read.shortage)
    print(
        f"{wrong}: its vectors are {'used only if they rank better in the test' if tested else 'left out'}.", flush=True
    )
    return encoder if tested else "", advice, False


def downloaded(name: str) -> str:
    """The folder of a model in the local cache of the Hugging Face Hub; "" if it was not downloaded. Uses no network."""
    import huggingface_hub

    try:
        return huggingface_hub.snapshot_download(name, local_files_only=True)
    except (OSError, ValueError):
        return ""


@lru_cache
def known_words(encoder: str, language: str) -> float:
    """The share of a language's function words that are single tokens of an encoder; 0 for a language without a list."""
    words, tokenizer = sorted(function_words(language)), load_tokenizer(encoder)
    # SentencePiece keeps the space apart from a script that is written without spaces.
    space = tokenizer.vocab.get(SPACE)
    tokens = [[i for i in ids if i != space] for ids in tokenizer.encode_prefixes([f" {word}" for word in words], 3)]
    return sum(len(ids) == 1 and ids[0] != tokenizer.unk for ids in tokens) / max(len(words), 1)


@once
def copy_encoder(encoder: InputPath, output: str) -> None:
    """Copies an encoder, without parameters in other formats, with checksums.

    config.json and the tokenizer are written as transformers reads them: servers then need not import it, nor torch.
    """
    ignored = shutil.ignore_patterns(
        "*.bin", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.pt", "onnx", "openvino", ".*", SUMS
    )
    shutil.rmtree(output, ignore_errors=True)
    with output_folder(output) as folder:
        shutil.copytree(encoder, folder, ignore=ignored, dirs_exist_ok=True)
        with replacing(os.path.join(folder, "config.json")) as file:
            json.dump(read_config(encoder), file, indent=1)
        load_tokenizer(encoder).write(folder)


@once(changed=AGAIN)
def embed(docs: InputPath, encoder: InputPath, windows: int, output: str) -> Embedded:
    """Embeds the texts of the documents `docs` that the folder `output` lacks."""
    return add_texts(Documents.open(docs, FIELDS), encoder, windows, output)


def embed_documents(windows: int, read: Read, folder: str, steps: Steps) -> None:
    """Embeds the documents that have no vector; says first how long that and the test take."""
    docs, encoder, output = (os.path.join(folder, name) for name in (DOCS, ENCODER, VECTORS_FOLDER))
    if not embed.already(docs, encoder, windows, output=output):  # refuses other windows
        (stored, _), collection = read_texts(output, made_with(encoder, windows)), documents(folder)
        count = np.setdiff1d(text_hashes(collection), stored).size
        if count > SAMPLE:
            how = partial(add_texts, sample=SAMPLE)
            sample = steps("Measure the encoder", how, collection, encoder, windows, output)
            seconds = 10 + sample.seconds_left + (0 if read.shortage else 5 + read.queries / QUERIES_PER_SECOND)
            at = time.strftime("%H:%M", time.localtime(time.time() + seconds))
            print(f"Embeds {count:,} texts and tests, about {duration(seconds)}: ready at about {at}.", flush=True)
    steps("Embed the documents", embed, docs, encoder, windows, output=output)


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

    @property
    def collection(self) -> dict[str, str]:
        """The test's documents, queries, judgments and candidates, as paths."""
        queries = os.path.join(self.output, "pages") if self.name == ANCHOR_TEST else self.path()
        return {
            "docs": os.path.join(self.output, DOCS),
            "queries": os.path.join(queries, "queries.tsv"),
            "qrels": os.path.join(queries, "qrels.txt"),
            "candidates": self.path("runs", POOL),
        }

    @property
    def rankers(self) -> dict[str, str]:
        """Ranker → its run of the test's candidates, if there is one."""
        runs = {RANKER: self.path("ranker.trec")}
        runs |= {LABELLED: os.path.join(self.output, "training", "labels.trec")} if self.name == LABEL_TEST else {}
        return {part: run for part, run in runs.items() if os.path.exists(run)}

    @property
    def report(self) -> str:
        """The report, whose name says whether it has rankers."""
        return self.path(f"verdict{'_with_ranker' if self.rankers else ''}.html")

    def rank(self, title: str, model: str, output: str, **how: Any) -> None:
        """Ranks the candidates by a trained model, unless that is done."""
        paths = self.collection
        if not os.path.exists(output):
            options = Reranking(FIELDS, windows=self.settings.windows, **how)
            texts = (paths["docs"], paths["queries"], paths["candidates"])
            self.steps(title, rerank_files, model, *texts, output, options)

    def run(self) -> Verdict:
        """The verdict. If vectors are trusted, anchors do not decide on in-links and rankers."""
        paths, rankers = self.collection, self.rankers
        # A query's source page contains its words.
        exclude = os.path.join(self.output, "pages", "sources.tsv") if self.name == ANCHOR_TEST else ""
        searching = (self.output, replace(self.settings, weights={}), paths["queries"], exclude)
        parts = self.steps(f"Search for the {self.name}", score_parts, *searching, output=self.path("runs"))
        runs = {part: self.path("runs", FILES[part]) for part in parts} | rankers
        measured = (INLINKS, *rankers) if self.trusted and self.name == ANCHOR_TEST else ()
        curves = {"training": os.path.join(self.output, "training", "ranker")} if rankers else {}
        trusted = VECTORS if self.trusted else ""
        judging = (runs, paths["queries"], paths["qrels"], self.name, trusted, measured, paths["docs"], curves)
        made = judge.already(*judging, output=self.report)
        return made.result if made else judge(*judging, output=self.report)


def take_labels(options: SiteOptions, output: str) -> None:
    """Writes labels as queries and judgments into test/labels; what was made with other labels is removed."""
    texts, judged, absent = read_judged(options.labels, options.queries, {*documents(output).ids()})
    if absent:
        print(f"note: {absent} judged documents are not in the site", flush=True)
    folder = os.path.join(output, "test", LABEL_TEST)
    judgments = [f"{qid} 0 {docid} {level}\n" for qid, levels in judged.items() for docid, level in levels.items()]
    queries = [f"{qid}\t{' '.join(texts[qid].split())}\n" for qid in judged]
    new = {"queries.tsv": "".join(queries), "qrels.txt": "".join(judgments)}
    old = {}
    for name in new:
        with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name), encoding="utf-8") as file:
            old[name] = file.read()
    if old != new:
        for path in (folder, *glob.glob(os.path.join(glob.escape(output), "training", "labels*"))):
            shutil.rmtree(path) if os.path.isdir(path) else forget(path)
        forget(os.path.join(output, FOLDERS[LABELLED]))
        for name, text in new.items():
            with replacing(os.path.join(folder, name)) as file:
                file.write(text)


def add_adapted(options: SiteOptions, training: Training, test: SearchTest, tested: bool) -> str:
    """Adapts the encoder to the links; returns what that gains for vectors alone in the test, or what it lacks."""
    if not test.trusted:
        return "No adapted encoder: it starts from a sentence encoder that knows the language (--encoder)."
    encoder, output = (os.path.join(test.output, folder) for folder in (ENCODER, ADAPTED))
    folder = os.path.join(test.output, "training")
    if not adapt.already(encoder, training.seed, "", output=output) and (
        lacking := adapt_encoder(options.source, training, encoder, folder, output, test.steps)
    ):
        return f"No adapted encoder: {lacking}."
    if not tested:
        return f"Adapted encoder: {output}, not tested."
    runs = {"before": test.path("runs", FILES[VECTORS]), "after": test.path("adapted.trec")}
    test.rank("Rank with the adapted encoder", output, runs["after"], cosine=True)
    rankings = {system: read_run(path) for system, path in runs.items()}
    table = evaluate(read_qrels(test.collection["qrels"]), rankings, MEASURE, baseline="before")
    means = " → ".join(f"{table.mean[system][MEASURE]:.3f}" for system in runs)
    low, high = table.comparisons[0].interval
    kind = "your queries" if test.name == LABEL_TEST else "anchors, which are what it was trained on"
    return (
        f"Adapted encoder: {output}, for a vector database. Alone, {MEASURE} {means} ({low:+.3f} to {high:+.3f}) on {kind}. "
        "The search above keeps the unchanged vectors."
    )


def add_ranker(options: SiteOptions, training: Training, test: SearchTest) -> str:
    """Trains a ranker, fine-tunes it on labels if they are tested, ranks the test's candidates and exports it.

    Returns what it lacks, or "". A ranker of earlier pages with the same options is kept.
    """
    folder, steps = os.path.join(test.output, "training"), test.steps
    encoder = os.path.join(test.output, ENCODER) if test.settings.encoder else ""
    exports = {part: os.path.join(test.output, name) for part, name in FOLDERS.items()}
    known = publish.already(training, encoder, "", output=exports[RANKER])
    if not known and (lacking := train_ranker(options.source, training, encoder, test.trusted, folder, steps)):
        return lacking
    workdirs = {RANKER: os.path.join(folder, "ranker")}
    test.rank("Rank with the ranker", workdirs[RANKER], test.path("ranker.trec"), max_length=training.max_length)
    if test.name == LABEL_TEST:
        workdirs[LABELLED] = os.path.join(folder, "labels")
        if not publish.already(training, encoder, "", output=exports[LABELLED]):
            fine_tune(workdirs[RANKER], test.collection, training, options.windows, folder, steps)
    for part, workdir in workdirs.items():
        steps(f"Export the {part}", publish, training, encoder, workdir, output=exports[part])
    return ""
