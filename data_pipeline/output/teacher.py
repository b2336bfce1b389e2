"""Adds the scores of one or more rankers to the pairs of a finished generation job, to teach and to choose negatives.

Every record gets `teacher`, a score for each of its documents, the positive first. A negative that the ranker places above the
positive is often an answer: `drop_above` leaves it out; `hardest` keeps the best-scored of the remaining negatives. Shards are
written one by one, the manifest last: a killed command resumes at the shard it was at, and writes the same bytes.
"""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypedDict

import numpy as np

from data_pipeline.output.claim import check_same
from data_pipeline.output.manifest import write_examples, write_tfds_metadata
from data_pipeline.tasks.maps import serialise
from harp_jax.base.errors import InputError
from harp_jax.base.files import json_fields, read_json_as, replacing, sha256_file
from harp_jax.base.made import InputPath, InputPaths, digest, flat, once
from harp_jax.base.progress import progress
from harp_jax.input import records
from harp_jax.input.records import MORE_FEATURES, PAIR_FEATURES, Manifest, ShardEntry, SplitEntry
from harp_jax.input.tfrecords import tensorflow
from harp_jax.ranking.rerank import load_scorer, predict
from harp_jax.ranking.scorers import BiEncoderScorer, Scorer
from harp_jax.text.tokenizer import Tokenizer

COSINE = 0.05  # temperature
BATCH = 16_384  # records scored together
UNFINISHED = ".teacher.json"  # in the output


@dataclass(frozen=True)
class TeachOptions:
    """pairs: output of a generation job; models: re-rankers, or with `cosine` encoders, whose scores are averaged. drop_above:
    leave out negatives that score above the positive; hardest: keep this many negatives, the best-scored ones (0: all); max_length:
    tokens per sequence (None: the model's); temperature: divides the scores (None: 1, with `cosine` COSINE)."""

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


class Unfinished(TypedDict):
    """The content of UNFINISHED: options and input digests, and the shards so far, by file name."""

    made_from: dict[str, Any]
    shards: dict[str, ShardEntry]


@once
def teach(options: TeachOptions, output: str) -> Taught:
    """Writes the pairs with the mean of the models' scores to the directory `output`. An unfinished call resumes. Raises InputError
    for bad input, and for an output that was begun with other options or inputs."""
    scorers = [load_scorer(model, options.dtype, options.max_length, cosine=options.cosine) for model in options.models]
    return score_pairs(options, scorers, output)


def score_pairs(options: TeachOptions, scorers: Sequence[Scorer], output: str) -> Taught:
    """`teach` with scorers that are loaded already."""
    manifest = records.read_manifest(options.pairs)
    tokenizer = records.job_tokenizer(options.pairs, manifest)

    # What an earlier call has begun here. The content of inputs counts, not the path.
    path = os.path.join(output, UNFINISHED)
    contents = [digest(name).sha256 for name in (options.pairs, *options.models) if os.path.exists(name)]
    made_from = flat(dataclasses.asdict(options) | {"pairs": "", "models": "", "content": contents})
    begun: Unfinished = {"made_from": made_from, "shards": {}}
    os.makedirs(output, exist_ok=True)
    if os.path.exists(path):
        begun = read_json_as(Unfinished, path, f"remove {output} and run again")
        check_same(begun["made_from"], made_from, output)
    elif os.listdir(output):
        raise InputError(f"{output} is not empty; use another --output")

    # Shard by shard: those of an earlier call are kept if they are intact.
    splits: dict[str, SplitEntry] = {name: {"records": 0, "shards": []} for name in manifest["splits"]}
    listed = manifest["splits"].items()
    shards = [(name, shard) for name, split in listed for shard in records.shards_of(options.pairs, split)]
    for name, shard in progress(shards, unit="shards", desc="teach"):
        file = os.path.basename(shard.path)
        target, entry = os.path.join(output, file), begun["shards"].get(file)
        if entry is None or not os.path.exists(target) or sha256_file(target) != entry["sha256"]:
            shard.check_content()
            task, batches = name.rpartition("_")[0], tensorflow().data.TFRecordDataset(shard.path).batch(BATCH)
            examples = (batch.numpy().tolist() for batch in batches)
            if task != records.TEXT_TASK:  # running text is copied
                examples = (_scored(task, batch, scorers, tokenizer, options) for batch in examples)
            begun["shards"][file] = entry = write_examples(target, chain.from_iterable(examples))
            with replacing(path) as state:
                json.dump(begun, state)
        splits[name]["shards"].append(entry)
        splits[name]["records"] += entry["records"]

    description = "Pre-training pairs from hyperlinks and anchor texts (HARP), with a teacher's scores."
    write_tfds_metadata(output, splits, description)
    with replacing(os.path.join(output, records.MANIFEST)) as state:
        json.dump(_manifest(manifest, splits, options, output), state, indent=1)
    os.remove(path)
    before, after = (sum(split["records"] for split in each.values()) for each in (manifest["splits"], splits))
    return Taught(after, before - after)


