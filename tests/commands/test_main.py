"""The training command in a subprocess: one line and status 2 for bad input, status 0 otherwise."""

import os
import re

import pytest

from harp_jax.__main__ import main as harp
from tests.support.commands import python
from tests.support.shards_fixture import write_job
from tests.support.synthetic import tokenizer

CONFIG = """
from harp_jax.config import pretrain
def get_config():
    c = pretrain()
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = 1, 16, 2, 128
    c.tasks = ("rqp", "qdm")
    c.row_length, c.batch_pairs, c.window, c.lanes = 128, 48, 64, 1  # a lane: one device, also here
    c.steps, c.log_every = 4, 2
    return c
"""
DATA = ["--config=config.py", "--config.data=('data',)"]
USUAL = [*DATA, "--config.tokenizer=tokenizer"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("main")
    (path / "config.py").write_text(CONFIG)
    tokenizer().save(str(path / "tokenizer"))
    write_job(str(path / "data"), {"rqp": [40], "qdm": [30]})
    (path / "notes.txt").write_text("no json")
    return path


def test_trains_resumes_and_refuses_another_config(place, monkeypatch, capsys, caplog):
    assert "done: run" in python("-m", "harp_jax.main", *USUAL, "--workdir=run", cwd=place).stdout
    monkeypatch.chdir(place)
    with caplog.at_level("INFO"):
        harp(["train", *USUAL, "--workdir=run"])
    assert "resuming at step 4 of 4" in caplog.text
    with pytest.raises(SystemExit) as ended:
        harp(["train", *USUAL, "--workdir=run", "--config.seed=1"])
    assert ended.value.code == 2 and "belongs to another config: seed was 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--config=nothing.py"], "nothing.py"),
        ([*DATA, "--config.tokenizer=notes.txt", "--workdir=x"], r"lacks \[PAD\]"),
        ([*USUAL, "--config.row_length=256", "--workdir=x"], "128 positions"),
        (["--config=config.py", "--config.steps=many", "--workdir=x"], "steps"),
        ([*USUAL, "--config.tasks=()", "--workdir=x"], "name at least one task"),
        ([*USUAL, "--config.tasks=('rqp','qdm','rqp')", "--workdir=x"], "names a task twice"),
        ([*DATA, "--config.tokenizer=gs://b/t", "--workdir=x"], "tokenizer=gs://b/t: only `data` and the workdir"),
        ([*USUAL, "--config.select=RR@10", "--workdir=x"], "missing inputs: docs is not set, queries"),
        ([*USUAL, "--workdir=model"], "model/config.json does not belong to a training run"),
        ([*DATA, "--config.model.model_type=gpt2", "--dry_run"], "model_type is 'gpt2', not one of bert"),
        ([*DATA, "--topology=v3:2x2", "--workdir=x"], "are only for dry runs"),
        ([*DATA, "--processes=2", "--workdir=x"], "need --coordinator"),
    ],
)
def test_bad_input_is_one_line_and_status_2(place, monkeypatch, capsys, change, message):
    monkeypatch.chdir(place)
    (place / "model").mkdir(exist_ok=True)
    (place / "model" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(SystemExit) as ended:
        harp(["train", *change])
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert ended.value.code == 2 and len(errors) == 1 and re.search(message, errors[0]), errors
    assert not os.path.exists(place / "x" / "config.json")
