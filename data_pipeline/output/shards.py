"""TFRecord shards: which record goes where, writing them, and the metadata by which TFDS reads them."""

import os
import re
from typing import Any

import pyarrow as pa

from data_pipeline.engine.job import Job
from data_pipeline.engine.store import read
from data_pipeline.engine.tables import Row, table
from harp_jax.base.files import replacing, sha256_file
from harp_jax.input.records import BYTES_FEATURES, DATASET, PAIR_FEATURES, TEXT_FEATURES, split_name
from harp_jax.input.tfrecords import tensorflow

# Planned fill of a shard: hashing does not fill shards evenly.
FILL = 0.85

SHARDED_SQL = """
    SELECT r.task, r.split, r.shuffle, r.key, r.example, s.first + r.shuffle % s.shards AS bucket
    FROM records r JOIN splits s ON r.task = s.task AND r.split = s.split
"""


def plan(sizes: list[tuple[str, str, int]], limit: int) -> list[Row]:
    """Rows of `splits` from (task, split, bytes): the number of shards of each split, and of its first shard."""
    rows, first = [], 0
    for task, split, size in sorted(sizes):
        shards = max(1, -(-size // int(limit * FILL)))
        rows.append(dict(task=task, split=split, shards=shards, first=first))
        first += shards
    return rows


def shard_path(directory: str, split: str, shard: int, shards: int) -> str:
    """The path of a shard, named as TFDS expects."""
    return os.path.join(directory, f"{DATASET}-{split}.tfrecord-{shard:05d}-of-{shards:05d}")


def write_shard(job: Job, number: int, payload: tuple[str, str, int, int]) -> dict[str, pa.Table]:
    """Map over all shards, empty ones too: records by (hash, key) in one file. payload: task, split, shard, number of shards."""
    task, split, shard, shards = payload
    path = shard_path(job["output"], split_name(task, split), shard, shards)
    rows = read(job, "sharded", number).sort_by([("shuffle", "ascending"), ("key", "ascending")])
    with replacing(path, "wb") as file, tensorflow().io.TFRecordWriter(file.name) as writer:
        for example in rows.column("example"):
            writer.write(example.as_py())
    size = os.path.getsize(path)
    name = os.path.basename(path)
    files = dict(file=name, records=rows.num_rows, bytes=size, sha256=sha256_file(path))
    return {"shard_files": table("shard_files", [files])}


def remove_unfinished(directory: str) -> None:
    """Removes temporary files of a killed job."""
    for name in os.listdir(directory):
        if re.fullmatch(rf"({DATASET}-.*\.tfrecord-.*|manifest\.json)\.tmp\.\w+", name):
            os.remove(os.path.join(directory, name))


def write_tfds_metadata(directory: str, splits: dict[str, Any], description: str) -> None:
    """features.json and dataset_info.json, so that `tfds.builder_from_directory(directory)` works.

    DatasetInfo is built directly: a builder class would have to live in an importable package.
    """
    tensorflow()
    import numpy as np
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core import dataset_info, file_adapters, naming
    from tensorflow_datasets.core import splits as tfds_splits

    texts = {name: tfds.features.Text() for name in BYTES_FEATURES}
    lists = {name: tfds.features.Sequence(np.int64) for name in (*PAIR_FEATURES, *TEXT_FEATURES)}
    identity = dataset_info.DatasetIdentity(
        name=DATASET, version="1.0.0", data_dir=directory, module_name="data_pipeline.output.shards"
    )
    features = tfds.features.FeaturesDict({**texts, **lists})
    info = dataset_info.DatasetInfo(builder=identity, features=features, description=description)
    info.set_file_format(file_adapters.FileFormat.TFRECORD)
    named = []
    for name, split in sorted(splits.items()):
        template = naming.ShardedFileTemplate(
            data_dir=directory, dataset_name=DATASET, split=name, filetype_suffix="tfrecord"
        )
        lengths = [shard["records"] for shard in split["shards"]]
        size = sum(shard["bytes"] for shard in split["shards"])
        named.append(
            tfds_splits.SplitInfo(name=name, shard_lengths=lengths, num_bytes=size, filename_template=template)
        )
    info.set_splits(tfds_splits.SplitDict(named))
    info.write_to_directory(directory)
