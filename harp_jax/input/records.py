"""The files that a generation job writes and training reads: records in shards, and the manifest that lists the shards.

Token ids are those of the tokenizer named in the manifest, without special tokens and unmasked: packing adds the special tokens,
the training step masks. A text that both sides of a pair share is stored once. The feature names are defined only here.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Required, TypedDict

import numpy as np

from harp_jax.base import bucket
from harp_jax.base.errors import InputError
from harp_jax.base.files import sha256_file, typed
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

DATASET = "harp"
TEXT_TASK = "mlm"  # the name under which running text is stored; every other task has pairs
SPLITS = ("train", "validation")

SOURCE = "page"  # the page that a record comes from
BYTES_FEATURES = ("task", "key", SOURCE)
PAIR_FEATURES = ("pos_query", "pos_doc", "neg_query", "neg_doc")
MORE_FEATURES = ("more_docs", "more_lengths")  # further negative documents, concatenated, and their lengths
TEACHER = "teacher"  # float32 scores of the positive and of each negative (`harp teach`)
TEXT_FEATURES = ("text",)

MANIFEST = "manifest.json"
AGAIN = "copy the directory again, or generate the data again in an empty one"


@dataclass(frozen=True)
class TextRecord:
    """Running text for masked language modelling."""

    key: str
    page: str
    text: Sequence[int]


def parts(flat: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Arrays of these lengths, stored one after another."""
    return np.split(flat, np.cumsum(lengths)[:-1]) if len(lengths) else []


def split_name(task: str, split: str) -> str:
    """The TFDS split of a task's records: `rqp_train`, `mlm_validation`."""
    return f"{task}_{split}"


@dataclass(frozen=True)
class Shard:
    """A TFRecord file as the manifest lists it. `path` may be in a bucket."""

    path: str
    records: int
    bytes: int
    sha256: str

    def check_size(self) -> None:
        """Raises InputError for a local file that is missing or has another size; shards in buckets are not checked."""
        if not bucket.is_bucket(self.path):
            self._check("bytes", os.path.getsize(self.path) if os.path.exists(self.path) else "no file", self.bytes)

    def check_content(self) -> None:
        """Raises InputError unless the file has the sha256 of the manifest: it may have been swapped or changed."""
        with self.checked():
            pass

    @contextlib.contextmanager
    def checked(self, content: bool = True) -> Iterator[str]:
        """A local path of the shard (a temporary copy if it is in a bucket), first compared with the manifest if `content`."""
        with contextlib.ExitStack() as copies:
            path = self.path
            if bucket.is_bucket(path):
                copy = copies.enter_context(tempfile.NamedTemporaryFile(prefix="harp_jax_shard_"))
                copy.write(bucket.read(path))
                copy.flush()
                path = copy.name
            if content:
                self._check("sha256", sha256_file(path), self.sha256)
            yield path

    def _check(self, what: str, actual: int | str, listed: int | str) -> None:
        if actual != listed:
            raise InputError(
                f"shard {self.path} is missing or damaged: {what} {actual}, but {MANIFEST} lists {listed}; {AGAIN}"
            )


class ShardEntry(TypedDict):
    file: str
    records: int
    bytes: int
    sha256: str


class SplitEntry(TypedDict):
    records: int
    shards: list[ShardEntry]


class TaskEntry(TypedDict, total=False):
    """A row of the paper's Table 1; the accuracies of trivial predictors on held-out pairs."""

    pairs: Required[int]
    tokens: int
    mean_query_tokens: float
    mean_doc_tokens: float
    mean_sequence_tokens: float
    predictors: dict[str, float]
    predictor_pairs: int


class LinkGraph(TypedDict, total=False):
    pages: int
    destinations: int
    disambiguation_pages: int
    redirects: int
    links: int
    links_kept: int
    anchor_texts: int
    ambiguous_anchor_texts: int  # with several destinations


class Loss(TypedDict):
    """What was dropped for one reason; examples are (location, text)."""

    count: int
    examples: list[list[str]]


class Manifest(TypedDict, total=False):
    """The content of manifest.json. Training needs only the required fields; `tokenizer` is relative to the directory."""

    splits: Required[dict[str, SplitEntry]]
    tokenizer_sha256: Required[str]
    tokenizer: str
    vocab_size: int
    config: dict[str, Any]
    config_sha256: str
    seed: int
    software: str
    source: list[dict[str, Any]]
    encoder_content: dict[str, Any]
    term_weights_sha256: str | None
    tasks: dict[str, TaskEntry]
    link_graph: LinkGraph
    losses: dict[str, Loss]
    teacher: dict[str, Any]  # the options of `harp teach`


def read_manifest(directory: str) -> Manifest:
    """The manifest of a finished generation job, in a local directory or a bucket. Raises InputError if the job has not finished,
    or if the file is damaged: a field has the wrong type, or a split lists files that are not its shards."""
    path = os.path.join(directory, MANIFEST)
    try:
        text = bucket.read(path) if bucket.is_bucket(path) else Path(path).read_bytes()
        manifest: Manifest = typed(json.loads(text.decode()), Manifest, "it")
        typed(manifest.get("config", {}).get("tokenizer", ""), str, "config.tokenizer")
        for name, split in manifest["splits"].items():
            shards = split["shards"]
            for number, shard in enumerate(shards):
                if shard["file"] != shard_name(name, number, len(shards)):
                    raise ValueError(f"{shard['file'][:80]!r} is not shard {number} of the {len(shards)} of {name}")
            if min((shard[size] for shard in shards for size in ("records", "bytes")), default=0) < 0:
                raise ValueError(f"{name} has a shard of a negative size")
    except FileNotFoundError as error:
        there = bucket.is_bucket(directory) or os.path.exists(directory)
        raise InputError(
            f"{directory} has no {MANIFEST}, so it is not the output of a finished harp generate; run it again"
            if there
            else f"no folder {directory}; name the --output of harp generate"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not the manifest of a generation job ({error}); {AGAIN}") from error
    return manifest


def shard_name(split: str, shard: int, shards: int) -> str:
    """The file name of a shard, as TFDS expects it."""
    return f"{DATASET}-{split}.tfrecord-{shard:05d}-of-{shards:05d}"


def shards_of(directory: str, split: SplitEntry) -> list[Shard]:
    """The shards of a split, which is an entry of the manifest's `splits`."""
    return [
        Shard(os.path.join(directory, shard["file"]), shard["records"], shard["bytes"], shard["sha256"])
        for shard in split["shards"]
    ]


def check_sizes(directory: str, manifest: Manifest) -> None:
    """Raises InputError for the first shard of a manifest that is missing or has another size."""
    for split in manifest["splits"].values():
        for shard in shards_of(directory, split):
            shard.check_size()


def job_tokenizer(directory: str, manifest: Manifest, named: str = "") -> Tokenizer:
    """The tokenizer of a generation job: `named`, or the manifest's, relative to the directory or to the working directory.
    InputError unless it is the one that the data were made with."""
    relative, recorded = manifest.get("tokenizer", ""), manifest.get("config", {}).get("tokenizer", "")
    for path in [named] if named else [os.path.join(directory, relative), recorded]:
        with contextlib.suppress(InputError):
            tokenizer = load_tokenizer(path)
            if tokenizer.sha256 == manifest["tokenizer_sha256"]:
                return tokenizer
    raise InputError(f"{named or recorded or directory} is not the tokenizer of {directory}; name it with --tokenizer")
