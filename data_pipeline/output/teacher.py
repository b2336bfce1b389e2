"""Adds the scores of one or more rankers to the pairs of a finished generation job, to teach and to choose negatives.

Every record gets `teacher`, a score for each of its documents, the positive first. A negative that the ranker places above the
positive is often an answer: `drop_above` leaves it out; `hardest` keeps the best-scored of the remaining negatives. Shards are
written one by one, the manifest last: a killed command resumes at the shard it was at, and writes the same bytes.
"""

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from data_pipeline.output.manifest import write_tfds_metadata
from data_pipeline.tasks.maps import serialise
from harp_jax.base.errors import InputError
from harp_jax.base.files import json_fields, read_json_as, replacing, sha256_file
from harp_jax.base.made import InputPath, InputPaths, digest, flat, once
from harp_jax.base.progress import progress
from harp_jax.input import records
from harp_jax.input.records import (
    MORE_FEATURES,
    PAIR_FEATURES,
    TEACHER,
    TEXT_TASK,
    Manifest,
    Shard,
    ShardEntry,
    SplitEntry,
)
from harp_jax.input.tfrecords import tensorflow
from harp_jax.ranking.rerank import load_scorer, predict
from harp_jax.ranking.scorers import BiEncoderScorer, Scorer
from harp_jax.text.tokenizer import Tokenizer

COSINE = 0.05  # temperature
BATCH = 16_384  # records scored together
UNFINISHED = ".teacher.json"  # in the output: what its shards are made from, and their digests
Record = dict[str, Any]


@dataclass(frozen=True)
class TeachOptions:
    """pairs: output of a generation job; models: re-rankers, or with `cosine` encoders, whose scores are averaged.

    drop_above: leave out negatives that score above the positive; hardest: keep this many negatives, the best-scored ones (0: all);
    max_length: tokens per sequence (None: the model's); temperature: divides the scores (None: 1, with `cosine` COSINE).
    """

    pairs: InputPath
    models: InputPaths
    cosine: bool = False
    drop_above: bool = False
    hardest: int = 0
    max_length: int | None = None
    temperature: float | None = None
    dtype: str = "float32"

    @property
    def divisor(self) -> float:
        """The temperature that applies."""
        return self.temperature or (COSINE if self.cosine else 1.0)


@dataclass(frozen=True)
class Taught:
    """Records written, and left out because no negative scores below the positive."""

    records: int
    left_out: int


@dataclass(frozen=True)
class Unfinished:
    """A directory's options and input digests, and its shards so far, by file name."""

    made_from: dict[str, Any]
    shards: dict[str, ShardEntry] = field(default_factory=dict)


@once
def teach(options: TeachOptions, output: str) -> Taught:
    """Writes the pairs with the mean of the models' scores to the directory `output`. An unfinished call resumes.

    Raises InputError for bad input, and for an output that was begun with other options or inputs.
    """
    scorers = [load_scorer(model, options.dtype, options.max_length, cosine=options.cosine) for model in options.models]
    return score_pairs(options, scorers, output)


def score_pairs(options: TeachOptions, scorers: Sequence[Scorer], output: str) -> Taught:
    """`teach` with scorers that are loaded already."""
    pairs = options.pairs
    manifest = records.read_manifest(pairs)
    tokenizer = records.job_tokenizer(pairs, manifest)
    path = os.path.join(output, UNFINISHED)
    begun = _begin(path, options)

    # Shard by shard: those of an earlier run are kept if they are intact.
    splits: dict[str, SplitEntry] = {name: {"records": 0, "shards": []} for name in manifest["splits"]}
    shards = [(name, shard) for name, split in manifest["splits"].items() for shard in records.shards_of(pairs, split)]
    for name, shard in progress(shards, unit="shards", desc="teach"):
        file = os.path.basename(shard.path)
        target, entry = os.path.join(output, file), begun.shards.get(file)
        if entry is None or not os.path.exists(target) or sha256_file(target) != entry["sha256"]:
            count = _write(target, shard, name.rpartition("_")[0], scorers, tokenizer, options)
            size, sha256 = os.path.getsize(target), sha256_file(target)
            begun.shards[file] = entry = {"file": file, "records": count, "bytes": size, "sha256": sha256}
            with replacing(path) as state:
                json.dump(dataclasses.asdict(begun), state)
        splits[name]["shards"].append(entry)
        splits[name]["records"] += entry["records"]

    description = "Pre-training pairs from hyperlinks and anchor texts (HARP), with a teacher's scores."
    write_tfds_metadata(output, splits, description)
    with replacing(os.path.join(output, records.MANIFEST)) as state:
        json.dump(_manifest(manifest, splits, options, output), state, indent=1)
    os.remove(path)
    before, after = (sum(split["records"] for split in each.values()) for each in (manifest["splits"], splits))
    return Taught(after, before - after)


