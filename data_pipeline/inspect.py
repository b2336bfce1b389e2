"""Looks at a finished generation job and checks every shard against the manifest.

python -m data_pipeline.inspect DIR [--format=json] [--examples=5]
"""

import argparse
import json
import os
from typing import Any

from data_pipeline.output.manifest import load_manifest
from data_pipeline.pairs.examples import tensorflow
from harp_jax.cli import run
from harp_jax.errors import InputError
from harp_jax.files import sha256_file
from harp_jax.input.records import DATASET, PAIR_FEATURES, TEXT_FEATURES, split_name
from harp_jax.progress import progress
from harp_jax.text.tokenizer import load_tokenizer

COLUMNS = ("tokens", "pairs", "mean_query_tokens", "mean_doc_tokens", "mean_sequence_tokens")


def check(directory: str, manifest: dict[str, Any]) -> None:
    """InputError naming the first shard whose bytes or records are not those of the manifest, or that it does not know."""
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
                raise InputError(f"shard {path} holds {records} records, the manifest says {shard['records']}")


def _check_counts(directory: str, manifest: dict[str, Any]) -> None:
    """The manifest agrees with itself and with the names in the directory."""
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


def examples(directory: str, manifest: dict[str, Any], task: str, count: int) -> list[dict[str, Any]]:
    """The first records of a task's first split, ids decoded where the job's tokenizer is still there."""
    tf = tensorflow()
    decode = _decoder(manifest)
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


def _decoder(manifest: dict[str, Any]) -> Any:
    try:
        tokenizer = load_tokenizer(manifest["config"]["tokenizer"])
    except InputError:
        return list
    return tokenizer.decode if tokenizer.sha256 == manifest["tokenizer_sha256"] else list


def report(directory: str, count: int) -> dict[str, Any]:
    """Statistics, predictors, losses and decoded examples of a directory that has been checked."""
    manifest = load_manifest(directory)
    check(directory, manifest)
    return {
        "directory": directory,
        "tasks": manifest["tasks"],
        "splits": {name: split["records"] for name, split in manifest["splits"].items()},
        "link_graph": manifest["link_graph"],
        "losses": manifest["losses"],
        "examples": {task: examples(directory, manifest, task, count) for task in manifest["tasks"]},
    }


def as_text(found: dict[str, Any]) -> str:
    """The report for people."""
    lines = [f"{found['directory']}: complete, every shard as the manifest says", "", "Table 1"]
    lines.append(f"{'task':6}" + "".join(f"{name:>22}" for name in COLUMNS))
    for task, entry in found["tasks"].items():
        lines.append(f"{task:6}" + "".join(f"{_number(entry.get(name)):>22}" for name in COLUMNS))
    lines += ["", "Trivial predictors: accuracy on held-out pairs (n of them)"]
    for task, entry in found["tasks"].items():
        if entry.get("predictors"):
            scores = "  ".join(f"{name} {value:.3f}" for name, value in entry["predictors"].items())
            lines.append(f"{task:6}n={entry['predictor_pairs']:<8} {scores}")
    lines += ["", "Records: " + ", ".join(f"{name} {n:,}" for name, n in found["splits"].items())]
    lines += ["", *_link_graph(found["link_graph"]), "", "Dropped, and where"]
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
            f"Anchor texts: {anchors['texts']:,}, {anchors['ambiguous']:,} of them lead to several pages; "
            f"mean entropy {anchors['mean_entropy_bits']:.3f} bits a link; the most ambiguous:"
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


def main(arguments: argparse.Namespace) -> None:
    found = report(arguments.directory, arguments.examples)
    print(json.dumps(found, indent=1, ensure_ascii=False) if arguments.format == "json" else as_text(found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m data_pipeline.inspect", description=__doc__)
    parser.add_argument("directory", help="output directory of a generation job")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--examples", type=int, default=5, help="decoded records of each task")
    return parser


if __name__ == "__main__":
    run(main, _parser())
