"""Shards to groups: every record once per epoch, in an order that is a function of (seed, task, epoch), seekable anywhere."""

from collections import Counter

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.input.tfrecords import RecordReader, tensorflow
from harp_jax.training.stages.pretrain import pretrain_stage
from tests.support.shards_fixture import write_job
from tests.support.synthetic import TEMPLATE, pair, tokenizer
from tests.support.tiny_run import tiny_config

LANES = 4


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("job"))
    # rqp: few shards, so lanes take slices; qdm: many, so lanes own whole shards; rdp: fewer records than lanes.
    write_job(path, {"rqp": [37, 5, 21], "qdm": [6] * 17, "rdp": [3], "mlm": [20]})
    return path


def reader(directory: object, *tasks: str, lanes: int = LANES, seed: int = 0, negatives: int = 1) -> RecordReader:
    return RecordReader((str(directory),), tasks, "train", lanes, 128, "document", seed, TEMPLATE, negatives)


def identity(groups) -> list[tuple]:
    texts = lambda s: (tuple(s.query), None if s.document is None else tuple(s.document))  # noqa: E731
    return [tuple(texts(sequence) for sequence in group.sequences) for group in groups]


def epoch_share(found: RecordReader, lane: int, task: str) -> int:
    return sum(len(range(shard.records)[part]) for shard, part in found.share(lane, task, 0))


@pytest.mark.parametrize(("task", "records"), [("rqp", 63), ("qdm", 102)])
def test_an_epoch_of_all_lanes_holds_every_record_once_in_an_order_of_its_own(directory, task, records):
    found, other = reader(directory, task), reader(directory, task, seed=1)
    rows = [r for lane in range(LANES) for r in identity(found.read(lane, task, 0, epoch_share(found, lane, task)))]
    assert len(rows) == records and set(Counter(rows).values()) == {1}
    size = epoch_share(found, 0, task)
    first = identity(found.read(0, task, 0, size))
    assert identity(found.read(0, task, size, size)) != first != identity(other.read(0, task, 0, size))


def test_records_are_read_as_written(directory):
    pairs = (pair(number, "rqp") for number in (*range(37), *range(1000, 1005), *range(2000, 2021)))
    written = {(tuple(query), tuple(document)): tuple(other) for query, document, other, _ in pairs}
    for group in reader(directory, "rqp").read(0, "rqp", 0, 5):
        positive, negative = group.sequences
        assert written[tuple(positive.query), tuple(positive.document)] == tuple(negative.query)
        assert negative.document_text == positive.document_text and negative.query_text == -1


def test_running_text_longer_than_a_row_is_read_in_pieces(tmp_path):
    """Truncation would lose most of it: rows of 128 would read only a quarter of a text of 510 tokens."""
    text = list(range(5, 405))
    write_job(str(tmp_path), {"mlm": [3]}, text=text)
    found = reader(tmp_path, "mlm", lanes=1).read(0, "mlm", 0, 2)
    lengths = [len(group.sequences[0]) for group in found]
    assert lengths == [102] * 8 and np.concatenate([g.sequences[0].query for g in found]).tolist() == 2 * text


def test_more_negatives_are_read_with_the_positives_query_up_to_the_number_asked_for(tmp_path):
    texts = [[10 * n + 5, 10 * n + 6] for n in range(5)]
    more = {"more_docs": [*texts[3], *texts[4]], "more_lengths": [2, 2]}
    write_job(str(tmp_path), {"adp": [4]}, pos_query=texts[0], pos_doc=texts[1], neg_doc=texts[2], **more)
    for negatives in (1, 2, 3, 9):
        for group in reader(tmp_path, "adp", lanes=1, negatives=negatives).read(0, "adp", 0, 4):
            documents = [sequence.document.tolist() for sequence in group.sequences]
            assert documents == texts[1 : 2 + min(negatives, 3)]
            assert {tuple(sequence.query) for sequence in group.sequences} == {tuple(texts[0])}
            numbers = [sequence.document_text for sequence in group.sequences]
            assert len(set(numbers)) == len(numbers) and max(numbers) < 2 * len(numbers)


@pytest.mark.parametrize("task", ["rqp", "qdm", "rdp", "mlm"])
def test_reading_is_seekable_across_epochs(directory, task):
    whole = identity(reader(directory, task).read(1, task, 0, 150))
    for start, count in ((0, 10), (3, 80), (149, 1), (60, 60)):
        assert identity(reader(directory, task).read(1, task, start, count)) == whole[start : start + count]
    moved = reader(directory, task)
    for start, count in ((140, 5), (2, 7)):  # also backwards
        assert identity(moved.read(1, task, start, count)) == whole[start : start + count]


def test_lanes_in_turns_read_a_shard_once_each_epoch_also_where_they_are_more_than_the_cache(tmp_path, monkeypatch):
    write_job(str(tmp_path), {"rqp": [8] * 16, "qdm": [8] * 16})
    monkeypatch.setattr("harp_jax.input.tfrecords.CACHE_BYTES", 0)
    found = reader(tmp_path, "rqp", "qdm")
    loads, dataset = [], tensorflow().data.TFRecordDataset
    monkeypatch.setattr(tensorflow().data, "TFRecordDataset", lambda path: loads.append(path) or dataset(path))
    for start in range(0, 32, 2):
        for lane in range(LANES):
            for task in ("rqp", "qdm"):
                found.read(lane, task, start, 2)
    assert len(loads) == len(set(loads)) == 32


def edited(old: str, new: str):
    """A function that replaces text of a job's manifest."""
    return lambda job: (job / "manifest.json").write_text((job / "manifest.json").read_text().replace(old, new))


SHARD = "harp-rqp_train.tfrecord-00000-of-00002"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda job: (job / SHARD).write_bytes((job / SHARD).read_bytes()[::-1]), "damaged: sha256 .*, but manifest"),
        (lambda job: (job / SHARD).unlink(), "is missing or damaged: bytes no file"),
        (lambda job: (job / "manifest.json").write_bytes(b"\xff{"), "is not the manifest of a generation job .*; copy"),
        (edited('"records": 4', '"records": "4"'), "records is '4', not of the type int"),
        (edited('{"splits', '{"config": {"tokenizer": 3}, "splits'), "config.tokenizer is '3', not of the type str"),
        (lambda job: (job / "manifest.json").unlink(), "not the output of a finished harp generate"),
        (edited(SHARD, f"../pairs/{SHARD}"), "is not shard 0 of the 2 of rqp_train"),
    ],
)
def test_damage_is_named_never_skipped(tmp_path, change, message):
    write_job(str(tmp_path), {"rqp": [4, 4]})
    change(tmp_path)
    with pytest.raises(InputError, match=message):
        reader(tmp_path, "rqp").read(0, "rqp", 0, 3)


def test_missing_data_and_those_of_another_vocabulary_are_named(directory, tmp_path):
    with pytest.raises(InputError, match="no split 'acm_train', only"):
        reader(directory, "acm")
    write_job(str(tmp_path / "other"), {"rqp": [9], "qdm": [9]})
    edited(tokenizer().sha256, "0" * 64)(tmp_path / "other")
    with pytest.raises(InputError, match="another vocabulary"):
        pretrain_stage(tiny_config(str(tmp_path), data=(str(tmp_path / "other"),)))
