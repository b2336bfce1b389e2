"""What `harp site --train` trains on the links: a ranker, tested as one more part (`add_ranker`), or a map of the encoder's
vectors, for a vector database (`add_adapted`).

The configs data/site, site and finetune_site alone define the recipes. Every step is a function with `made.once`, whose
output is in the folder `training` of the site, so that a killed command resumes.
"""

import json
import math
import os
import shutil
from functools import partial

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError, Terminated
from harp_jax.base.files import replacing
from harp_jax.base.made import KEPT, InputPath, Speed, once
from harp_jax.config import read_config
from harp_jax.corpus.query_sets import fold_queries
from harp_jax.corpus.trec import Run, read_qrels, read_run, write_run
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.input.records import read_manifest, split_name
from harp_jax.ranking.fuse import VECTORS
from harp_jax.ranking.rerank import Reranking, rerank_files
from harp_jax.site.options import FIELDS, MAX_LENGTH, Source, Training
from harp_jax.site.search import ENCODER, FOLDERS, LABELLED, RANKER
from harp_jax.site.verdict import FILES, LABEL_TEST, MEASURE, SearchTest
from harp_jax.training.linear_map import Adapted, MapOptions, train_map
from harp_jax.training.recorded import first_layers, named_inputs, train

ADAPTED = "encoder_adapted"  # folder
PRETRAIN, FINETUNE = "site", "finetune_site"  # configs
QUERY_LENGTH = 32  # tokens, as in configs/data/site.py
MIN_STEPS = 20
MIN_PAIRS = 100  # training pairs of a task; tasks with fewer are left out
MAX_EPOCHS = 10  # more would repeat the pairs without dropout
FEW_PAIRS = 10_000


def add_ranker(source: Source, training: Training, test: SearchTest) -> str:
    """Trains a ranker, fine-tunes it on labels if they are tested, ranks the test's candidates and exports it. Returns what it
    lacks, or "". A ranker of earlier pages with the same options is kept."""
    encoder = os.path.join(test.output, ENCODER) if test.settings.encoder else ""
    exports = {part: os.path.join(test.output, name) for part, name in FOLDERS.items()}
    workdirs = {RANKER: os.path.join(test.training, "ranker")}
    known = publish.already(training, encoder, "", output=exports[RANKER])
    if not known and (lacking := train_ranker(source, training, encoder, test)):
        return lacking
    test.rank("Rank with the ranker", workdirs[RANKER], test.path("ranker.trec"), max_length=training.max_length)
    if test.name == LABEL_TEST:
        workdirs[LABELLED] = os.path.join(test.training, "labels")
        if not publish.already(training, encoder, "", output=exports[LABELLED]):
            fine_tune(workdirs[RANKER], training, test)
    for part, workdir in workdirs.items():
        test.steps(f"Export the {part}", publish, training, encoder, workdir, output=exports[part])
    return ""


def train_ranker(source: Source, training: Training, encoder: str, test: SearchTest) -> str:
    """Trains training/ranker from the links of pages and, if vectors are trusted, from the encoder's scores of the pairs. Returns
    "", or why there are too few pairs."""
    from data_pipeline.output.teacher import TeachOptions, teach
    from data_pipeline.output.vocabulary import write_vocabulary
    from data_pipeline.pipeline import generate

    steps, path = test.steps, partial(os.path.join, test.training)
    # The encoder to start from: given, shortened, or from scratch with a vocabulary of the site.
    job, start = source.config(), training.start or encoder
    if start and training.layers:
        steps("Keep the first layers", first_layers, start, training.layers, output=path("start"))
        start = path("start")
    tokenizer = start or path("vocabulary")
    if not start:
        steps("Make a vocabulary", write_vocabulary, job, output=tokenizer, kind=training.vocabulary)

    # Pairs of anchors and documents, with the encoder's scores.
    job.update(tokenizer=tokenizer, seed=training.seed, max_doc_tokens=training.max_length - QUERY_LENGTH)
    data = path("pairs")
    steps("Make pairs of the links", generate, job, output=data)
    config = read_config(f"{PRETRAIN}:taught" if test.trusted else PRETRAIN)
    counts = {task: records(data, task, "train") for task in config.tasks}
    tasks = tuple(task for task in counts if counts[task] >= MIN_PAIRS and records(data, task, "validation"))
    if not tasks:
        said = ", ".join(f"{task} {count:,}" for task, count in counts.items())
        return f"too few training pairs ({said}; {MIN_PAIRS} needed)"
    if (count := sum(counts[task] for task in tasks)) < FEW_PAIRS:
        print(f"{count:,} training pairs are few: do not expect the ranker to improve the search.", flush=True)
    if test.trusted:
        options = TeachOptions(data, (encoder,), cosine=True)
        data = path("taught")
        steps("Score the pairs with the encoder", teach, options, output=data)

    # The training, of as many steps as fit into its minutes.
    config.update(init=start, data=(data,), seed=training.seed, tasks=tasks, row_length=training.max_length)
    if not start:
        config.update(tokenizer=tokenizer, learning_rate=1e-3)
        if training.max_length != MAX_LENGTH:
            config.model.max_positions = training.max_length
    elif not training.layers:
        config.learning_rate = 1e-4  # at the rate for a few layers, a whole encoder forgets what it knows
    rate = steps("Measure the rate of training", measure_rate, config, output=path("rate.json"))
    config.steps = steps_within(training.minutes, rate, count, config.batch_pairs)
    print(f"{config.steps} steps of training, about {config.steps * rate / 60:.0f} min", flush=True)
    steps("Train the ranker", train, config, output=path("ranker"))
    return ""


