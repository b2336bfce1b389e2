"""Shards to groups: every record once per epoch, in an order that is a function of (seed, task, epoch), seekable anywhere."""

import json
import os
from collections import Counter

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.input.tfrecords import RecordReader
from tests.support.shards_fixture import write_job
from tests.support.synthetic import TEMPLATE, pair

LANES = 4


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("job"))
    # rqp: few shards, so lanes take slices; qdm: many, so lanes own whole shards; rdp: fewer records than lanes.
    write_job(path, {"rqp": [37, 5, 21], "qdm": [6] * 17, "rdp": [3], "mlm": [20]})
    return path


def reader(directory: str, *tasks: str, seed: int = 0) -> RecordReader:
    return RecordReader((directory,), tasks, "train", LANES, 128, "document", seed, TEMPLATE)


def identity(groups) -> list[tuple]:
    return [
        tuple((tuple(s.query), None if s.document is None else tuple(s.document)) for s in g.sequences) for g in groups
    ]


def epoch_share(found: RecordReader, lane: int, task: str, epoch: int = 0) -> int:
    return sum(len(range(shard.records)[part]) for shard, part in found._share(lane, task, epoch))


@pytest.mark.parametrize(("task", "records"), [("rqp", 63), ("qdm", 102)])
def test_an_epoch_of_all_lanes_holds_every_record_once(directory, task, records):
    found = reader(directory, task)
    rows = [r for lane in range(LANES) for r in identity(found.read(lane, task, 0, epoch_share(found, lane, task)))]
    assert len(rows) == records and set(Counter(rows).values()) == {1}


def test_records_are_read_as_written(directory):
    groups = reader(directory, "rqp").read(0, "rqp", 0, 5)
    written = {}
    for shard, count in enumerate((37, 5, 21)):
        for i in range(count):
            pos_query, document, neg_query, _ = pair(1000 * shard + i, "rqp")
            written[tuple(pos_query), tuple(document)] = tuple(neg_query)
    for group in groups:
        positive, negative = group.sequences
        assert written[tuple(positive.query), tuple(positive.document)] == tuple(negative.query)
        assert negative.document_text == positive.document_text and negative.query_text == -1


@pytest.mark.parametrize("task", ["rqp", "qdm", "rdp", "mlm"])
def test_reading_is_seekable_across_epochs(directory, task):
    whole = identity(reader(directory, task).read(1, task, 0, 150))
    for start, count in ((0, 10), (3, 80), (149, 1), (60, 60)):
        assert identity(reader(directory, task).read(1, task, start, count)) == whole[start : start + count]
    # Seeking backwards works, too.
    moved = reader(directory, task)
    moved.read(1, task, 140, 5)
    assert identity(moved.read(1, task, 2, 7)) == whole[2:9]


def test_shards_shorter_than_the_lanes_leave_no_lane_without_records(tmp_path):
    path = str(tmp_path / "job")
    write_job(path, {"rqp": [3, 2, 3]})
    found = reader(path, "rqp")
    shares = [epoch_share(found, lane, "rqp") for lane in range(LANES)]
    assert shares == [2, 2, 2, 2]
    assert all(len(found.read(lane, "rqp", 0, 9)) == 9 for lane in range(LANES))


def test_epochs_and_seeds_differ_in_order_not_in_content(directory):
    found = reader(directory, "rqp")
    size = epoch_share(found, 0, "rqp")
    first = identity(found.read(0, "rqp", 0, size))
    assert first != identity(found.read(0, "rqp", size, size))
    assert first != identity(reader(directory, "rqp", seed=1).read(0, "rqp", 0, size))


def test_text_records_are_single_sequences_with_every_token_maskable(directory):
    (group, *_) = reader(directory, "mlm").read(0, "mlm", 0, 3)
    (sequence,) = group.sequences
    assert sequence.document is None and sequence.query_text == 0 and len(sequence) == len(sequence.query) + 2


def damaged(directory: str, tmp_path, change) -> str:
    path = str(tmp_path / "job")
    write_job(path, {"rqp": [10]})
    change(path, os.path.join(path, "harp-rqp_train.tfrecord-00000-of-00001"))
    return path


def flip(_: str, shard: str) -> None:
    content = bytearray(open(shard, "rb").read())
    content[len(content) // 2] ^= 1
    open(shard, "wb").write(content)


def truncate_at_a_record(_: str, shard: str) -> None:
    import struct

    content = open(shard, "rb").read()
    end = 0
    for _unused in range(6):
        end += 16 + struct.unpack("<Q", content[end : end + 8])[0]
    open(shard, "wb").write(content[:end])


def write(directory: str, name: str, content: str) -> None:
    with open(os.path.join(directory, name), "w", encoding="latin-1") as file:
        file.write(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (flip, "is missing or damaged: sha256 .*, manifest.json lists"),
        (truncate_at_a_record, "is missing or damaged: bytes .*, manifest.json lists"),
        (lambda _, s: os.remove(s), "is missing or damaged: bytes no file"),
        (lambda d, _: write(d, "manifest.json", "{}"), "is no manifest of a generation job"),
        (lambda d, _: write(d, "manifest.json", "\xff{"), "is no manifest of a generation job"),
        (lambda d, _: write(d, "dataset_info.json", "{"), "TFDS cannot read dataset_info.json"),
        (lambda d, _: write(d, "features.json", "[]"), "TFDS cannot read dataset_info.json"),
    ],
)
def test_damage_is_named_never_skipped(directory, tmp_path, change, message):
    path = damaged(directory, tmp_path, change)
    with pytest.raises(InputError, match=message):
        reader(path, "rqp").read(0, "rqp", 0, 3)


def test_swapped_shards_of_equal_count_are_named(tmp_path):
    path = str(tmp_path / "job")
    write_job(path, {"rqp": [4, 4]})
    names = [os.path.join(path, f"harp-rqp_train.tfrecord-0000{i}-of-00002") for i in range(2)]
    os.rename(names[0], names[0] + "x")
    os.rename(names[1], names[0])
    os.rename(names[0] + "x", names[1])
    with pytest.raises(InputError, match="is missing or damaged: (sha256|bytes)"):
        reader(path, "rqp").read(0, "rqp", 0, 3)


def test_missing_data_are_named(directory, tmp_path):
    with pytest.raises(InputError, match="no split 'acm_train', only"):
        reader(directory, "acm")
    with pytest.raises(InputError, match="did not finish"):
        reader(str(tmp_path), "rqp")
    with pytest.raises(InputError, match="no train records for rqp in no directory; set `data`"):
        RecordReader((), ("rqp",), "train", LANES, 128, "document", 0, TEMPLATE)


def test_data_of_another_vocabulary_are_rejected(directory, tmp_path):

    from harp_jax.training.stages.pretrain import pretrain_stage
    from tests.support.tiny_run import tiny_config

    config = tiny_config(str(tmp_path), data=(directory,))
    manifest = json.load(open(os.path.join(directory, "manifest.json")))
    stage = pretrain_stage(config)
    assert stage.reader.sizes == {"rqp": 63, "qdm": 102}
    manifest["tokenizer_sha256"] = "0" * 64
    other = tmp_path / "other"
    write_job(str(other), {"rqp": [9], "qdm": [9]})
    (other / "manifest.json").write_text(json.dumps(manifest))
    config = tiny_config(str(tmp_path), data=(str(other),))
    with pytest.raises(InputError, match="another vocabulary"):
        pretrain_stage(config)
    assert np.isclose(sum(stage.shares.values()), 1)
