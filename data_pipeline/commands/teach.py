"""Adds the scores of one or more rankers to the pairs of a finished generation job, to teach and to choose negatives: `harp teach`.

Every record gets `teacher`, a score for each of its documents, the positive first. A negative that the ranker places above the
positive is often an answer: `drop_above` leaves it out; `hardest` keeps the best-scored of the remaining negatives. Shards are
written one by one, the manifest last: a killed command resumes at the shard it was at.
"""

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from data_pipeline.output.manifest import Manifest, remove_unfinished, write_tfds_metadata
from data_pipeline.tasks.maps import serialise
from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.base.files import json_fields, read_json, replacing, sha256_file
from harp_jax.base.progress import progress
from harp_jax.input.records import (
    AGAIN,
    BYTES_FEATURES,
    MANIFEST,
    MORE_FEATURES,
    PAIR_FEATURES,
    TEACHER,
    TEXT_TASK,
    Shard,
    job_tokenizer,
    parts,
    read_manifest,
    shards_of,
)
from harp_jax.input.tfrecords import tensorflow
from harp_jax.text.tokenizer import Tokenizer

COSINE = 0.05  # temperature
BATCH = 16_384  # records scored together
SETTINGS = "teacher.json"  # in the output: the settings of its shards, which a resumed command must match
Record = dict[str, Any]


def teach(pairs: str, output: str, scorers: Sequence[Any], settings: dict[str, Any]) -> Manifest:
    """Writes the pairs of the directory `pairs` with the mean of the scores of `scorers` to `output`; returns the manifest.

    `settings`: "model", "temperature", "drop_above" and "hardest". Raises InputError for an output made with other settings.
    """
    manifest = read_manifest(pairs)
    tokenizer = job_tokenizer(pairs, manifest)
    with json_fields(os.path.join(pairs, MANIFEST), AGAIN):
        place = os.path.relpath(os.path.join(pairs, manifest["tokenizer"]), output)
        given, tasks = settings | {"pairs": manifest["config_sha256"]}, manifest["tasks"]
    os.makedirs(output, exist_ok=True)
    _claim(output, given)
    remove_unfinished(output)
    shards = [(name, shard) for name, split in manifest["splits"].items() for shard in shards_of(pairs, split)]
    made: dict[str, list[dict[str, Any]]] = {name: [] for name in manifest["splits"]}
    for name, shard in progress(shards, unit="shards", desc="teach"):
        path = os.path.join(output, os.path.basename(shard.path))
        if not os.path.exists(path):
            _write(path, shard, name.rpartition("_")[0], scorers, tokenizer, settings)
        records = sum(1 for _ in tensorflow().data.TFRecordDataset(path))
        size, digest = os.path.getsize(path), sha256_file(path)
        made[name].append(dict(file=os.path.basename(path), records=records, bytes=size, sha256=digest))
    splits = {name: {"records": sum(shard["records"] for shard in each), "shards": each} for name, each in made.items()}
    if settings["drop_above"] or settings["hardest"]:
        # The other statistics describe pairs with all their negatives.
        counts = {
            task: sum(splits[name]["records"] for name in splits if name.startswith(f"{task}_")) for task in tasks
        }
        tasks = {task: entry if task == TEXT_TASK else {"pairs": counts[task]} for task, entry in tasks.items()}
    found = manifest | {"splits": splits, "teacher": settings, "tokenizer": place, "tasks": tasks}
    write_tfds_metadata(
        output, splits, "Pre-training pairs from hyperlinks and anchor texts (HARP), with a teacher's scores."
    )
    with replacing(os.path.join(output, MANIFEST)) as file:
        json.dump(found, file, indent=1)
    return found


def _claim(output: str, settings: dict[str, Any]) -> None:
    path = os.path.join(output, SETTINGS)
    if os.path.exists(path):
        if read_json(path) != settings:
            raise InputError(f"{output} has pairs scored with other settings ({path}); use another --output")
    elif os.listdir(output):
        raise InputError(f"{output} is not empty; use another --output")
    with replacing(path) as file:
        json.dump(settings, file, indent=1)


def _write(
    path: str, shard: Shard, task: str, scorers: Sequence[Any], tokenizer: Tokenizer, settings: dict[str, Any]
) -> None:
    """A shard with scores; running text is copied."""
    shard.check_content()
    tf = tensorflow()
    with replacing(path, "wb") as file, tf.io.TFRecordWriter(file.name) as writer:
        for batch in tf.data.TFRecordDataset(shard.path).batch(BATCH):
            if task == TEXT_TASK:
                kept = batch.numpy().tolist()
            else:
                records = [_parse(example) for example in batch.numpy()]
                kept = [_serialised(task, record) for record in _taught(records, scorers, tokenizer, settings)]
            for example in kept:
                writer.write(example)