def _scored(
    task: str, examples: list[bytes], scorers: Sequence[Scorer], tokenizer: Tokenizer, options: TeachOptions
) -> Iterator[bytes]:
    """The records with their scores, without the negatives that the options leave out, and those without a negative."""
    # All documents of all records with their queries: the positive of a record first.
    parsed, texts = [], list[tuple[str, str]]()
    for example in examples:
        features = tensorflow().train.Example.FromString(example).features.feature
        key, page = (features[name].bytes_list.value[0].decode() for name in ("key", records.SOURCE))
        lists = (np.array(features[name].int64_list.value, np.int64) for name in (*PAIR_FEATURES, *MORE_FEATURES))
        query, document, other, negative, more, lengths = lists
        negatives = [negative, *records.parts(more, lengths)]
        pairs = [(query, document), (other if len(other) else query, negative if len(negative) else document)]
        pairs += [(query, each) for each in negatives[1:]]
        texts += [(tokenizer.decode(one.tolist()), tokenizer.decode(two.tolist())) for one, two in pairs]
        parsed.append((key, page, (query, document, other), negatives))
    for scorer in scorers:
        if isinstance(scorer, BiEncoderScorer):
            scorer.forget()  # the last bits of a vector depend on its batch: after a restart, on other texts than before
    scores = iter(np.mean([predict(scorer, texts) for scorer in scorers], axis=0).tolist())
    for key, page, shared, negatives in parsed:
        positive, *others = (next(scores) for _ in range(1 + len(negatives)))
        if indices := chosen(positive, others, options.drop_above, options.hardest):
            first, *rest = (negatives[index] for index in indices)
            teacher = [score / options.divisor for score in (positive, *(others[index] for index in indices))]
            stored = zip(MORE_FEATURES, (list(chain(*rest)), list(map(len, rest))))
            named: dict[str, Any] = (
                dict(zip(PAIR_FEATURES, (*shared, first))) | {records.TEACHER: teacher} | dict(stored)
            )
            yield serialise(task, key, page, named)


def chosen(positive: float, negatives: list[float], drop_above: bool, hardest: int) -> list[int]:
    """Indices of the negatives that are kept, in their order, or with `hardest` the best-scored ones first."""
    indices = [index for index, score in enumerate(negatives) if not drop_above or score < positive]
    return sorted(indices, key=lambda index: -negatives[index])[:hardest] if hardest else indices


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
        counts = Counter[str]()
        for name, split in splits.items():
            counts[name.rpartition("_")[0]] += split["records"]
        tasks = {task: entry if task == records.TEXT_TASK else {"pairs": counts[task]} for task, entry in tasks.items()}
    return manifest | {"splits": splits, "teacher": settings, "tokenizer": tokenizer, "tasks": tasks}
