"""Bad input on the command line: one line and status 2, with all missing inputs; else, a training resumes."""

import contextlib
import os
import re

import pytest

from data_pipeline.config import generation, plain
from harp_jax.__main__ import main as harp
from harp_jax.base.cli import Parser
from harp_jax.base.errors import InputError
from harp_jax.config import read_config
from tests.support.shards_fixture import write_job


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    (tmp_path / "docs.tsv").write_text("d\tu\tt\tb\n")
    monkeypatch.chdir(tmp_path)


HUB = "to use a model from the Hugging Face Hub, run `hf download {0} --local-dir {1}` and name the folder {1}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rerank --docs=docs.tsv --queries=q.tsv --model=cross-encoder/tiny --run=irds:a/b --output=o",
         "no such file or folder: --model=cross-encoder/tiny, --queries=q.tsv; check the paths; "
         + HUB.format("cross-encoder/tiny", "tiny")),
        ("evaluate HARP=a.trec,docs.tsv b.trec --qrels=qrels.txt",
         "no such file or folder: a.trec, b.trec, --qrels=qrels.txt; check the paths"),
        ("train --config=finetune --workdir=w --config.init=bert-base-uncased/ --config.docs=docs.tsv",
         "missing inputs: queries is not set, qrels is not set, candidates is not set, init does not exist "
         "(bert-base-uncased/); set each as --config.FIELD=PATH; " + HUB.format("bert-base-uncased", "bert-base-uncased")),
        ("rernk", "no command 'rernk'; did you mean rerank? `harp --help --all` lists them"),
    ],
)  # fmt: skip
def test_all_absent_inputs_and_a_wrong_command_are_named_in_one_line(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        harp(words.split())
    assert ended.value.code == 2 and capsys.readouterr().err == f"error: {said}\n"


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        (["docs.tsv"], {"output": "docs.tsv"}, "it is the input docs.tsv, which would be lost"),
        (["HARP=model,./docs.tsv"], {"text": "model/../docs.tsv"}, "it is the input ./docs.tsv, which would be lost"),
        (["docs.tsv"], {"output": "link"}, "it is the input docs.tsv"),
        (["docs.tsv"], {"text": "hard"}, "it is the input docs.tsv"),
        (["A=lr=1,2/d.tsv"], {"output": "lr=1,2/d.tsv"}, "it is the input lr=1,2/d.tsv"),
        (["--model=model"], {"output": "link_to_model/config.json"}, "belongs to the input model"),
        ([], {"output": "r", "text": "./r"}, "two outputs have this path"),
        ([], {"output": "gs://bucket/run"}, "buckets are not supported"),
        (["model", "irds:x/y", "gs://bucket/docs", "part-*.jsonl"], {"output": "model/run.trec", "text": ""}, ""),
    ],
)
def test_no_output_replaces_what_is_read(inputs, outputs, said, tmp_path):
    for name in ("model", "lr=1,2"):
        (tmp_path / name).mkdir()
    (tmp_path / "lr=1,2" / "d.tsv").touch()
    (tmp_path / "link").symlink_to("docs.tsv")
    (tmp_path / "link_to_model").symlink_to("model")
    (tmp_path / "hard").hardlink_to(tmp_path / "docs.tsv")
    parser = Parser(prog="x", description="")
    parser.add_input("paths", nargs="*")
    for name in ("output", "text"):
        parser.add_output(f"--{name}")
    parser.add_input("--model", model=True)
    arguments = parser.parse_args([*inputs, *(f"--{name}={path}" for name, path in outputs.items())])
    with pytest.raises(InputError, match=said) if said else contextlib.nullcontext():
        parser.check_paths(arguments)


def test_a_generation_job_names_all_missing_inputs():
    with pytest.raises(InputError, match=r"config\.source\.paths is .*; config\.tokenizer is .*; config\.encoder is"):
        plain(generation())


def test_of_a_field_given_twice_the_last_value_holds():
    """ml_collections would join the tuples, so that rqp stays among the tasks."""
    given = ["--config.tasks=('rqp','qdm')", "--config.seed", "3", "--config.tasks=('adp',)", "--config.seed=4"]
    config = read_config("tpu_v3", given)
    assert (config.tasks, config.seed) == (("adp",), 4)


CONFIG = """
from tests.support.tiny_run import tiny_config
def get_config():
    return tiny_config(".", steps=2, lanes=1, tasks=("rqp",), batch_pairs=16, window=32)  # a lane: one device, also here
"""
USUAL = ["--config=config.py", "--config.data=('data',)"]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    path = tmp_path_factory.mktemp("main")
    (path / "config.py").write_text(CONFIG)
    write_job(str(path / "data"), {"rqp": [40]})
    (path / "notes.txt").write_text("no json")
    (path / "model").mkdir()
    (path / "model" / "config.json").write_text('{"model_type": "bert"}')
    return path


def test_trains_resumes_and_refuses_another_config(job, monkeypatch, capsys, caplog):
    monkeypatch.chdir(job)
    with caplog.at_level("INFO"):
        harp(["train", *USUAL, "--workdir=run"])
        assert "done: run" in capsys.readouterr().out and "resuming" not in caplog.text
        harp(["train", *USUAL, "--workdir=run"])
    assert "resuming at step 2 of 2" in caplog.text
    with pytest.raises(SystemExit) as ended:
        harp(["train", *USUAL, "--workdir=run", "--config.seed=1"])
    assert ended.value.code == 2 and "belongs to another config: seed was 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--config=nothing.py"], "nothing.py"),
        ([*USUAL, "--config.tokenizer=notes.txt", "--workdir=x"], r"lacks \[PAD\]"),
        ([*USUAL, "--config.row_length=256", "--workdir=x"], "128 positions"),
        (["--config=config.py", "--config.steps=many", "--workdir=x"], "steps"),
        ([*USUAL, "--config.stepz=1", "--workdir=x"], r"--config.stepz \(did you mean steps\?\)"),
        ([*USUAL, "--config.model.name=3", "--workdir=x"], r"--config.model.name \(belongs to neural_ir"),
        ([*USUAL, "--config.tokenizer=gs://b/t", "--workdir=x"], "tokenizer=gs://b/t: only `data` and the workdir"),
        ([*USUAL, "--workdir=model"], "model/config.json does not belong to a training run"),
        ([*USUAL, "--topology=v3:2x2", "--workdir=x"], "are only for dry runs"),
        ([*USUAL, "--processes=2", "--workdir=x"], "need --coordinator"),
    ],
)
def test_bad_input_is_one_line_and_status_2(job, monkeypatch, capsys, change, message):
    monkeypatch.chdir(job)
    with pytest.raises(SystemExit) as ended:
        harp(["train", *change])
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert ended.value.code == 2 and len(errors) == 1 and re.search(message, errors[0]), errors
    assert not os.path.exists(job / "x" / "config.json")
