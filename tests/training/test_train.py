"""The loop on real devices and real processes: the same losses on every mesh, exact resume, clear errors."""

import dataclasses
import json
import os
import signal
import socket
import time

import jax
import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.checkpoint import Checkpoints
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.text.tokenizer import Tokenizer
from harp_jax.training.train import train
from harp_jax.training.workdir import cut_after, locked
from tests.support.synthetic import tokenizer
from tests.support.tiny_run import tiny_config, tiny_stage
from tests.support.training_processes import launch, losses, same_parameters


def run_tiny(directory, devices: int = 1, **changes) -> str:
    config = tiny_config(str(directory), **changes)
    workdir = os.path.join(directory, "run")
    train(config, workdir, tiny_stage(config), jax.devices()[:devices])
    return workdir


@pytest.fixture(scope="module")
def one_device(tmp_path_factory) -> str:
    return run_tiny(tmp_path_factory.mktemp("one"))


def assert_same_losses(found: list[float], expected: list[float]) -> None:
    assert len(found) == len(expected) == 20
    assert abs(found[0] - expected[0]) <= 1e-5
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_overfits_a_few_pairs(tmp_path):
    config = tiny_config(
        str(tmp_path), steps=150, log_every=10, learning_rate=5e-3, mlm_weight=0.0, **{"model.dropout": 0.0}
    )
    stage = tiny_stage(config)
    few = dataclasses.replace(stage, reader=dataclasses.replace(stage.reader, records=16))
    last = train(config, str(tmp_path / "run"), few, jax.devices()[:1])
    assert last["rqp_accuracy"] > 0.95 and last["qdm_accuracy"] > 0.95


def test_mesh_of_4_by_2_has_the_losses_of_one_device(one_device, tmp_path):
    workdir = run_tiny(tmp_path, 8, **{"mesh.data": 4, "mesh.model": 2})
    assert_same_losses(losses(workdir), losses(one_device))


def test_fsdp_has_the_losses_of_one_device(one_device, tmp_path):
    workdir = run_tiny(tmp_path, 8, **{"mesh.data": 2, "mesh.fsdp": 4})
    assert_same_losses(losses(workdir), losses(one_device))


