"""A small finished generation job of synthetic pairs on disk, for `harp_jax.input.tfrecords`."""

import json
import os
from collections.abc import Sequence
from typing import Any

from data_pipeline.output.manifest import write_examples, write_tfds_metadata
from data_pipeline.tasks.maps import serialise
from harp_jax.input.records import PAIR_FEATURES, shard_name, split_name
from tests.support.synthetic import pair, tokenizer


def write_job(
    directory: str, records: dict[str, list[int]], validation: Sequence[int] = (), **given: list[int]
) -> None:
    """`records`: task → number of records in each shard of its train split ("mlm" is text); `validation`: the same for every
    task's validation split; `given`: features that all records share, instead of synthetic ones."""
    os.makedirs(directory, exist_ok=True)
    splits: dict[str, Any] = {}
    both = [(task, "train", counts) for task, counts in records.items()]
    both += [(task, "validation", validation) for task in records if validation]
    for task, split, counts in both:
        shards = []
        for number, count in enumerate(counts):
            path = os.path.join(directory, shard_name(split_name(task, split), number, len(counts)))
            examples = []
            for key in range(1000 * number, 1000 * number + count):
                values = [ids.tolist() for ids in pair(key, task)]
                made = {"text": values[1]} if task == "mlm" else dict(zip(PAIR_FEATURES, values))
                examples.append(serialise(task, f"{task}:{key}", f"page{key}", given or made))
            shards.append(write_examples(path, examples))
        splits[split_name(task, split)] = {"records": sum(counts), "shards": shards}
    write_tfds_metadata(directory, splits, "synthetic")
    with open(os.path.join(directory, "manifest.json"), "w") as file:
        json.dump({"splits": splits, "tokenizer_sha256": tokenizer().sha256}, file)
