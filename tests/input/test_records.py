"""What the manifest of a finished job says is checked once, when it is read."""

import copy
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
}


def put(*path, value):
    """Sets a field of the manifest."""

    def change(manifest):
        *parents, name = path
        for parent in parents:
            manifest = manifest[parent]
        manifest[name] = value

    return change


FIRST = ("splits", "rqp_train", "shards", 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.pop("splits"), "no field splits"),
        (put("splits", value=[]), r"splits is '\[\]'"),
        (put("splits", "rqp_train", value=None), "splits.rqp_train is 'None'"),
        (put("splits", "rqp_train", "shards", value={}), "shards is '{}'"),
        (put(*FIRST, "records", value="4"), "records is '4', not of the type int"),
        (put(*FIRST, "records", value=-1), "shard of a negative size"),
        (put(*FIRST, "bytes", value=1.5), "bytes is '1.5'"),
        (lambda m: m["splits"]["rqp_train"]["shards"][0].pop("sha256"), "no field sha256"),
        # Files outside the folder, of another split, or in another order are not the split's shards.
        (put(*FIRST, "file", value="/etc/passwd"), "'/etc/passwd' is not shard 0 of the 2 of rqp_train"),
        (put(*FIRST, "file", value=f"../pairs/{SHARD}"), "is not shard 0"),
        (put(*FIRST, "file", value=SHARD.replace("train", "validation")), "is not shard 0"),
        (lambda m: m["splits"]["rqp_train"]["shards"].reverse(), "is not shard 0"),
        (lambda m: m["splits"].update(rqp_train=m["splits"].pop("rqp_validation")), "is not shard 0"),
        (put("tokenizer_sha256", value=5), "tokenizer_sha256 is '5'"),
        (put("tokenizer", value=["start"]), "tokenizer is"),
        (put("config", value="x"), "config is 'x'"),
        (put("tasks", value=["rqp"]), "tasks is"),
        (put("tasks", "rqp", "pairs", value="many"), "pairs is 'many'"),
        (put("tasks", "rqp", "predictors", value={"idf": "high"}), "predictors.idf is 'high'"),
        (put("link_graph", "anchor_texts", value="7"), "anchor_texts is '7'"),
        (put("losses", "page-too-short", value=2), "losses.page-too-short is '2'"),
        (put("losses", "page-too-short", "examples", value=["a"]), r"examples\[0\] is 'a'"),
        (put("teacher", value=True), "teacher is 'True'"),
    ],
)
def test_an_edited_manifest_is_named_by_its_field(tmp_path, change, said):
    write_job(str(tmp_path), {"rqp": [4, 3]}, validation=[2])
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text()) | copy.deepcopy(STATISTICS)
    path.write_text(json.dumps(manifest))
    assert read_manifest(str(tmp_path)) == manifest and "page-too-short" in as_text(inspect(str(tmp_path)))
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(
        InputError, match=f"is not the manifest of a generation job .*{said}.*; copy the directory again"
    ):
        read_manifest(str(tmp_path))


def test_a_field_of_another_version_is_left_alone(tmp_path):
    write_job(str(tmp_path), {"rqp": [4]})
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1}))
    assert read_manifest(str(tmp_path))["splits"]["rqp_train"]["records"] == 4
