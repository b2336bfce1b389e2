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


def rows_of(folder, task) -> list[dict]:
    files = sorted(Path(folder, task).iterdir())
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


def test_triplets_hold_the_texts_of_the_records(tmp_path, monkeypatch):
    directory, output, vocabulary = (str(tmp_path / name) for name in ("pairs", "out", "tokenizer"))
    write_job(directory, {"qdm": [5, 3], "rqp": [4], "mlm": [2]})
    tokenizer().save(vocabulary)
    monkeypatch.setattr(triplets, "BATCH", 2)
    with pytest.raises(InputError, match="is not the tokenizer of .*; name it with --tokenizer"):
        write_parquet(directory, output)
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
