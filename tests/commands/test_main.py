"""Bad input on the command line: one line and status 2, with all missing inputs; else, a training resumes."""

import contextlib
import os

import pytest

from harp_jax.__main__ import main as harp
from harp_jax.base.cli import Parser
from harp_jax.base.errors import InputError
from harp_jax.config import read_config
from tests.support.shards_fixture import write_job

CONFIG = """
from tests.support.tiny_run import tiny_config
def get_config():
    return tiny_config(".", steps=2, lanes=1, tasks=("rqp",), batch_pairs=16, window=32)  # a lane: one device, also here
"""
TRAIN = "train --config=config.py --config.data=('data',)"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    path = tmp_path_factory.mktemp("main")
    (path / "config.py").write_text(CONFIG)
    (path / "docs.tsv").write_text("d\tu\tt\tb\n")
    write_job(str(path / "data"), {"rqp": [40]})
    (path / "model").mkdir()
    (path / "model" / "config.json").write_text('{"model_type": "bert"}')
    return path


@pytest.fixture(autouse=True)
def here(job, monkeypatch):
    monkeypatch.chdir(job)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rerank --docs=docs.tsv --queries=q.tsv --model=cross-encoder/tiny --run=irds:a/b --output=o",
         "no such file or folder: --model=cross-encoder/tiny, --queries=q.tsv; check the paths; to use a model from the Hugging "
         "Face Hub, run `hf download cross-encoder/tiny --local-dir tiny` and name the folder tiny"),
        ("train --config=finetune --workdir=x --config.init=no/such/folder --config.docs=docs.tsv",
         "missing inputs: queries is not set, qrels is not set, candidates is not set, init does not exist (no/such/folder)"),
        ("rernk", "no command 'rernk'; did you mean rerank? `harp --help --all` lists them"),
        (f"{TRAIN} --workdir=x --config.stepz=1", "--config.stepz (did you mean steps?)"),
        (f"{TRAIN} --workdir=x --config.tokenizer=gs://b/t", "tokenizer=gs://b/t: only `data` and the workdir"),
        ("export --workdir=x --output=", "--output is empty (unset variable?)"),  # else it replaces the current folder
        ("tune-first-stage --k=1_0", "--k: 1_0: use a whole number, 1 or more"),
        ("fuse r s --weights=1,２", "--weights: ２: use a number"), ("first-stage --k1=1_0", "--k1: 1_0: use a number"),
        (f"{TRAIN} --workdir=model", "model/config.json does not belong to a training run"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_2(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        harp(words.split())
    (error,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert ended.value.code == 2 and said in error and not os.path.exists("x/config.json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("HARP=model,./docs.tsv --text=model/../docs.tsv", "it is the input ./docs.tsv, which would be lost"),
        ("A=lr=1,2/d.tsv --output=lr=1,2/d.tsv", "it is the input lr=1,2/d.tsv"),
        ("--model=model --output=link_to_model/config.json", "belongs to the input model"),
        ("docs.tsv --text=hard", "it is the input docs.tsv"), ("--output=r --text=./r", "two outputs have this path"),
        ("model irds:x/y gs://bucket/docs part-*.jsonl --output=model/run.trec --text=", ""),
    ],
)  # fmt: skip
def test_no_output_replaces_what_is_read(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model", "lr=1,2"):
        (tmp_path / name).mkdir()
    for name in ("docs.tsv", "lr=1,2/d.tsv"):
        (tmp_path / name).touch()
    (tmp_path / "link_to_model").symlink_to("model")
    (tmp_path / "hard").hardlink_to(tmp_path / "docs.tsv")
    parser = Parser(prog="x", description="")
    parser.add_input("paths", nargs="*")
    parser.add_input("--model", model=True)
    parser.add_output("--output")
    parser.add_output("--text")
    with pytest.raises(InputError, match=said) if said else contextlib.nullcontext():
        parser.check_paths(parser.parse_args(words.split()))


def test_of_a_field_given_twice_the_last_value_holds():
    """ml_collections would join the tuples, so that rqp stays among the tasks."""
    given = ["--config.tasks=('rqp','qdm')", "--config.seed", "3", "--config.tasks=('adp',)", "--config.seed=4"]
    config = read_config("tpu_v3", given)
    assert (config.tasks, config.seed) == (("adp",), 4)


def test_trains_resumes_and_refuses_another_config(capsys, caplog):
    with caplog.at_level("INFO"):
        for _ in range(2):
            harp([*TRAIN.split(), "--workdir=run"])
            assert "done: run" in capsys.readouterr().out
    assert caplog.text.count("resuming at step 2 of 2") == 1
    with pytest.raises(SystemExit) as ended:
        harp([*TRAIN.split(), "--workdir=run", "--config.seed=1"])
    assert ended.value.code == 2 and "belongs to another config: seed was 0" in capsys.readouterr().err
