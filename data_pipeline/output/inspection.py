"""Checks every shard of a finished generation job; its statistics and examples as text."""

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress
from harp_jax.input import records
from harp_jax.input.records import AGAIN, PAIR_FEATURES, TEXT_FEATURES, Manifest, shards_of
from harp_jax.input.tfrecords import tensorflow

COLUMNS = ("tokens", "pairs", "mean_query_tokens", "mean_doc_tokens", "mean_sequence_tokens")
# The paper's Table 1: tokens = 2 × (query + document) × pairs.
TABLE_1 = {
    "rqp": {"tokens": 3_330_000_000, "pairs": 17_710_000, "mean_query_tokens": 2.64, "mean_doc_tokens": 90.48},
    "qdm": {"tokens": 220_000_000, "pairs": 1_350_000, "mean_query_tokens": 2.80, "mean_doc_tokens": 81.17},
    "rdp": {"tokens": 1_560_000_000, "pairs": 6_490_000, "mean_query_tokens": 34.90, "mean_doc_tokens": 85.86},
    "acm": {"tokens": 1_970_000_000, "pairs": 12_640_000, "mean_query_tokens": 4.55, "mean_doc_tokens": 73.64},
}
TEXTS = (*PAIR_FEATURES, *TEXT_FEATURES)


@dataclass(frozen=True)
class Inspection:
    """The manifest of a directory whose shards are intact, and decoded records by task."""

    directory: str
    manifest: Manifest
    examples: dict[str, list[dict[str, Any]]]


def inspect(directory: str, count: int = 0) -> Inspection:
    """Checks a directory and decodes `count` records of each task, if the job's tokenizer is at its path, relative to the directory
    or to here. Raises InputError for an unfinished job, for a shard that is missing, damaged or not in the manifest, and without
    TFDS's metadata."""
    tf, manifest, there = tensorflow(), records.read_manifest(directory), os.listdir(directory)
    shards = {name: shards_of(directory, split) for name, split in manifest["splits"].items()}
    every = [shard for some in shards.values() for shard in some]
    missing = {"tasks", "link_graph", "losses"} - manifest.keys()
    problems = [f"{records.MANIFEST} has no field {name}" for name in missing]
    problems += [f"{name} is missing" for name in ("dataset_info.json", "features.json") if name not in there]
    listed = {os.path.basename(shard.path) for shard in every}
    unknown = {name for name in there if name.startswith(f"{records.DATASET}-")} - listed
    problems += [f"{name} is not in the manifest" for name in unknown]
    with progress(every, unit="shards", desc="check") as bar:
        for shard in bar:
            shard.check_size()
            shard.check_content()
            if (held := sum(1 for _ in tf.data.TFRecordDataset(shard.path))) != shard.records:
                problems.append(f"{shard.path} holds {held} records, but the manifest says {shard.records}")
    if problems:
        raise InputError(f"{directory}: {min(problems)}; {AGAIN}")

    decode: Callable[[Iterable[int]], str | list[int]] = list
    with contextlib.suppress(InputError):
        decode = records.job_tokenizer(directory, manifest).decode
    examples: dict[str, list[dict[str, Any]]] = {}
    for task in manifest["tasks"]:
        names = [records.split_name(task, split) for split in records.SPLITS]
        paths = [shard.path for name in names for shard in shards.get(name, [])]
        examples[task] = []
        for raw in tf.data.TFRecordDataset(paths).take(count) if paths else ():
            features = tf.train.Example.FromString(raw.numpy()).features.feature
            texts = {name: decode(features[name].int64_list.value) for name in TEXTS if name in features}
            examples[task].append({"key": features["key"].bytes_list.value[0].decode(), **texts})
    return Inspection(directory, manifest, examples)


def as_text(inspection: Inspection) -> str:
    manifest = inspection.manifest
    tasks, graph = manifest["tasks"], manifest["link_graph"]
    lines = [f"{inspection.directory}: complete; all shards match the manifest", "", "Table 1"]
    lines.append(f"{'task':6}" + "".join(f"{name:>22}" for name in COLUMNS))
    for task, entry in tasks.items():
        lines.append(f"{task:6}" + "".join(f"{_number(entry.get(name)):>22}" for name in COLUMNS))
        if paper := TABLE_1.get(task):
            lines.append(f"{'paper':>6}" + "".join(f"{_number(paper.get(name)):>22}" for name in COLUMNS))
    lines += ["", "Trivial predictors: accuracy on n held-out pairs"]
    for task, entry in tasks.items():
        if entry.get("predictors"):
            scores = "  ".join(f"{name} {value:.3f}" for name, value in entry["predictors"].items())
            lines.append(f"{task:6}n={entry.get('predictor_pairs', 0):<8} {scores}")
    counts = ", ".join(f"{name} {split['records']:,}" for name, split in manifest["splits"].items())
    links = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in graph.items())
    lines += ["", f"Records: {counts}", "", f"Link graph: {links}", "", "Dropped, with examples"]
    for reason, loss in manifest["losses"].items():
        lines.append(f"{loss['count']:>10,}  {reason}")
        lines += [f"{'':14}{': '.join(part for part in example if part)[:160]}" for example in loss["examples"]]
    for task, examples in inspection.examples.items():
        for example in examples:
            lines += ["", f"{task}  {example['key']}"]
            lines += [f"  {name}: {str(example[name])[:300]}" for name in TEXTS if name in example]
    return "\n".join(lines)


def _number(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
