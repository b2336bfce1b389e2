"""What `harp site --train` trains on the links: a ranker (`train_ranker`, `fine_tune`), or a map of the encoder's vectors
(`adapt_encoder`).

The configs data/site, site and finetune_site alone define the recipes. Every step is a function with `made.once`, whose
output is in the folder `training` of the site, so that a killed command resumes.
"""

import importlib
import json
import math
import os
import shutil
from collections.abc import Sequence
from functools import partial

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError, Terminated
from harp_jax.base.files import replacing
from harp_jax.base.made import KEPT, InputPath, Speed, once
from harp_jax.base.steps import Steps
from harp_jax.config import read_config
from harp_jax.corpus.query_sets import fold_queries
from harp_jax.corpus.trec import Run, read_run, write_run
from harp_jax.input.records import read_manifest, split_name
from harp_jax.ranking.rerank import Reranking, rerank_files
from harp_jax.site.options import FIELDS, MAX_LENGTH, Source, Training
from harp_jax.training.linear_map import Adapted, MapOptions, train_map
from harp_jax.training.recorded import first_layers, named_inputs, train

PRETRAIN, FINETUNE = "site", "finetune_site"  # configs
QUERY_LENGTH = 32  # tokens, as in configs/data/site.py
MIN_STEPS = 20
MIN_PAIRS = 100  # training pairs of a task; tasks with fewer are left out
MAX_EPOCHS = 10  # more would repeat the pairs without dropout
FEW_PAIRS = 10_000


def train_ranker(source: Source, training: Training, encoder: str, teacher: bool, folder: str, steps: Steps) -> str:
    """Trains a ranker in FOLDER/ranker from the links of pages, and if the encoder is a `teacher`, from its scores of the pairs.

    Returns "", or why there are too few pairs.
    """
    path = partial(os.path.join, folder)
    # The encoder to start from: given, shortened, or from scratch with a vocabulary of the site.
    start = training.start or encoder
    if start and training.layers:
        steps("Keep the first layers", first_layers, start, training.layers, output=path("start"))
        start = path("start")
    job = source.config()
    tokenizer = start
    if not start:
        function = importlib.import_module("data_pipeline.output.vocabulary").write_vocabulary
        tokenizer = path("vocabulary")
        steps("Make a vocabulary", function, job, output=tokenizer, kind=training.vocabulary)
    # Pairs of anchors and documents.
    with job.unlocked():
        job.update(tokenizer=tokenizer, seed=training.seed, max_doc_tokens=training.max_length - QUERY_LENGTH)
    pairs = path("pairs")
    steps("Make pairs of the links", importlib.import_module("data_pipeline.pipeline").generate, job, output=pairs)
    config = read_config(f"{PRETRAIN}:taught" if teacher and start else PRETRAIN)
    enough = [task for task in config.tasks if records(pairs, task, "train") >= MIN_PAIRS]
    tasks = tuple(task for task in enough if records(pairs, task, "validation"))
    if not tasks:
        counts = ", ".join(f"{task} {records(pairs, task, 'train'):,}" for task in config.tasks)
        return f"too few training pairs ({counts}; {MIN_PAIRS} needed)"
    if (count := sum(records(pairs, task, "train") for task in tasks)) < FEW_PAIRS:
        print(f"{count:,} training pairs are few: do not expect the ranker to improve the search.", flush=True)
    data = pairs
    if teacher and start:
        teacher_module, data = importlib.import_module("data_pipeline.output.teacher"), path("taught")
        options = teacher_module.TeachOptions(pairs, (encoder,), cosine=True)
        steps("Score the pairs with the encoder", teacher_module.teach, options, output=data)
    config = training_config(config, training, start, tokenizer, data, tasks)
    rate = steps("Measure the rate of training", measure_rate, config, output=path("rate.json"))
    number = steps_within(training.minutes, rate, count, config.batch_pairs)
    print(f"{number} steps of training, about {number * rate / 60:.0f} min", flush=True)
    with config.unlocked():
        config.steps = number
    steps("Train the ranker", train, config, output=path("ranker"))
    return ""


