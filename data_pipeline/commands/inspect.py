"""Check every shard of a finished generation job; print its statistics and examples: `harp inspect`."""

import argparse
import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from data_pipeline.output.manifest import Manifest
from data_pipeline.tasks.table import TABLE_1
from harp_jax.base.cli import Parser, count
from harp_jax.base.errors import InputError
from harp_jax.base.files import json_fields
from harp_jax.base.progress import progress
from harp_jax.input.records import (
    AGAIN,
    DATASET,
    MANIFEST,
    PAIR_FEATURES,
    TEXT_FEATURES,
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
        for shard in manifest["splits"].get(split_name(task, split), {}).get("shards", []):
            if len(found) == count:
                return found
            for raw in tf.data.TFRecordDataset(os.path.join(directory, shard["file"])).take(count - len(found)):
                features = tf.train.Example.FromString(raw.numpy()).features.feature
                texts = {name: features[name].bytes_list.value[0].decode() for name in ("key", "page")}
                names = [name for name in (*PAIR_FEATURES, *TEXT_FEATURES) if name in features]
                found.append(texts | {name: decode(features[name].int64_list.value) for name in names})
    return found


def report(directory: str, count: int) -> dict[str, Any]:
    """Checks a directory; returns its statistics, predictors, counts of dropped items, and `count` decoded records per task.

    Raises InputError for an unfinished or damaged directory.
    """
    manifest = read_manifest(directory)
    check(directory, manifest)
    with json_fields(os.path.join(directory, MANIFEST), AGAIN):
        found = {name: manifest[name] for name in ("tasks", "bits_from_uniform", "splits", "link_graph", "losses")}
    found["splits"] = {name: split["records"] for name, split in manifest["splits"].items()}
    shown = {task: examples(directory, manifest, task, count) for task in manifest["tasks"]}
    return {"directory": directory, **found, "examples": shown}


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


def as_text(found: dict[str, Any]) -> str:
    """The report as text."""
    lines = [f"{found['directory']}: complete; all shards match the manifest", "", "Table 1"]
    lines.append(f"{'task':6}" + "".join(f"{name:>22}" for name in COLUMNS))
    for task, entry in found["tasks"].items():
        lines.append(f"{task:6}" + "".join(f"{_number(entry.get(name)):>22}" for name in COLUMNS))
        if paper := TABLE_1.get(task):
            lines.append(f"{'paper':>6}" + "".join(f"{_number(paper.get(name)):>22}" for name in COLUMNS))
    lines += ["", "Trivial predictors: accuracy on n held-out pairs"]
    for task, entry in found["tasks"].items():
        if entry.get("predictors"):
            scores = "  ".join(f"{name} {value:.3f}" for name, value in entry["predictors"].items())
            lines.append(f"{task:6}n={entry['predictor_pairs']:<8} {scores}")
    for task, entry in found["tasks"].items():
        if (share := entry.get("negatives_share_word")) is not None:
            lines += ["", f"{task}: {share:.0%} of the negatives share a content word with the anchor"]
    if bits := found["bits_from_uniform"]:
        shown = ", ".join(f"{value:.4f} ({source}s)" for source, value in bits.items())
        lines += ["", f"Sampling of words, bits from uniform: {shown}; near 0, the term weights have no effect"]
    lines += ["", "Records: " + ", ".join(f"{name} {n:,}" for name, n in found["splits"].items())]
    lines += ["", *_link_graph(found["link_graph"]), "", "Dropped, with examples"]
    for reason, entry in found["losses"].items():
        lines.append(f"{entry['count']:>10,}  {reason}")
        lines += [f"{'':14}{': '.join(part for part in example if part)[:160]}" for example in entry["examples"]]
    for task, some in found["examples"].items():
        for example in some:
            lines += ["", f"{task}  {example['key']}"]
            lines += [
                f"  {name}: {str(example[name])[:300]}" for name in (*PAIR_FEATURES, *TEXT_FEATURES) if name in example
            ]
    return "\n".join(lines)


def _link_graph(graph: dict[str, Any]) -> list[str]:
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


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp inspect",
        description="Check every shard of a finished generation job against its manifest; print statistics and examples.",
        example="harp inspect pairs --examples=2",
    )
    parser.add_argument("directory", help="output directory of a generation job")
    parser.add_argument("--examples", type=count, default=5, help="decoded records to print per task (5)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    print(as_text(report(arguments.directory, arguments.examples)))
