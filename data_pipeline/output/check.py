"""Check a finished generation job: every shard against the manifest, and the manifest against itself."""

import os

from data_pipeline.output.manifest import Manifest
from harp_jax.base.errors import InputError
from harp_jax.base.files import sha256_file
from harp_jax.base.progress import progress
from harp_jax.input.records import DATASET, split_name
from harp_jax.input.tfrecords import tensorflow


def check(directory: str, manifest: Manifest) -> None:
    """Raises InputError with the first shard that is missing, damaged, or not in the manifest."""
    tf = tensorflow()
    _check_counts(directory, manifest)
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    with progress(shards, unit="shards", desc="check") as bar:
        for shard in bar:
            path = os.path.join(directory, shard["file"])
            if not os.path.exists(path):
                raise InputError(f"shard {path} is missing; generate the data again in an empty directory")
            found = {"bytes": os.path.getsize(path), "sha256": sha256_file(path)}
            for field, value in found.items():
                if value != shard[field]:
                    raise InputError(
                        f"shard {path} is damaged: {field} is {value}, the manifest says {shard[field]}; "
                        "copy it again, or generate the data again in an empty directory"
                    )
            try:
                records = sum(1 for _ in tf.data.TFRecordDataset(path))
            except tf.errors.OpError as error:
                raise InputError(
                    f"shard {path} is damaged ({type(error).__name__}); generate the data again"
                ) from error
            if records != shard["records"]:
                raise InputError(
                    f"shard {path} holds {records} records, the manifest says {shard['records']}; generate the data again"
                )


def _check_counts(directory: str, manifest: Manifest) -> None:
    """Checks the manifest's sums, and that the directory contains exactly its shards."""
    for name, split in manifest["splits"].items():
        if split["records"] != sum(shard["records"] for shard in split["shards"]):
            raise InputError(
                f"{directory}: the manifest's shards of split {name} do not add up to its records; copy it again"
            )
    for task, entry in manifest["tasks"].items():
        splits = [manifest["splits"].get(split_name(task, split), {"records": 0}) for split in ("train", "validation")]
        if entry["pairs"] != sum(split["records"] for split in splits):
            raise InputError(
                f"{directory}: the manifest's splits of task {task} do not add up to its pairs; copy it again"
            )
    known = {shard["file"] for split in manifest["splits"].values() for shard in split["shards"]}
    strange = sorted(name for name in os.listdir(directory) if name.startswith(f"{DATASET}-") and name not in known)
    if strange:
        raise InputError(f"shard {os.path.join(directory, strange[0])} is not in the manifest; remove it")
    for name in ("dataset_info.json", "features.json"):
        if not os.path.exists(os.path.join(directory, name)):
            raise InputError(f"{directory} has no {name}, without which TFDS cannot read it; copy it again")
