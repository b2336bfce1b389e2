"""What a job writes: TFRecord shards with the metadata that TFDS needs, and manifest.json, whose presence means that the
job is complete.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, Engine, Inputs, Job, Outputs
from data_pipeline.engine.store import read
from data_pipeline.engine.tables import Row
from data_pipeline.links import link_graph
from data_pipeline.tasks.diagnostics import NAMES
from harp_jax.base.files import replacing, sha256_file
from harp_jax.base.progress import say
from harp_jax.base.version import __version__
from harp_jax.input import records
from harp_jax.input.records import Manifest, ShardEntry, SplitEntry, TaskEntry, shard_name, split_name
from harp_jax.input.tfrecords import tensorflow
from harp_jax.text.tokenizer import Template, Tokenizer

SHARD_BYTES = 64 << 20  # at most
FILL = 0.85  # planned, since hashing does not fill shards evenly

SHARDED_SQL = """
    SELECT r.task, r.split, r.shuffle, r.key, r.example, s.first + r.shuffle % s.shards AS bucket
    FROM records r JOIN splits s ON r.task = s.task AND r.split = s.split
"""


def plan(sizes: list[tuple[str, str, int]]) -> list[Row]:
    """Rows of `splits` from (task, split, bytes): the number of shards of each split, and the number of its first shard."""
    rows, first = [], 0
    for task, split, size in sorted(sizes):
        shards = max(1, -(-size // int(SHARD_BYTES * FILL)))
        rows.append(dict(task=task, split=split, shards=shards, first=first))
        first += shards
    return rows


def write_shard(job: Job, number: int, payload: tuple[str, str, int, int]) -> Outputs:
    """Map over all shards, empty ones too: writes records by (hash, key). payload: task, split, shard, number of shards."""
    task, split, shard, shards = payload
    path = os.path.join(job.output, shard_name(split_name(task, split), shard, shards))
    rows = read(job, tables.SHARDED, number).sort_by([("shuffle", "ascending"), ("key", "ascending")])
    return {tables.SHARD_FILES: [write_examples(path, (each.as_py() for each in rows.column("example")))]}


def write_examples(path: str, examples: Iterable[bytes]) -> ShardEntry:
    """Writes serialized examples to a TFRecord file; returns its entry in the manifest."""
    count = 0
    with replacing(path, "wb") as file, tensorflow().io.TFRecordWriter(file.name) as writer:
        for example in examples:
            writer.write(example)
            count += 1
    size, sha256 = os.path.getsize(path), sha256_file(path)
    return {"file": os.path.basename(path), "records": count, "bytes": size, "sha256": sha256}


def write_tfds_metadata(directory: str, splits: Mapping[str, SplitEntry], description: str) -> None:
    """features.json and dataset_info.json, so that `tfds.builder_from_directory(directory)` works. DatasetInfo is built directly: a
    builder class would have to live in an importable package."""
    tensorflow()
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core import dataset_info, file_adapters, naming
    from tensorflow_datasets.core import splits as tfds_splits

    lists = (*records.PAIR_FEATURES, *records.MORE_FEATURES, *records.TEXT_FEATURES)
    features = {name: tfds.features.Text() for name in records.BYTES_FEATURES}
    features |= {name: tfds.features.Sequence(np.int64) for name in lists}
    features[records.TEACHER] = tfds.features.Sequence(np.float32)
    identity = dataset_info.DatasetIdentity(
        name=records.DATASET, version="1.0.0", data_dir=directory, module_name="data_pipeline.output.manifest"
    )
    info = dataset_info.DatasetInfo(
        builder=identity, features=tfds.features.FeaturesDict(features), description=description
    )
    info.set_file_format(file_adapters.FileFormat.TFRECORD)
    infos = []
    for name, split in sorted(splits.items()):
        template = naming.ShardedFileTemplate(
            data_dir=directory, dataset_name=records.DATASET, split=name, filetype_suffix="tfrecord"
        )
        lengths = [shard["records"] for shard in split["shards"]]
        size = sum(shard["bytes"] for shard in split["shards"])
        infos.append(tfds_splits.SplitInfo(name, lengths, size, template))
    info.set_splits(tfds_splits.SplitDict(infos))
    info.write_to_directory(directory)


STATISTICS_SQL = """
    SELECT task, CAST(COUNT(*) AS BIGINT), CAST(SUM(query_tokens) AS BIGINT), CAST(SUM(doc_tokens) AS BIGINT),
        CAST(SUM(sequences) AS BIGINT)
    FROM records GROUP BY task ORDER BY task
