"""Pre-training: what a run starts from, the MLM head that is trained alone, selection by judged queries, and that it learns."""

import dataclasses
import os
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.checkpoints.recorded import best, read_metrics
from harp_jax.checkpoints.start import load_encoder, starting_params
from harp_jax.training.stages.pretrain import pretrain_stage
from harp_jax.training.train import train
from tests.support.planted_pairs import TASK, exact_match, from_scratch, held_out_accuracy
from tests.support.ranking_collection import judged, write_collection
from tests.support.shards_fixture import write_job
from tests.support.synthetic import tokenizer
from tests.support.tiny_bert import CONFIG, random_params
from tests.support.tiny_run import run_tiny, tiny_config
from tests.support.training_processes import same_parameters, two_processes


def few(records: int):
    """Changes a stage so that it repeats few pairs, which a tiny model can learn by heart."""

    def change(stage):
        reader = dataclasses.replace(stage.source.reader, records=records)
        return dataclasses.replace(stage, source=dataclasses.replace(stage.source, reader=reader))

    return change


def test_heads_are_drawn_alike_with_and_without_an_encoder():
    loaded, key = random_params(CONFIG), jax.random.key(3)
    fresh = starting_params(None, (), CONFIG.vocab_size)(CONFIG, key)
    found = starting_params(loaded, ("score",), CONFIG.vocab_size)(CONFIG, key)
    assert found.keys() == fresh.keys()
    for name, tree in found.items():
        expected = loaded[name] if name in loaded and name != "score" else fresh[name]
        jax.tree.map(np.testing.assert_array_equal, tree, dict(expected))


@pytest.fixture(scope="module")
def headless(tmp_path_factory) -> str:
    """A Hugging Face directory with an encoder and a pooler."""
    root = tmp_path_factory.mktemp("headless")
    shape = pretrain_stage(tiny_config(str(root)), with_data=False).encoder
    params = random_params(shape)
    save_hf(str(root / "hf"), shape, {name: params[name] for name in ("encoder", "pooler")}, tokenizer(), "")
    return str(root / "hf")


@pytest.fixture(scope="module")
def overfitted(tmp_path_factory) -> str:
    """A training without MLM on a few pairs."""
    changes = {"steps": 80, "log_every": 10, "learning_rate": 5e-3, "mlm_weight": 0.0, "model.dropout": 0.0}
    return run_tiny(tmp_path_factory.mktemp("few"), change=few(16), **changes)


def test_overfits_a_few_pairs(overfitted):
    last = read_metrics(overfitted)[-1]
    assert last["rqp_accuracy"] > 0.95 and last["qdm_accuracy"] > 0.95


def test_a_new_head_is_trained_alone_once_and_the_encoder_keeps_every_bit(headless, overfitted, tmp_path, monkeypatch):
    monkeypatch.setattr("harp_jax.training.stages.pretrain.HEAD_RATE", 1e-2)
    changes = {"init": headless, "tokenizer": "", "mlm_head_steps": 30, "log_every": 10}
    workdir = run_tiny(tmp_path, change=few(3), steps=2, learning_rate=0.0, **changes)
    head = Path(workdir) / "mlm_head"
    _, start = load_hf(headless)
    _, trained = load_encoder(str(head))
    jax.tree.map(np.testing.assert_array_equal, start, {name: trained[name] for name in start})
    rows = [row["mlm_loss"] for row in read_metrics(str(head))]
    assert rows[-1] < rows[0] - 0.05
    # The run starts from that head, and keeps it with a learning rate of 0. It is trained once.
    assert same_parameters(workdir, str(head))
    written = {path.name: path.stat().st_mtime_ns for path in head.glob("*.json*")}
    run_tiny(tmp_path, change=few(3), steps=2, learning_rate=0.0, **changes)
    assert {path.name: path.stat().st_mtime_ns for path in head.glob("*.json*")} == written and len(written) > 1
    # Other runs need it, too, unless they start from a head or predict no tokens.
    for init, changed, needed in (
        (headless, {"mlm_head_steps": 0}, False),
        (headless, {"mlm_weight": 0.0}, False),
        (workdir, {}, False),
        (headless, {}, True),
        (overfitted, {}, True),
    ):
        config = tiny_config(str(tmp_path), init=init, **changed)
        assert (pretrain_stage(config, with_data=False).before is not None) == needed


def selecting(directory: Path) -> dict[str, object]:
    """Writes pairs and judged queries to `directory`; returns config fields of pre-training that selects by them."""
    write_collection(directory)
    write_job(str(directory / "pairs"), {"qdm": [400]}, validation=[100])
    # The rate is too high, so the last parameters are not the best.
    options = {"tasks": ("qdm",), "mlm_weight": 0.0, "learning_rate": 3e-2, "schedule": "constant", "steps": 15}
    select = {"data": (str(directory / "pairs"),), "select": "RR@10", "eval_every": 5, "eval_batches": 1}
    return {**options, **select, **judged(directory)}


@pytest.mark.real  # a minute of compiling
def test_two_processes_that_share_the_parameters_select_by_all_of_them(tmp_path):
    # Without learning, so the parameters selected at step 0 equal the last ones.
    fields = {**selecting(tmp_path), "steps": 5, "mesh.fsdp": 2, "learning_rate": 0.0}
    for process in two_processes(tmp_path, *(f"{name}={value!r}" for name, value in fields.items()), devices=1):
        _, errors = process.communicate(timeout=480)
        assert process.returncode == 0, errors[-2000:]
    workdir = str(tmp_path / "run")
    _, kept = load_hf(os.path.join(workdir, "selected", best(workdir)["model"]))
    last = load_params(workdir)[0]
    for name, parameters in kept["encoder"].items():  # selected parameters have no vocabulary padding
        jax.tree.map(lambda x, y: np.testing.assert_array_equal(x, y[: len(x)]), parameters, last["encoder"][name])


def test_the_best_of_all_evaluations_is_kept_beside_the_pairs_metrics(tmp_path):
    config = tiny_config(str(tmp_path), **selecting(tmp_path))
    workdir = str(tmp_path / "run")
    train(config, workdir, devices=jax.devices()[:1])
    rows = [row for row in read_metrics(workdir) if row["split"] == "validation"]
    assert [row["step"] for row in rows] == [0, 5, 10, 15] and all("qdm_accuracy" in row for row in rows)
    found = best(workdir)
    assert found["value"] == pytest.approx(max(row["RR@10"] for row in rows), rel=1e-5) and found["queries"] == 40
    config.eval_every = 0
    with pytest.raises(InputError, match="needs evaluations"):
        pretrain_stage(config)


@pytest.mark.parametrize("sample, document", [(0, 10), pytest.param(1, 20, marks=pytest.mark.real)])
def test_a_small_encoder_from_scratch_learns_exact_matches(tmp_path, sample, document):
    config = from_scratch(str(tmp_path))
    config.model.initialisation, config.model.dropout, config.steps = "matching", 0.0, 15 * document
    config.eval_every = config.steps
    assert held_out_accuracy(config, str(tmp_path), partial(exact_match, sample, document))[TASK] >= 0.95
