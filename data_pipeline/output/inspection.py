"""Checks every shard of a finished generation job; its statistics and examples as text."""

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from data_pipeline.tasks.table import TABLE_1
from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress
from harp_jax.input import records
from harp_jax.input.records import AGAIN, PAIR_FEATURES, TEXT_FEATURES, Manifest, shards_of
from harp_jax.input.tfrecords import tensorflow

COLUMNS = ("tokens", "pairs", "mean_query_tokens", "mean_doc_tokens", "mean_sequence_tokens")
TEXTS = (*PAIR_FEATURES, *TEXT_FEATURES)


@dataclass(frozen=True)
class Inspection:
    """The manifest of a directory whose shards are intact, and decoded records by task."""

    directory: str
    manifest: Manifest
    examples: dict[str, list[dict[str, Any]]]


def inspect(directory: str, count: int = 0) -> Inspection:
    """Checks a directory and decodes `count` records of each task. Raises InputError for an unfinished or damaged one."""
    manifest = records.read_manifest(directory)
    if missing := {"tasks", "link_graph", "losses"} - manifest.keys():
        raise InputError(f"{os.path.join(directory, records.MANIFEST)} has no field {min(missing)}; {AGAIN}")
    check(directory, manifest)
    shown = {task: examples(directory, manifest, task, count) for task in manifest["tasks"]}
    return Inspection(directory, manifest, shown)


def check(directory: str, manifest: Manifest) -> None:
    """Raises InputError for a shard that is missing, damaged or not in the manifest, and without TFDS's metadata."""
    tf, there = tensorflow(), os.listdir(directory)
    shards = [shard for split in manifest["splits"].values() for shard in shards_of(directory, split)]
    unknown = {name for name in there if name.startswith(f"{records.DATASET}-")} - {
        os.path.basename(s.path) for s in shards
    }
    problems = [f"{name} is not in the manifest" for name in unknown]
    problems += [f"{name} is missing" for name in ("dataset_info.json", "features.json") if name not in there]
    with progress(shards, unit="shards", desc="check") as bar:
        for shard in bar:
            shard.check_size()
            shard.check_content()
            if (count := sum(1 for _ in tf.data.TFRecordDataset(shard.path))) != shard.records:
                problems.append(f"{shard.path} holds {count} records, but the manifest says {shard.records}")
    if problems:
        raise InputError(f"{directory}: {min(problems)}; {AGAIN}")


def examples(directory: str, manifest: Manifest, task: str, count: int) -> list[dict[str, Any]]:
    """The first records of a task; ids are decoded if the job's tokenizer is at its path, relative to the directory or to here."""
    tf = tensorflow()
    decode: Callable[[Iterable[int]], str | list[int]] = list
    with contextlib.suppress(InputError):
        decode = records.job_tokenizer(directory, manifest).decode
    splits = (manifest["splits"].get(records.split_name(task, split)) for split in records.SPLITS)
    paths = [shard.path for split in splits if split for shard in shards_of(directory, split)]
    decoded: list[dict[str, Any]] = []
    for raw in tf.data.TFRecordDataset(paths).take(count) if paths else ():
        features = tf.train.Example.FromString(raw.numpy()).features.feature
        named = {name: features[name].bytes_list.value[0].decode() for name in ("key", "page")}
        decoded.append(named | {name: decode(features[name].int64_list.value) for name in TEXTS if name in features})
    return decoded


def as_text(inspection: Inspection) -> str:
    """The inspection as text."""
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
    for task, entry in tasks.items():
        if (share := entry.get("negatives_share_word")) is not None:
            lines += ["", f"{task}: {share:.0%} of the negatives share a content word with the anchor"]
    counts = ", ".join(f"{name} {split['records']:,}" for name, split in manifest["splits"].items())
    links = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in graph.items())
    lines += ["", f"Records: {counts}", "", f"Link graph: {links}", "", "Dropped, with examples"]
    for reason, loss in manifest["losses"].items():
        lines.append(f"{loss['count']:>10,}  {reason}")
        lines += [f"{'':14}{': '.join(part for part in example if part)[:160]}" for example in loss["examples"]]
    for task, some in inspection.examples.items():
        for example in some:
            lines += ["", f"{task}  {example['key']}"]
            lines += [f"  {name}: {str(example[name])[:300]}" for name in TEXTS if name in example]
    return "\n".join(lines)


def _number(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
