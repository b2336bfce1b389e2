"""Tokens per second of pre-training's input, by the number of processes that read and pack, and how many devices that feeds.

python benchmarks/input.py --documents=collection.jsonl.xz --tokenizer=vocab.txt [--workers=0,1,2 --seconds=8]

Writes a job of four tasks with the document lengths of a real collection to a temporary directory, and reads it as training does:
checked shards, packed rows of 512, 16 lanes. 0 workers: a thread of the training process, the default. Runs alternate; prints
medians, extremes, and how many devices of BERT-base at half of their peak each median feeds.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import numpy as np
from step import load_documents

from data_pipeline.output.manifest import write_tfds_metadata
from data_pipeline.tasks.maps import serialise
from harp_jax import config as configs
from harp_jax.base.files import sha256_file
from harp_jax.base.randomness import generator
from harp_jax.input.lanes import Batches
from harp_jax.input.records import PAIR_FEATURES, shard_name, split_name
from harp_jax.input.tfrecords import tensorflow
from harp_jax.text.tokenizer import load_tokenizer
from harp_jax.training.machine import PEAKS, batch_flops
from harp_jax.training.stages.pretrain import pretrain_stage

TASKS, SHARDS = ("rqp", "qdm", "rdp", "acm"), 8
FED = ("TPU v3", "NVIDIA A100", "NVIDIA H100", "NVIDIA B200")


def write_job(directory: str, documents: list[np.ndarray], tokenizer_sha256: str, records: int) -> None:
    """A finished job with `records` pairs in each of SHARDS shards of each of TASKS."""
    splits = {}
    for task in TASKS:
        shards = []
        for number in range(SHARDS):
            path = os.path.join(directory, shard_name(split_name(task, "train"), number, SHARDS))
            rng = generator("bench", task, number)
            with tensorflow().io.TFRecordWriter(path) as writer:
                for key in range(records):
                    pair = [documents[i] for i in rng.integers(len(documents), size=2)]
                    query = rng.integers(1000, 2000, 4)
                    values = (query, pair[0], (), pair[1]) if task != "rqp" else (query, pair[0], query + 1, ())
                    features = dict(zip(PAIR_FEATURES, values))
                    writer.write(serialise(task, f"{number}:{key}", f"page{key}", features))
            size, digest = os.path.getsize(path), sha256_file(path)
            shards.append({"file": os.path.basename(path), "records": records, "bytes": size, "sha256": digest})
        splits[split_name(task, "train")] = {"records": SHARDS * records, "shards": shards}
    write_tfds_metadata(directory, splits, "benchmark")
    with open(os.path.join(directory, "manifest.json"), "w") as file:
        json.dump({"splits": splits, "tokenizer_sha256": tokenizer_sha256}, file)


def rate(stage, config, workers: int, seconds: float) -> float:
    """Real tokens per second after the first batch, over at least `seconds`."""
    lanes = range(config.lanes)
    stream = iter(Batches(stage.source, lanes, workers=workers))
    next(stream)
    start, tokens = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        tokens += int(np.count_nonzero(next(stream)[0]["segment_ids"]))
    taken = time.perf_counter() - start
    stream.close()
    return tokens / taken


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--workers", default="0,1,2")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=2000)
    args = parser.parse_args()
    numbers = [int(word) for word in args.workers.split(",")]
    with tempfile.TemporaryDirectory() as directory:
        vocabulary = load_tokenizer(args.tokenizer)
        write_job(directory, load_documents(args.documents, vocabulary, 2000), vocabulary.sha256, args.records)
        c = configs.pretrain()
        c.data, c.tokenizer, c.lanes = (directory,), args.tokenizer, 16
        stage = pretrain_stage(c)
        rates: dict[int, list[float]] = {number: [] for number in numbers}
        for _ in range(args.rounds):
            for number in numbers:
                rates[number].append(rate(pretrain_stage(c), c, number, args.seconds))
    slots = stage.source.layout.rows * c.lanes * c.row_length
    flops = batch_flops(c, stage) / slots
    print(f"{os.cpu_count()} cores; a token costs {flops / 1e6:.0f} MFLOP; devices fed at half of their peak:")
    for number, found in rates.items():
        middle = statistics.median(found)
        fed = ", ".join(
            f"{middle * flops / (0.5 * PEAKS[kind].flops):.1f} {kind.removeprefix('NVIDIA ')}" for kind in FED
        )
        print(
            f"workers {number}: {middle / 1e6:.2f} M tokens/s ({min(found) / 1e6:.2f} to {max(found) / 1e6:.2f}): {fed}"
        )


if __name__ == "__main__":
    main()
