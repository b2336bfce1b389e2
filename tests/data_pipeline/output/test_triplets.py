"""Pairs as Parquet: the texts of the records, in columns that `datasets` loads and sentence-transformers expects."""

import os
from pathlib import Path

import pyarrow.parquet
import pytest

from data_pipeline.output import triplets
from data_pipeline.output.triplets import write_parquet
from harp_jax.base.errors import InputError
from tests.support.shards_fixture import write_job
from tests.support.synthetic import pair, tokenizer

RECORDS = {"qdm": [5, 3], "rqp": [4], "mlm": [2]}


@pytest.fixture
def job(tmp_path):
    write_job(str(tmp_path / "pairs"), RECORDS)
    tokenizer().save(str(tmp_path / "tokenizer"))
    return str(tmp_path / "pairs"), str(tmp_path / "out"), str(tmp_path / "tokenizer")


def rows_of(folder, task) -> list[dict]:
    files = sorted(Path(folder, task).iterdir())
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


def test_triplets_hold_the_texts_of_the_records(job, monkeypatch):
    directory, output, vocabulary = job
    monkeypatch.setattr(triplets, "BATCH", 2)
    counts = write_parquet(directory, output, tokenizer=vocabulary)
    assert counts == {"qdm_train": 8, "rqp_train": 4, "mlm_train": 2}
    assert sorted(os.listdir(os.path.join(output, "qdm"))) == [f"train-0000{i}-of-00002.parquet" for i in range(2)]
    encode = tokenizer().encode
    for task, numbers in (("qdm", [0, 1, 2, 3, 4, 1000, 1001, 1002]), ("rqp", range(4))):
        for row, number in zip(rows_of(output, task), numbers, strict=True):
            query, document, other_query, other_document = (list(side) for side in pair(number, task))
            if task == "qdm":
                expected = {"query": query, "positive": document, "negative": other_document}
            else:  # RQP contrasts two queries: its document is the anchor
                expected = {"document": document, "positive": query, "negative": other_query}
            assert {name: encode(text) for name, text in row.items()} == expected
    assert [list(row) for row in rows_of(output, "mlm")] == [["text"]] * 2


def test_what_cannot_be_written_is_refused_and_leaves_nothing(job, tmp_path):
    directory, output, vocabulary = job
    (tmp_path / "vocab.txt").write_text("\n".join(tokenizer().tokens[:-1]) + "\n")
    (shard,) = (tmp_path / "pairs").glob("*rqp*")
    shard.write_bytes(shard.read_bytes()[:20] + b"x" + shard.read_bytes()[21:])
    of_another = "is not the tokenizer of .*; name it with --tokenizer"
    for words, message in (("", of_another), (str(tmp_path / "vocab.txt"), of_another), (vocabulary, "damaged")):
        with pytest.raises(InputError, match=message):
            write_parquet(directory, output, tokenizer=words)
        assert not os.path.exists(output) and not [name for name in os.listdir(tmp_path) if "tmp" in name]