@once(inputs=named_inputs)
def measure_rate(config: ConfigDict, output: str) -> float:
    """Writes the seconds per training step on this machine, and returns them."""
    from harp_jax.training.dry_run import seconds_per_step

    seconds = seconds_per_step(config.copy_and_resolve_references(), os.path.dirname(os.path.abspath(output)))
    if seconds is None:
        raise Terminated("terminated; run the same command again to resume")
    rate = float(f"{seconds:.4g}")
    with replacing(output) as file:
        json.dump({"seconds_per_step": rate}, file)
    return rate


def steps_within(minutes: float, seconds_per_step: float, pairs: int, batch_pairs: int) -> int:
    """Steps that take `minutes`, at most MAX_EPOCHS over the training pairs. Raises InputError for a time that is too short for
    MIN_STEPS."""
    steps = int(min(60 * minutes / seconds_per_step, math.ceil(MAX_EPOCHS * pairs / batch_pairs)))
    if steps < MIN_STEPS:
        raise InputError(
            f"--minutes={minutes:g}: a step takes {seconds_per_step:.2f} s and there are {pairs:,} training pairs, which "
            f"allows {steps} steps; at least {MIN_STEPS} are needed"
        )
    return steps


def fine_tune(workdir: str, training: Training, test: SearchTest) -> None:
    """Fine-tunes a ranker on labels, in training/labels; in labels.trec a model of the other half has ranked each half of them."""
    steps, path, collection = test.steps, partial(os.path.join, test.training), test.collection
    folds = path("labels_folds.tsv")
    fold_queries(collection["queries"], folds, collection["qrels"], count=2)
    config = read_config(FINETUNE)
    config.update(**collection, init=workdir, fields=FIELDS, seed=training.seed, row_length=training.max_length)
    texts = (collection["docs"], collection["queries"], collection["candidates"])
    joined: Run = {}
    for fold, other in (("0", "1"), ("1", "0")):
        half, model, run = config.copy_and_resolve_references(), path(f"labels_{other}"), path(f"labels_{fold}.trec")
        half.update(folds=folds, train_folds=(other,))
        steps(f"Fine-tune on half {other}", train, half, output=model)
        windows = test.settings.windows
        options = Reranking(FIELDS, folds=folds, fold=fold, windows=windows, max_length=training.max_length)
        steps(f"Rank half {fold}", rerank_files, model, *texts, run, options)
        joined |= read_run(run)
    write_run(path("labels.trec"), ((qid, each.docids, each.scores) for qid, each in joined.items()))
    steps("Fine-tune on all labels", train, config, output=path("labels"))


@once(changed=KEPT)
def publish(training: Training, encoder: InputPath, workdir: Speed[str], output: str) -> None:
    """Exports a ranker's workdir. One of earlier pages with the same options is kept."""
    from harp_jax.checkpoints.export import export_model

    shutil.rmtree(output, ignore_errors=True)
    export_model(workdir, output, ranker=True)


def add_adapted(source: Source, training: Training, test: SearchTest, tested: bool) -> str:
    """Adapts the encoder to the links (`training/linear_map.py`); returns what vectors alone gain in the test, or what it lacks."""
    if not test.trusted:
        return "No adapted encoder: it starts from a sentence encoder that knows the language (--encoder)."
    encoder, output = (os.path.join(test.output, folder) for folder in (ENCODER, ADAPTED))
    if not adapt.already(encoder, training.seed, "", output=output):
        job, pairs, length = source.config(), os.path.join(test.training, "vector_pairs"), training.max_length - 2
        lengths = {"max_query_tokens": length, "max_doc_tokens": length}
        job.update(tokenizer=encoder, seed=training.seed, hard_negatives=1, **lengths)
        from data_pipeline.pipeline import generate

        test.steps("Make pairs of the links", generate, job, output=pairs)
        if (count := records(pairs, "adp", "train")) < MIN_PAIRS:
            return f"No adapted encoder: too few training pairs ({count:,}; {MIN_PAIRS} needed)."
        made = test.steps("Adapt the encoder", adapt, encoder, training.seed, pairs, output=output)
        print(f"On {made.pairs:,} links: {made.words()}", flush=True)
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


@once(changed=KEPT)
def adapt(encoder: InputPath, seed: int, pairs: Speed[str], output: str) -> Adapted:
    """Adapts an encoder to pairs; one of earlier pages is kept."""
    return train_map(MapOptions(pairs, encoder, seed=seed), output)


def records(pairs: str, task: str, split: str) -> int:
    """Records of a split of a task in a finished generation job; 0 if there is none."""
    held = read_manifest(pairs)["splits"].get(split_name(task, split))
    return held["records"] if held else 0
