"""An initial model without an MLM head: the head is first trained alone, so that its loss does not dominate the pairs'."""

import dataclasses
import os
from pathlib import Path

import jax
import numpy as np
import pytest

from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.checkpoints.start import load_encoder
from harp_jax.training.stages.pretrain import head_is_due, pretrain_stage
from tests.support.synthetic import tokenizer
from tests.support.tiny_run import run_tiny, tiny_config
from tests.support.training_processes import same_parameters


@pytest.fixture(scope="module")
def headless(tmp_path_factory) -> str:
    """A Hugging Face directory with an encoder and a pooler."""
    root = tmp_path_factory.mktemp("headless")
    shape, params = load_encoder(run_tiny(root, steps=2))
    save_hf(str(root / "hf"), shape, {name: params[name] for name in ("encoder", "pooler")}, tokenizer(), "")
    return str(root / "hf")


def run(directory, init: str, **changes) -> str:
    def few(stage):  # few documents, whose words the head can learn
        return dataclasses.replace(stage, reader=dataclasses.replace(stage.reader, records=3))

    return run_tiny(directory, change=few, init=init, tokenizer="", steps=2, **changes)


def test_the_head_learns_and_the_encoder_keeps_every_bit(headless, tmp_path, monkeypatch):
    monkeypatch.setattr("harp_jax.training.stages.pretrain.HEAD_RATE", 1e-2)
    workdir = run(tmp_path, headless, mlm_head_steps=30, log_every=10, learning_rate=0.0)
    _, start = load_hf(headless)
    _, trained = load_encoder(os.path.join(workdir, "mlm_head"))
    jax.tree.map(np.testing.assert_array_equal, start, {name: trained[name] for name in start})
    rows = [row["mlm_loss"] for row in read_metrics(os.path.join(workdir, "mlm_head"))]
    assert rows[-1] < rows[0] - 0.05
    # The run starts from that head, and keeps it with a learning rate of 0.
    assert same_parameters(workdir, os.path.join(workdir, "mlm_head"))


def test_the_head_is_trained_alone_once_and_where_it_is_new(headless, tmp_path):
    workdir = run(tmp_path, headless, mlm_head_steps=1)
    untrained = run(tmp_path / "pairs", headless, mlm_weight=0.0)
    for init, changes in (
        (headless, {"mlm_head_steps": 0}),
        (headless, {"mlm_weight": 0.0}),
        (workdir, {}),
        (headless, {}),
        (untrained, {}),
    ):
        config = tiny_config(str(tmp_path), init=init, **changes)
        assert head_is_due(config, pretrain_stage(config, with_data=False)) == (init != workdir and not changes)
    head = Path(workdir) / "mlm_head"
    written = {path.name: path.stat().st_mtime_ns for path in head.glob("*.json*")}
    run(tmp_path, headless, mlm_head_steps=1)
    assert {path.name: path.stat().st_mtime_ns for path in head.glob("*.json*")} == written and len(written) > 1
