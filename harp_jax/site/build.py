"""`harp site` from top to bottom: pages, vectors, a test on anchors of held-out pages, a ranker if asked, the verdict.

The folder that it writes holds all that a search needs, under fixed names (CONTENTS), and may be copied to another machine. Every
step is a function with `made.once`: repeated, it returns at once; after other options it names the difference. Changed pages are
read again, and only new texts are embedded; the test and the ranker of earlier pages are kept.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from harp_jax.base.errors import InputError, how_to_fetch, missing
from harp_jax.base.files import SUMS, check_outside, expand, output_folder, replacing, walk
from harp_jax.base.made import AGAIN, InputPath, forget, once
from harp_jax.base.progress import duration
from harp_jax.base.steps import Steps
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import components
from harp_jax.ranking.fuse import ANCHORS, BM25, VECTORS, sum_in_words
from harp_jax.ranking.vectors import SAMPLE, Embedded, add_texts, made_with, read_texts, text_hashes
from harp_jax.site.options import FIELDS, SiteOptions
from harp_jax.site.pages import PARAMETERS, Read, read_pages
from harp_jax.site.ranker import ADAPTED, add_adapted, add_ranker
from harp_jax.site.search import DOCS, ENCODER, FOLDERS, LABELLED, RANKER, VECTORS_FOLDER, Settings, documents
from harp_jax.site.tune import read_judged
from harp_jax.site.verdict import ANCHOR_TEST, LABEL_TEST, SearchTest, Verdict
from harp_jax.text.languages import function_words
from harp_jax.text.tokenizer import load_tokenizer, read_model_config

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
    """Makes or updates the folder `output`, and returns the verdict. `force`: makes everything again. Raises InputError for bad
    input, and for other options than those that made the folder."""
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
            adapted = add_adapted(options.source, options.training, test, bool(verdict.rows))
        elif options.training:
            if lacking := add_ranker(options.source, options.training, test) if verdict.rows else read.shortage:
                print(f"No ranker: {lacking}.", flush=True)
            else:
                verdict = test.run()

        # The verdict, with what to do next.
        label = f"judge 30 queries of your own in harp look {output}, then repeat with --labels={path('labels.tsv')}"
        usual = f"add pages that link to these, or {label}" if verdict.untested else label
        verdict = replace(verdict, next=advice or (f"harp look {output}" if options.labels else usual))
        verdict.save(path("verdict.json"))
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
        _, qrels = read_judged(options.labels, options.queries)
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
    Trusted is a sentence encoder that knows the language. Of others the vectors are used only if they rank better in the test."""
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


def known_words(encoder: str, language: str) -> float:
    """The share of a language's function words that are single tokens of an encoder; 0 for a language without a list."""
    words, tokenizer = sorted(function_words(language)), load_tokenizer(encoder)
    # SentencePiece keeps the space apart from a script that is written without spaces.
    space = tokenizer.vocab.get(SPACE)
    tokens = [[i for i in ids if i != space] for ids in tokenizer.encode_prefixes([f" {word}" for word in words], 3)]
    return sum(len(ids) == 1 and ids[0] != tokenizer.unk for ids in tokens) / max(len(words), 1)


@once
def copy_encoder(encoder: InputPath, output: str) -> None:
    """Copies an encoder, without parameters in other formats, with checksums. config.json and the tokenizer are written as
    transformers reads them: servers then need not import it, nor torch."""
    ignored = shutil.ignore_patterns(
        "*.bin", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.pt", "onnx", "openvino", ".*", SUMS
    )
    shutil.rmtree(output, ignore_errors=True)
    with output_folder(output) as folder:
        shutil.copytree(encoder, folder, ignore=ignored, dirs_exist_ok=True)
        with replacing(os.path.join(folder, "config.json")) as file:
            json.dump(read_model_config(encoder), file, indent=1)
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


def take_labels(options: SiteOptions, output: str) -> None:
    """Writes labels as queries and judgments into test/labels; what was made with other labels is removed."""
    texts, judged = read_judged(options.labels, options.queries, {*documents(output).ids()})
    folder = Path(output, "test", LABEL_TEST)
    queries = [f"{qid}\t{' '.join(texts[qid].split())}\n" for qid in judged]
    judgments = [f"{qid} 0 {docid} {level}\n" for qid, levels in judged.items() for docid, level in levels.items()]
    files = {folder / "queries.tsv": "".join(queries), folder / "qrels.txt": "".join(judgments)}
    if all(path.exists() and path.read_text("utf-8") == text for path, text in files.items()):
        return
    for path in (folder, *Path(output, "training").glob("labels*")):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else forget(str(path))
    forget(os.path.join(output, FOLDERS[LABELLED]))
    for path, text in files.items():
        with replacing(str(path)) as file:
            file.write(text)
