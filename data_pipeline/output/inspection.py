"""Checks every shard of a finished generation job; its statistics and examples as text."""

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from data_pipeline.tasks.table import TABLE_1
from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress
from harp_jax.input.records import (
    AGAIN,
    DATASET,
    MANIFEST,
    PAIR_FEATURES,
    TEXT_FEATURES,
    LinkGraph,
    Manifest,
    job_tokenizer,
    read_manifest,
    shards_of,
    split_name,
)
from harp_jax.input.tfrecords import tensorflow

COLUMNS = ("tokens", "pairs", "mean_query_tokens", "mean_doc_tokens", "mean_sequence_tokens")


def examples(directory: str, manifest: Manifest, task: str, count: int) -> list[dict[str, Any]]:
    """The first records of a task; ids are decoded if the job's tokenizer is at its path, relative to the directory or to here."""
    tf = tensorflow()
    decode: Callable[[Iterable[int]], str | list[int]] = list
    with contextlib.suppress(InputError):
        decode = job_tokenizer(directory, manifest).decode
    found: list[dict[str, Any]] = []
    for split in ("train", "validation"):
        held = manifest["splits"].get(split_name(task, split))
        for shard in shards_of(directory, held) if held else []:
            if len(found) == count:
                return found
            for raw in tf.data.TFRecordDataset(shard.path).take(count - len(found)):
                features = tf.train.Example.FromString(raw.numpy()).features.feature
                texts = {name: features[name].bytes_list.value[0].decode() for name in ("key", "page")}
                names = [name for name in (*PAIR_FEATURES, *TEXT_FEATURES) if name in features]
                found.append(texts | {name: decode(features[name].int64_list.value) for name in names})
    return found


@dataclass(frozen=True)
class Inspection:
    """The manifest of a directory whose shards are intact, and decoded records by task."""

    directory: str
    manifest: Manifest
    examples: dict[str, list[dict[str, Any]]]


def inspect(directory: str, count: int = 0) -> Inspection:
    """Checks a directory and decodes `count` records of each task. Raises InputError for an unfinished or damaged one."""
    manifest = read_manifest(directory)
    if missing := {"tasks", "bits_from_uniform", "link_graph", "losses"} - manifest.keys():
        raise InputError(f"{os.path.join(directory, MANIFEST)} has no field {min(missing)}; {AGAIN}")
    check(directory, manifest)
    shown = {task: examples(directory, manifest, task, count) for task in manifest["tasks"]}
    return Inspection(directory, manifest, shown)


def check(directory: str, manifest: Manifest) -> None:
    """Raises InputError for a shard that is missing, damaged or not in the manifest, and without TFDS's metadata."""
    tf, there = tensorflow(), os.listdir(directory)
    shards = [shard for split in manifest["splits"].values() for shard in shards_of(directory, split)]
    known = {os.path.basename(shard.path) for shard in shards}
    problems = [
        f"{name} is not in the manifest" for name in there if name.startswith(f"{DATASET}-") and name not in known
    ]
    problems += [f"{name} is missing" for name in ("dataset_info.json", "features.json") if name not in there]
    with progress(shards, unit="shards", desc="check") as bar:
        for shard in bar:
            shard.check_size()
            shard.check_content()
            if (records := sum(1 for _ in tf.data.TFRecordDataset(shard.path))) != shard.records:
                problems.append(f"{shard.path} holds {records} records, but the manifest says {shard.records}")
    if problems:
        raise InputError(f"{directory}: {min(problems)}; {AGAIN}")


def as_text(inspection: Inspection) -> str:
    """The inspection as text."""
    found = inspection.manifest
    lines = [f"{inspection.directory}: complete; all shards match the manifest", "", "Table 1"]
    lines.append(f"{'task':6}" + "".join(f"{name:>22}" for name in COLUMNS))
    for task, entry in found["tasks"].items():
        lines.append(f"{task:6}" + "".join(f"{_number(entry.get(name)):>22}" for name in COLUMNS))
        if paper := TABLE_1.get(task):
            lines.append(f"{'paper':>6}" + "".join(f"{_number(paper.get(name)):>22}" for name in COLUMNS))
    lines += ["", "Trivial predictors: accuracy on n held-out pairs"]
    for task, entry in found["tasks"].items():
        if entry.get("predictors"):
            scores = "  ".join(f"{name} {value:.3f}" for name, value in entry["predictors"].items())
            lines.append(f"{task:6}n={entry.get('predictor_pairs', 0):<8} {scores}")
    for task, entry in found["tasks"].items():
        if (share := entry.get("negatives_share_word")) is not None:
            lines += ["", f"{task}: {share:.0%} of the negatives share a content word with the anchor"]
    if bits := found["bits_from_uniform"]:
        shown = ", ".join(f"{value:.4f} ({source}s)" for source, value in bits.items())
        lines += ["", f"Sampling of words, bits from uniform: {shown}; near 0, the term weights have no effect"]
    lines += ["", "Records: " + ", ".join(f"{name} {split['records']:,}" for name, split in found["splits"].items())]
    lines += ["", *_link_graph(found["link_graph"]), "", "Dropped, with examples"]
    for reason, loss in found["losses"].items():
        lines.append(f"{loss['count']:>10,}  {reason}")
        lines += [f"{'':14}{': '.join(part for part in example if part)[:160]}" for example in loss["examples"]]
    for task, some in inspection.examples.items():
        for example in some:
            lines += ["", f"{task}  {example['key']}"]
            lines += [
                f"  {name}: {str(example[name])[:300]}" for name in (*PAIR_FEATURES, *TEXT_FEATURES) if name in example
            ]
    return "\n".join(lines)


def _link_graph(graph: LinkGraph) -> list[str]:
    counts = {name: value for name, value in graph.items() if isinstance(value, int)}
    lines = ["Link graph: " + ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in counts.items())]
    if "anchors" in graph:
        anchors = graph["anchors"]
        lines.append(
            f"Anchor texts: {anchors['texts']:,}, {anchors['ambiguous']:,} of them with several destinations; "
            f"mean entropy {anchors['mean_entropy_bits']:.3f} bits per link; most ambiguous:"
        )
        lines += [
            f"  {row['anchor'][:60]!r}: {row['n']:,} links, {row['destinations']:,} pages, {row['entropy']:.2f} bits"
            for row in anchors["most_ambiguous"]
        ]
    return lines


def _number(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