"""


def write_manifest(engine: Engine, inputs: Inputs, weights_sha256: str | None, tokenizer: Tokenizer) -> None:
    """Writes TFDS's metadata, then manifest.json, the last file of the job."""
    job, c, with_links = engine.job, engine.job.config, LINKS in engine.job.needs
    splits: dict[str, SplitEntry] = {}
    files: dict[str, Any] = {row["file"]: row for row in read(job, tables.SHARD_FILES).to_pylist()}
    for row in read(job, tables.SPLITS).to_pylist():
        name = split_name(row["task"], row["split"])
        shards = [files[shard_name(name, number, row["shards"])] for number in range(row["shards"])]
        splits[name] = {"records": sum(shard["records"] for shard in shards), "shards": shards}
    losses = link_graph.losses(engine, with_links)
    if unmatched := losses.get("exclusion-of-no-page"):
        shown = ", ".join(repr(line) for line, _ in unmatched["examples"])
        say(f"exclude_destinations: {unmatched['count']} line(s) match no page, for example {shown}")
    manifest: Manifest = {
        "software": f"harp_jax {__version__}",
        "config": c,
        "config_sha256": hashlib.sha256(json.dumps(c, sort_keys=True).encode()).hexdigest(),
        "seed": c["seed"],
        "vocab_size": tokenizer.size,
        "term_weights_sha256": weights_sha256,
        # Relative to the output: valid in any working directory, and after both are moved together.
        "tokenizer": os.path.relpath(c["tokenizer"], job.output),
        "source": inputs["source"],
        "tokenizer_sha256": inputs["tokenizer_sha256"],
        "encoder_content": dict(inputs["encoder_content"]),
        "tasks": _tasks(engine, tokenizer.template),
        "splits": splits,
        "link_graph": link_graph.graph_summary(engine, with_links),
        "losses": losses,
    }
    write_tfds_metadata(job.output, splits, "Pre-training pairs from hyperlinks and anchor texts (HARP).")
    with replacing(os.path.join(job.output, records.MANIFEST)) as file:
        json.dump(manifest, file, indent=1)
        file.write("\n")


def _tasks(engine: Engine, template: Template) -> dict[str, TaskEntry]:
    """The columns of the paper's Table 1 over both sides of all pairs, and the trivial predictors' accuracies."""
    points: dict[str, dict[str, tuple[int, int]]] = {}
    sql = "SELECT task, predictor, CAST(SUM(points) AS BIGINT), CAST(SUM(n) AS BIGINT) FROM predictions GROUP BY task, predictor"
    for task, predictor, won, n in engine.query(sql):
        points.setdefault(task, {})[predictor] = (won, n)
    entries: dict[str, TaskEntry] = {}
    for task, pairs, queries, docs, sequences in engine.query(STATISTICS_SQL):
        entry: TaskEntry = {"pairs": pairs, "tokens": queries + docs}
        if task == records.TEXT_TASK:
            entries[task] = entry | {"mean_sequence_tokens": docs / sequences + template.around_text}
            continue
        scored = points.get(task, {})
        entries[task] = entry | {
            "mean_query_tokens": queries / sequences,
            "mean_doc_tokens": docs / sequences,
            "mean_sequence_tokens": (queries + docs) / sequences + template.around_pair,
            "predictors": {name: scored[name][0] / (2 * scored[name][1]) for name in NAMES if name in scored},
            "predictor_pairs": max((n for _, n in scored.values()), default=0),
        }
    return entries
