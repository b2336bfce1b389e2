"""TFRecord shards to groups of sequences: the reader of pre-training.

TensorFlow is imported only here, for data_pipeline too. The order within an epoch is a pure function of (seed, task, epoch):
the shards are permuted, and each shard's records are permuted in memory. For a task with few shards every lane reads a slice
of each shard; for a task with many, whole shards, so that hosts read different files.
"""

import functools
import importlib.util
import itertools
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.base.randomness import generator
from harp_jax.input.contrastive_groups import SeparateTexts
from harp_jax.input.packing import Group, pair_sequences, text_sequences
from harp_jax.input.records import (
    AGAIN,
    MORE_FEATURES,
    PAIR_FEATURES,
    SOURCE,
    TEACHER,
    TEXT_FEATURES,
    TEXT_TASK,
    Shard,
    parts,
    read_manifest,
    shards_of,
    split_name,
)
from harp_jax.text.tokenizer import Template

# TensorFlow logs on import, and again if oneDNN is on; it only reads records here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

# With at least this many shards per lane, lanes read whole shards: their epochs then differ in length by at most a quarter.
WHOLE_SHARDS = 4

CACHE_BYTES = 1 << 30  # maximum size of the cached shards; those that the lanes are reading stay in any case


def find_shards(directory: str, task: str, split: str) -> list[Shard]:
    """The shards of a task's split. InputError for a split that the job lacks, and a shard that is missing or of another size."""
    splits, name = read_manifest(directory)["splits"], split_name(task, split)
    if name not in splits:
        raise InputError(
            f"{directory} has no split {name!r}, only {', '.join(sorted(splits))}; change `tasks`, or generate it"
        )
    shards = shards_of(directory, splits[name])
    for shard in shards:
        shard.check_size()
    return shards