def _parse(example: bytes) -> Record:
    features = tensorflow().train.Example.FromString(example).features.feature
    found: Record = {name: features[name].bytes_list.value[0].decode() for name in BYTES_FEATURES}
    lists = {name: np.array(features[name].int64_list.value, np.int64) for name in (*PAIR_FEATURES, *MORE_FEATURES)}
    more, lengths = (lists.pop(name) for name in MORE_FEATURES)
    return found | lists | {"more_docs": parts(more, lengths)}


def _serialised(task: str, record: Record) -> bytes:
    more, lengths = MORE_FEATURES
    features = {name: record[name] for name in (*PAIR_FEATURES, TEACHER)}
    features |= {
        more: [token for each in record[more] for token in each],
        lengths: [len(each) for each in record[more]],
    }
    return serialise(task, record["key"], record["page"], features)


def _taught(
    records: list[Record], scorers: Sequence[Any], tokenizer: Tokenizer, settings: dict[str, Any]
) -> list[Record]:
    """The records with their scores, without the negatives that `settings` leave out, and those without a negative."""
    from harp_jax.ranking.rerank import predict

    texts: list[tuple[str, str]] = []
    for record in records:
        query, document = record["pos_query"], record["pos_doc"]
        other = record["neg_query"] if len(record["neg_query"]) else query
        sides = [(query, document), (other, record["neg_doc"] if len(record["neg_doc"]) else document)]
        sides += [(query, each) for each in record["more_docs"]]
        texts += [(tokenizer.decode(one.tolist()), tokenizer.decode(two.tolist())) for one, two in sides]
    scores = iter(np.mean([predict(scorer, texts) for scorer in scorers], axis=0).tolist())
    found = []
    for record in records:
        positive, *negatives = (next(scores) for _ in range(2 + len(record["more_docs"])))
        kept = chosen(positive, negatives, settings["drop_above"], settings["hardest"])
        if len(kept):
            documents = [record["neg_doc"], *record["more_docs"]]
            first, *more = (documents[place] for place in kept)
            taught = [score / settings["temperature"] for score in (positive, *(negatives[place] for place in kept))]
            found.append(record | {"neg_doc": first, "more_docs": more, TEACHER: taught})
    return found


def chosen(positive: float, negatives: list[float], drop_above: bool, hardest: int) -> list[int]:
    """Places of the negatives that are kept, in their order, or with `hardest` the best-scored ones first."""
    kept = [place for place, score in enumerate(negatives) if not drop_above or score < positive]
    return sorted(kept, key=lambda place: -negatives[place])[:hardest] if hardest else kept


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp teach",
        description="Add a ranker's scores to the pairs of a finished job, as a teacher (--config.pair_loss=lce_kl) or for hard "
        "negatives.",
        example="harp teach pairs --model=ranker --drop_above --hardest=7 --output=taught",
    )
    parser.add_argument("pairs", help="output directory of a generation job")
    parser.add_argument(
        "--model",
        required=True,
        nargs="+",
        help="re-ranker, or encoder with --cosine; the scores of several are averaged",
    )
    parser.add_argument("--cosine", action="store_true", help="score by the cosine of the encoder's embeddings")
    parser.add_argument("--drop_above", action="store_true", help="leave out negatives that score above the positive")
    parser.add_argument(
        "--hardest", type=count, default=0, help="keep only this many negatives, those with the highest scores (0: all)"
    )
    parser.add_argument("--max_length", type=positive, default=None, help="maximum tokens per sequence (the model's)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=None,
        help="divide the scores by this (1; with --cosine 0.05, as in encoder training)",
    )
    parser.add_argument("--dtype", default="float32", help="precision of the computation (float32)")
    parser.add_output("--output", required=True, help="directory for the pairs with scores")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.ranking.rerank import load_scorer

    a = arguments
    scorers = [load_scorer(model, a.dtype, a.max_length, cosine=a.cosine) for model in a.model]
    temperature = a.temperature or (COSINE if a.cosine else 1.0)
    settings = {"model": a.model, "cosine": a.cosine, "drop_above": a.drop_above, "hardest": a.hardest}
    settings |= {"max_length": a.max_length, "dtype": a.dtype, "temperature": temperature}
    before = sum(split["records"] for split in read_manifest(a.pairs)["splits"].values())
    found = teach(a.pairs, a.output, scorers, settings)
    after = sum(split["records"] for split in found["splits"].values())
    print(
        f"{a.output}: {after:,} records with scores; left out {before - after:,} without a negative below the positive"
    )