def test_two_processes_have_the_losses_of_one(one_device, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = (f"coordinator=127.0.0.1:{port}", "processes=2")
    both = [launch(tmp_path, *common, f"process={i}", devices=4) for i in range(2)]
    for process in both:
        _, errors = process.communicate(timeout=480)
        assert process.returncode == 0, errors[-2000:]
    assert_same_losses(losses(os.path.join(tmp_path, "run")), losses(one_device))


def test_killed_at_a_random_step_it_ends_with_the_same_bits(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    options = ("steps=40", "checkpoint_every=4")
    whole = launch(tmp_path / "whole", *options)
    assert whole.wait(timeout=240) == 0
    rng = np.random.default_rng(5)
    workdir = str(tmp_path / "killed" / "run")
    for _ in range(2):
        victim = launch(tmp_path / "killed", *options)
        goal = len(losses(workdir)) + int(rng.integers(3, 15))
        while victim.poll() is None and len(losses(workdir)) < goal:
            time.sleep(0.01)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        assert len(losses(workdir)) < 40
    assert launch(tmp_path / "killed", *options).wait(timeout=240) == 0
    assert same_parameters(workdir, str(tmp_path / "whole" / "run"))
    assert losses(workdir) == losses(str(tmp_path / "whole" / "run"))


def test_sigterm_saves_and_exits_with_status_0(tmp_path):
    victim = launch(tmp_path, "steps=2000")
    workdir = str(tmp_path / "run")
    while victim.poll() is None and len(losses(workdir)) < 5:
        time.sleep(0.05)
    victim.send_signal(signal.SIGTERM)
    assert victim.wait(timeout=60) == 0
    assert Checkpoints(workdir).steps()[-1] >= 5


def test_a_changed_config_is_rejected_by_name(one_device, tmp_path):
    config = tiny_config(str(tmp_path), learning_rate=5e-4)
    stage = tiny_stage(config)
    with pytest.raises(InputError, match="learning_rate was 0.001"):
        train(config, one_device, stage, jax.devices()[:1])


def test_a_workdir_in_use_is_rejected(tmp_path):
    config = tiny_config(str(tmp_path), steps=1)
    lock = locked(str(tmp_path / "run"))
    with pytest.raises(InputError, match="another run is using"):
        train(config, str(tmp_path / "run"), tiny_stage(config), jax.devices()[:1])
    lock.close()


def test_a_vocabulary_padded_for_another_mesh_is_restored(tmp_path):
    workdir = run_tiny(tmp_path, steps=2)
    config = tiny_config(str(tmp_path), steps=2, **{"mesh.model": 2, "mesh.data": 4})
    train(config, workdir, tiny_stage(config), jax.devices())
    assert Checkpoints(workdir).steps() == [2] and not os.path.exists(workdir + "/checkpoints_damaged")


def test_inf_skips_the_update_and_stops_the_run_after_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("harp_jax.training.loop.MAX_SKIPPED", 3)
    config = tiny_config(str(tmp_path))
    stage = tiny_stage(config)

    def infinite(shape):
        objective = stage.objective(shape)
        return dataclasses.replace(objective, pair_weight=float("inf"))

    with pytest.raises(InputError, match="skipped for Inf, NaN or a loss spike"):
        train(config, str(tmp_path / "run"), dataclasses.replace(stage, objective=infinite), jax.devices()[:1])
    rows = read_metrics(str(tmp_path / "run"))
    assert [row["skipped"] for row in rows] == [1.0, 2.0, 3.0, 4.0]


def test_starts_from_another_workdir_with_all_its_parameters(one_device, tmp_path):
    config = tiny_config(str(tmp_path), steps=1, init=one_device, tokenizer="", learning_rate=0.0)
    workdir = str(tmp_path / "run")
    train(config, workdir, tiny_stage(config), jax.devices()[:1])
    assert same_parameters(workdir, one_device)


def test_vocabulary_of_another_size_is_rejected(one_device, tmp_path):
    Tokenizer.of_words(tokenizer().tokens[:-1]).save(str(tmp_path / "other"))
    config = tiny_config(str(tmp_path), init=one_device, tokenizer=str(tmp_path / "other"))
    with pytest.raises(InputError, match=r"210 tokens.*have 211"):
        tiny_stage(config)


def test_held_out_metrics_are_written_and_repeatable(tmp_path):
    workdir = run_tiny(tmp_path, steps=4, eval_every=2, eval_batches=2, learning_rate=0.0)
    rows = [row for row in read_metrics(workdir) if row["split"] == "validation"]
    assert [row["step"] for row in rows] == [0, 2, 4]
    assert rows[0]["loss"] == rows[2]["loss"]


def test_a_task_no_better_than_its_trivial_predictor_is_named_at_the_end(tmp_path, caplog):
    config = tiny_config(str(tmp_path), steps=2, eval_every=1, eval_batches=2, learning_rate=0.0)
    stage = dataclasses.replace(tiny_stage(config), trivial={"qdm": ("in_links", 0.9)})
    train(config, str(tmp_path / "run"), stage, jax.devices()[:1])
    named = [record.message for record in caplog.records if "held-out pairs are right" in record.message]
    assert len(named) == 1 and named[0].startswith("qdm: ") and "in-links alone reaches 0.90" in named[0]
    rows = [row for row in read_metrics(str(tmp_path / "run")) if row["split"] == "validation"]
    assert all(row["qdm_pairs"] > 0 for row in rows)


def test_lines_after_the_restored_step_are_removed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": n, "split": "train"}) + "\n" for n in range(1, 6)) + '{"step": 6, "lo')
    cut_after(str(path), 3)
    assert [row["step"] for row in read_metrics(str(tmp_path))] == [1, 2, 3]
