"""The generation job up to the link graph or as a process, and a job's outputs: tables, records, hashes of the shards."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from data_pipeline.config import validated_dict
from data_pipeline.engine import tables
from data_pipeline.engine.job import Job
from data_pipeline.engine.local import LocalEngine
from data_pipeline.engine.store import bucket_parts, read
from data_pipeline.links import link_graph
from data_pipeline.links.web_sites import parse_documents
from harp_jax.input import records as names
from tests.support import ROOT

LISTS = (*names.PAIR_FEATURES, *names.MORE_FEATURES, *names.TEXT_FEATURES)


def linked_documents(c, output, engine_class=LocalEngine) -> dict[str, dict]:
    """Runs the job up to the link graph, without TensorFlow and shards; returns documents by id."""
    job = Job(validated_dict(c), str(output / ".work"), str(output))
    engine = engine_class(job, c.workers, c.memory_limit)
    try:
        parse_documents(engine)
        engine.map("links", link_graph.extract_links, bucket_parts(job, tables.DOCUMENTS))
        link_graph.build(engine)
    finally:
        engine.close()
    return {row["id"]: row for row in table(output, tables.DOCUMENTS)}


def start(config: Path, output: Path, *flags: str, **options: Any) -> subprocess.Popen:
    """Starts the command as a process; `options` are those of Popen."""
    words = [sys.executable, "-m", "data_pipeline.main", f"--config={config}", f"--output={output}", *flags]
    # In jobs of a minute on two cores, Java's second compiler does not pay off.
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    return subprocess.Popen(words, cwd=ROOT, env=environment, **{"stderr": subprocess.DEVNULL} | options)


def hashes(directory: Path, pattern: str = "harp-*") -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.glob(pattern))}


def table(output: Path, which: tables.Table) -> list[dict]:
    return read(Job({}, str(output / ".work"), weights=str(output / "term_weights")), which).to_pylist()


def records(output: Path, *splits: str) -> list[dict]:
    """The records of some splits, by default all, with the features that TFDS returns, but much faster."""
    import tensorflow as tf

    entries, rows = names.read_manifest(str(output))["splits"], []
    paths = [shard.path for split in splits or entries for shard in names.shards_of(str(output), entries[split])]
    for raw in tf.data.TFRecordDataset(paths):
        feature = tf.train.Example.FromString(raw.numpy()).features.feature
        row = {name: feature[name].bytes_list.value[0] for name in names.BYTES_FEATURES}
        row |= {name: np.array(feature[name].int64_list.value, np.int64) for name in LISTS}
        rows.append(row | {names.TEACHER: np.array(feature[names.TEACHER].float_list.value, np.float32)})
    return rows