def _begin(path: str, options: TeachOptions) -> Unfinished:
    """The state of an unfinished directory, or of a new one. InputError for other options or inputs, or files of others."""
    output = os.path.dirname(path)
    made_from = dataclasses.asdict(options) | {"pairs": "", "models": ""}  # the content counts, not the path
    contents = [digest(name).sha256 for name in (options.pairs, *options.models) if os.path.exists(name)]
    made_from = flat(made_from | {"content": contents})
    os.makedirs(output, exist_ok=True)
    if not os.path.exists(path):
        if os.listdir(output):
            raise InputError(f"{output} is not empty; use another --output")
        return Unfinished(made_from)
    begun = read_json_as(Unfinished, path, f"remove {output} and run again")
    for name in sorted({*made_from, *begun.made_from}):
        then, now = begun.made_from.get(name), made_from.get(name)
        if then != now:
            advice = "choose another --output, or remove this one"
            raise InputError(f"{output} was begun with {name}={then}, now {now}; {advice}")
    return begun


def _manifest(manifest: Manifest, splits: dict[str, SplitEntry], options: TeachOptions, output: str) -> Manifest:
    """The manifest of the pairs with these shards, and the options of the teacher."""
    settings = dataclasses.asdict(options) | {"temperature": options.divisor}
    settings["model"] = list(settings.pop("models"))
    del settings["pairs"]
    with json_fields(os.path.join(options.pairs, records.MANIFEST), records.AGAIN):
        tokenizer = os.path.relpath(os.path.join(options.pairs, manifest["tokenizer"]), output)
        tasks = manifest["tasks"]
    if options.drop_above or options.hardest:
        # The other statistics describe pairs with all their negatives.
        counts = {
            task: sum(splits[name]["records"] for name in splits if name.startswith(f"{task}_")) for task in tasks
        }
        tasks = {task: entry if task == TEXT_TASK else {"pairs": counts[task]} for task, entry in tasks.items()}
    return manifest | {"splits": splits, "teacher": settings, "tokenizer": tokenizer, "tasks": tasks}


def _write(
    path: str, shard: Shard, task: str, scorers: Sequence[Scorer], tokenizer: Tokenizer, options: TeachOptions
) -> int:
    """Writes a shard with scores and returns its records; running text is copied."""
    shard.check_content()
    tf, count = tensorflow(), 0
    with replacing(path, "wb") as file, tf.io.TFRecordWriter(file.name) as writer:
        for batch in tf.data.TFRecordDataset(shard.path).batch(BATCH):
            examples = batch.numpy().tolist()
            if task != TEXT_TASK:
                scored = _scored([_parse(example) for example in examples], scorers, tokenizer, options)
                examples = [_serialised(task, record) for record in scored]
            for example in examples:
                writer.write(example)
            count += len(examples)
    return count


def _parse(example: bytes) -> Record:
    features = tensorflow().train.Example.FromString(example).features.feature
    record: Record = {name: features[name].bytes_list.value[0].decode() for name in ("key", "page")}
    lists = {name: np.array(features[name].int64_list.value, np.int64) for name in (*PAIR_FEATURES, *MORE_FEATURES)}
    more, lengths = (lists.pop(name) for name in MORE_FEATURES)
    return record | lists | {"more_docs": records.parts(more, lengths)}


def _serialised(task: str, record: Record) -> bytes:
    more, lengths = MORE_FEATURES
    features = {name: record[name] for name in (*PAIR_FEATURES, TEACHER)}
    features[more] = [token for each in record[more] for token in each]
    features[lengths] = [len(each) for each in record[more]]
    return serialise(task, record["key"], record["page"], features)


def _scored(
    pairs: list[Record], scorers: Sequence[Scorer], tokenizer: Tokenizer, options: TeachOptions
) -> list[Record]:
    """The records with their scores, without the negatives that the options leave out, and those without a negative."""
    texts: list[tuple[str, str]] = []
    for record in pairs:
        query, document = record["pos_query"], record["pos_doc"]
        other = record["neg_query"] if len(record["neg_query"]) else query
        sides = [(query, document), (other, record["neg_doc"] if len(record["neg_doc"]) else document)]
        sides += [(query, each) for each in record["more_docs"]]
        texts += [(tokenizer.decode(one.tolist()), tokenizer.decode(two.tolist())) for one, two in sides]
    for scorer in scorers:
        if isinstance(scorer, BiEncoderScorer):
            scorer.forget()  # the last bits of a vector depend on its batch: after a restart, on other texts than before
    scores = iter(np.mean([predict(scorer, texts) for scorer in scorers], axis=0).tolist())
    scored = []
    for record in pairs:
        positive, *negatives = (next(scores) for _ in range(2 + len(record["more_docs"])))
        if indices := chosen(positive, negatives, options.drop_above, options.hardest):
            documents = [record["neg_doc"], *record["more_docs"]]
            first, *more = (documents[index] for index in indices)
            teacher = [score / options.divisor for score in (positive, *(negatives[index] for index in indices))]
            scored.append(record | {"neg_doc": first, "more_docs": more, TEACHER: teacher})
    return scored


def chosen(positive: float, negatives: list[float], drop_above: bool, hardest: int) -> list[int]:
    """Indices of the negatives that are kept, in their order, or with `hardest` the best-scored ones first."""
    indices = [index for index, score in enumerate(negatives) if not drop_above or score < positive]
    return sorted(indices, key=lambda index: -negatives[index])[:hardest] if hardest else indices
