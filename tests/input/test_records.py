"""What the manifest of a finished job says is checked once, when it is read."""

import json

import pytest

from data_pipeline.output.inspection import as_text, inspect
from harp_jax.base.errors import InputError
from harp_jax.input.records import read_manifest
from tests.support.shards_fixture import write_job

SHARD = "harp-rqp_train.tfrecord-00000-of-00002"
STATISTICS = {
    "tasks": {"rqp": {"pairs": 7, "tokens": 90, "mean_doc_tokens": 4.5, "predictors": {"idf": 0.5}}},
    "link_graph": {"pages": 3, "anchor_texts": 1},
    "losses": {"page-too-short": {"count": 2, "examples": [["a.html", "A"]]}},
    "format": 1,  # a field of another version is left alone
}
FIRST = ("splits", "rqp_train", "shards", 0)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("splits",), [], r"splits is '\[\]'"),
        ((*FIRST, "records"), "4", "records is '4', not of the type int"),
        ((*FIRST, "records"), -1, "shard of a negative size"),
        # Files outside the folder, or of another split, are not the split's shards.
        ((*FIRST, "file"), f"../pairs/{SHARD}", "is not shard 0 of the 2 of rqp_train"),
        ((*FIRST, "file"), SHARD.replace("train", "validation"), "is not shard 0"),
        ((*FIRST,), {"file": SHARD, "records": 4, "bytes": 9}, "no field sha256"),
        (("tokenizer_sha256",), 5, "tokenizer_sha256 is '5'"),
        (("tasks", "rqp", "predictors"), {"idf": "high"}, "predictors.idf is 'high'"),
        (("losses", "page-too-short", "examples"), ["a"], r"examples\[0\] is 'a'"),
    ],
)
def test_an_edited_manifest_is_named_by_its_field(tmp_path, path, value, said):
    write_job(str(tmp_path), {"rqp": [4, 3]}, validation=[2])
    file = tmp_path / "manifest.json"
    manifest = json.loads(file.read_text()) | json.loads(json.dumps(STATISTICS))
    file.write_text(json.dumps(manifest))
    assert read_manifest(str(tmp_path)) == manifest and "page-too-short" in as_text(inspect(str(tmp_path)))
    *parents, name = path
    inner = manifest
    for parent in parents:
        inner = inner[parent]
    inner[name] = value
    file.write_text(json.dumps(manifest))
    with pytest.raises(
        InputError, match=f"is not the manifest of a generation job .*{said}.*; copy the directory again"
    ):
        read_manifest(str(tmp_path))