@dataclass(eq=False)
class RecordReader:
    """Groups from the shards of several directories, a `packing.Reader`. Raises InputError for missing splits or no records."""

    directories: tuple[str, ...]
    tasks: tuple[str, ...]
    split: str
    lanes: int
    length: int
    mask_side: str
    seed: int
    template: Template
    negatives: int = 1
    taught: bool = False  # with the scores of a teacher
    separate: SeparateTexts | None = None  # queries and pages as sequences of their own

    def __post_init__(self) -> None:
        require_tensorflow()
        self.shards = {
            task: [shard for directory in self.directories for shard in find_shards(directory, task, self.split)]
            for task in self.tasks
        }
        self.sizes: Mapping[str, int] = {task: sum(s.records for s in shards) for task, shards in self.shards.items()}
        if empty := [task for task, size in self.sizes.items() if not size]:
            places = ", ".join(self.directories) or "no directory"
            raise InputError(
                f"no {self.split} records for {', '.join(empty)} in {places}; set `data` to output directories of harp generate, "
                "or drop it from `tasks`"
            )
        self._verified: set[str] = set()  # shards whose content was compared with the manifest
        self._cache: OrderedDict[Shard, list[bytes]] = OrderedDict()
        self._epoch_start: dict[tuple[int, str], tuple[int, int]] = {}  # of (lane, task): epoch, its first position

    def share(self, lane: int, task: str, epoch: int) -> list[tuple[Shard, slice]]:
        """The shards of an epoch in the lane's order, with the lane's slice of each permuted shard."""
        shards = self.shards[task]
        order = generator(self.seed, "shards", task, epoch).permutation(len(shards))
        if len(shards) >= WHOLE_SHARDS * self.lanes:
            return [(shards[i], slice(None)) for i in order[lane :: self.lanes]]
        if self.sizes[task] < self.lanes:
            return [(shards[i], slice(None)) for i in order]
        # Record n of the epoch belongs to lane n mod lanes, counted across shards, so that short shards favour no lane.
        share, before = [], 0
        for i in order:
            share.append((shards[i], slice((lane - before) % self.lanes, None, self.lanes)))
            before += shards[i].records
        return share

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        """See `packing.Reader`. Raises InputError for a missing or damaged shard."""
        epoch, base = self._epoch_start.get((lane, task), (0, 0))
        if base > start:
            epoch, base = 0, 0
        rows: list[bytes] = []
        while count > 0:
            self._epoch_start[lane, task] = (epoch, base)
            for shard, part in self.share(lane, task, epoch):
                size = len(range(shard.records)[part])
                if start < base + size and count > 0:
                    records, name = self._load(shard), os.path.basename(shard.path)
                    order = generator(self.seed, "rows", task, epoch, name).permutation(len(records))
                    taken = [records[i] for i in order[part][start - base : start - base + count]]
                    rows.extend(taken)
                    start += len(taken)
                    count -= len(taken)
                base += size
            epoch += 1
        return self._parse(task, rows) if rows else []

    def _load(self, shard: Shard) -> list[bytes]:
        if shard in self._cache:
            self._cache.move_to_end(shard)
            return self._cache[shard]
        try:
            with shard.checked(shard.path not in self._verified) as path:
                batch = next(iter(tensorflow().data.TFRecordDataset(path).batch(shard.records + 1)), None)
                records = [] if batch is None else batch.numpy().tolist()
        except tensorflow().errors.OpError as error:  # verified before, and damaged since
            raise InputError(f"shard {shard.path} can no longer be read ({type(error).__name__}); {AGAIN}") from error
        self._verified.add(shard.path)
        self._cache[shard] = records
        # Lanes take turns, and each reads its own shard of every task: a smaller cache would reread all of them in each turn.
        while len(self._cache) > len(self._epoch_start) * 5 // 4 and sum(s.bytes for s in self._cache) > CACHE_BYTES:
            self._cache.popitem(last=False)
        return records

    def _parse(self, task: str, rows: list[bytes]) -> list[Group]:
        """Parse serialised records to groups in one call: one at a time is 2.5 times slower."""
        tf = tensorflow()
        names, number = TEXT_FEATURES if task == TEXT_TASK else (*PAIR_FEATURES, *MORE_FEATURES), self.tasks.index(task)
        features: dict[str, Any] = {name: tf.io.RaggedFeature(tf.int64) for name in names}
        if self.separate is not None:
            features[SOURCE] = tf.io.FixedLenFeature((), tf.string)
        if self.taught and task != TEXT_TASK:
            features[TEACHER] = tf.io.RaggedFeature(tf.float32)
        parsed = tf.io.parse_example(tf.constant(rows), features)
        columns = []
        for name in names:
            values, ends = parsed[name].values.numpy().astype(np.int32), parsed[name].row_splits.numpy().tolist()
            # np.split takes three times as long.
            columns.append([values[start:end] for start, end in itertools.pairwise(ends)])
        if task == TEXT_TASK:
            texts = (text_sequences(text, self.length, self.template) for text in columns[0])
            return [Group(number, (sequence,)) for pieces in texts for sequence in pieces]
        groups = []
        sources = parsed[SOURCE].numpy().tolist() if SOURCE in parsed else [b""] * len(rows)
        teacher = parsed[TEACHER].to_list() if TEACHER in parsed else [()] * len(rows)
        for source, pq, pd, nq, nd, more, lengths, scores in zip(sources, *columns, teacher):
            further = parts(more, lengths)
            if self.separate is not None:
                pages = (pd, nd, *further)
                groups.append(self.separate.group(number, source.decode(), pq, pages, self.negatives, scores))
            else:
                more_docs = further[: self.negatives - 1]
                sequences = pair_sequences(pq, pd, nq, nd, self.length, self.template, self.mask_side, more_docs)
                groups.append(Group(number, sequences, tuple(scores[: len(sequences)])))
        return groups


@functools.cache
def tensorflow() -> Any:
    """The tensorflow module, imported at first use (5 s). Raises InputError without the extra [data]."""
    require_tensorflow()
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")  # otherwise it would allocate the memory of JAX's devices
    return tf


def require_tensorflow() -> None:
    """Raises InputError without the extra [data]; imports nothing."""
    with needs("reading or writing TFRecords", "tensorflow", "data"):
        if importlib.util.find_spec("tensorflow") is None:
            raise ImportError