def adapt_encoder(source: Source, training: Training, encoder: str, folder: str, output: str, steps: Steps) -> str:
    """Writes the sentence encoder, adapted to the links, for a vector database (`training/linear_map.py`).

    Returns "", or why there are too few pairs.
    """
    job, pairs = source.config(), os.path.join(folder, "vector_pairs")
    length = training.max_length - 2
    with job.unlocked():
        job.update(
            tokenizer=encoder, seed=training.seed, max_query_tokens=length, max_doc_tokens=length, hard_negatives=1
        )
    steps("Make pairs of the links", importlib.import_module("data_pipeline.pipeline").generate, job, output=pairs)
    if (count := records(pairs, "adp", "train")) < MIN_PAIRS:
        return f"too few training pairs ({count:,}; {MIN_PAIRS} needed)"
    made = steps("Adapt the encoder", adapt, encoder, training.seed, pairs, output=output)
    print(f"On {made.pairs:,} links: {made.words()}", flush=True)
    return ""


@once(changed=KEPT)
def adapt(encoder: InputPath, seed: int, pairs: Speed[str], output: str) -> Adapted:
    """Adapts an encoder to pairs; one of earlier pages is kept."""
    return train_map(MapOptions(pairs, encoder, seed=seed), output)


def training_config(
    config: ConfigDict, training: Training, start: str, tokenizer: str, data: str, tasks: Sequence[str]
) -> ConfigDict:
    """The config of the pre-training, but for its steps."""
    with config.unlocked():
        config.update(init=start, data=(data,), seed=training.seed, tasks=tuple(tasks), row_length=training.max_length)
        if not start:
            config.tokenizer, config.learning_rate = tokenizer, 1e-3
            if training.max_length != MAX_LENGTH:
                config.model.max_positions = training.max_length
        elif not training.layers:
            config.learning_rate = 1e-4  # at the rate for a few layers, a whole encoder forgets what it knows
    return config


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
    """Steps that take `minutes`, at most MAX_EPOCHS over the training pairs.

    Raises InputError for a time that is too short for MIN_STEPS.
    """
    steps = int(min(60 * minutes / seconds_per_step, math.ceil(MAX_EPOCHS * pairs / batch_pairs)))
    if steps < MIN_STEPS:
        raise InputError(
            f"--minutes={minutes:g}: a step takes {seconds_per_step:.2f} s and there are {pairs:,} training pairs, which "
            f"allows {steps} steps; at least {MIN_STEPS} are needed"
        )
    return steps


@once(changed=KEPT)
def publish(training: Training, encoder: InputPath, workdir: Speed[str], output: str) -> None:
    """Exports a ranker's workdir. One of earlier pages with the same options is kept."""
    from harp_jax.checkpoints.export import export_model

    shutil.rmtree(output, ignore_errors=True)
    export_model(workdir, output, ranker=True)


def fine_tune(
    workdir: str, collection: dict[str, str], training: Training, windows: int, folder: str, steps: Steps
) -> None:
    """Fine-tunes a ranker on labels, in FOLDER/labels; labels.trec: each half of the queries ranked by a model of the other half.

    `collection` names docs, queries, qrels and candidates.
    """
    folds = os.path.join(folder, "labels_folds.tsv")
    fold_queries(collection["queries"], folds, collection["qrels"], count=2)
    config = read_config(FINETUNE)
    with config.unlocked():
        config.update(**collection, init=workdir, fields=FIELDS, seed=training.seed, row_length=training.max_length)
    texts = (collection["docs"], collection["queries"], collection["candidates"])
    joined: Run = {}
    for fold, other in (("0", "1"), ("1", "0")):
        half = config.copy_and_resolve_references()
        with half.unlocked():
            half.folds, half.train_folds = folds, (other,)
        model = os.path.join(folder, f"labels_{other}")
        steps(f"Fine-tune on half {other}", train, half, output=model)
        run = os.path.join(folder, f"labels_{fold}.trec")
        options = Reranking(FIELDS, folds=folds, fold=fold, windows=windows, max_length=training.max_length)
        steps(f"Rank half {fold}", rerank_files, model, *texts, run, options)
        joined |= read_run(run)
    write_run(os.path.join(folder, "labels.trec"), ((qid, each.docids, each.scores) for qid, each in joined.items()))
    steps("Fine-tune on all labels", train, config, output=os.path.join(folder, "labels"))


def records(pairs: str, task: str, split: str) -> int:
    """Records of a split of a task in a finished generation job; 0 if there is none."""
    held = read_manifest(pairs)["splits"].get(split_name(task, split))
    return held["records"] if held else 0
