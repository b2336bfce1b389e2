"""The loop on real devices and real processes: the same losses on every mesh, exact resume, clear errors."""

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from harp_jax import config as configs
from harp_jax.base.errors import InputError, Terminated
from harp_jax.checkpoints.checkpoint import Checkpoints
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.main import arguments_parser, main
from harp_jax.site.ranker import measure_rate
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer
from harp_jax.training.train import TrainResult, decayed
from harp_jax.training.workdir import MetricsLog, claim_workdir
from tests.support.synthetic import tokenizer
from tests.support.tiny_run import end, kill, launch, losses, run_tiny, same_parameters, tiny_config, two_processes

RUN = {"steps": 6, "learning_rate": 1e-2}  # an update that is 3 % too small shows in the fourth loss
MESH = {"mesh.data": 2, "mesh.fsdp": 2, "mesh.model": 2}


def assert_same_losses(workdir: str, expected: str) -> None:
    first, *later = losses(workdir)
    assert len(later) == RUN["steps"] - 1 and abs(first - losses(expected)[0]) <= 1e-5
    np.testing.assert_allclose(losses(workdir), losses(expected), rtol=2e-5)


def test_a_mesh_over_two_processes_has_the_losses_of_one_device(tmp_path):
    end(two_processes(tmp_path / "two", *(f"{name}={value}" for name, value in (RUN | MESH).items()), devices=4))
    assert_same_losses(str(tmp_path / "two" / "run"), run_tiny(tmp_path / "one", **RUN))


def test_another_encoder_has_them_on_a_mesh_that_recomputes_layers_and_one_device_restores_its_checkpoint(tmp_path):
    """Parameters sharded by both axes, and gradients with remat."""
    changes = {"model.model_type": "modernbert", "model.layers": 2, "model.dropout": 0.0, **RUN}
    mesh = {**MESH, "model.remat": "layer"}
    meshed, one = (run_tiny(tmp_path / str(n), n, **changes, **(mesh if n > 1 else {})) for n in (8, 1))
    assert_same_losses(meshed, one)
    assert run_tiny(tmp_path / "8", 1, **changes, **{"model.remat": "layer"}) == meshed
    assert Checkpoints(meshed).steps() == [6] and not os.path.exists(meshed + "/checkpoints_damaged")


@pytest.mark.parametrize(("kills", "steps"), [(1, 20), pytest.param(20, 60, marks=pytest.mark.faults)])
def test_killed_at_random_moments_it_ends_with_the_same_bits(tmp_path, kills, steps):
    """Many of twenty kills come before a step: during startup, compilation, saving. A last signal is SIGTERM, which saves."""
    options = (f"steps={steps}", "checkpoint_every=3")
    end([launch(tmp_path / "whole", *options)])
    rng = np.random.default_rng(11)
    workdir, whole = (str(tmp_path / name / "run") for name in ("killed", "whole"))
    for number, how in enumerate([signal.SIGKILL] * kills + [signal.SIGTERM] * (kills > 1)):
        victim = launch(tmp_path / "killed", *options)
        deadline = time.monotonic() + float(rng.uniform(1, 9)) if 1 < kills > number else math.inf
        goal = len(losses(workdir)) + int(rng.integers(1, 7))
        while victim.poll() is None and time.monotonic() < deadline and len(losses(workdir)) < goal:
            time.sleep(0.005)
        victim.send_signal(how)
        if victim.wait() == 0:  # ended by SIGTERM, or finished before its kill
            break
    assert number >= kills // 2 and len(losses(workdir)) > 0
    assert victim.returncode == (0 if kills > 1 else -signal.SIGKILL)
    assert kills == 1 or Checkpoints(workdir).steps()[-1] == len(losses(workdir))
    end([launch(tmp_path / "killed", *options)])
    assert same_parameters(workdir, whole) and losses(workdir) == losses(whole)


def test_inf_skips_the_update_and_stops_the_run_after_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("harp_jax.training.train.MAX_SKIPPED", 3)

    def infinite(stage):
        return dataclasses.replace(stage, objective=dataclasses.replace(stage.objective, pair_weight=float("inf")))

    with pytest.raises(InputError, match="because of Inf, NaN or a loss spike.* --config.init with this workdir"):
        run_tiny(tmp_path, change=infinite)
    rows = read_metrics(str(tmp_path / "run"))
    assert [row["skipped"] for row in rows] == [1.0, 2.0, 3.0, 4.0] and os.listdir(tmp_path / "run" / "tensorboard")


def test_weight_decay_is_not_applied_to_biases_and_norms():
    mask = {"norm": {"bias": False, "scale": False}, "bias_2": False, "conv_bias": False, "up": {"kernel": True}}
    assert decayed(mask) == mask


def test_held_out_metrics_repeat_and_a_task_no_better_than_its_trivial_predictor_is_named_at_the_end(tmp_path, caplog):
    changes = {"steps": 4, "eval_every": 2, "eval_batches": 2, "learning_rate": 0.0}

    def known(stage):
        return dataclasses.replace(stage, held_out=stage.held_out._replace(trivial={"qdm": ("in_links", 0.9)}))

    workdir = run_tiny(tmp_path, change=known, **changes)
    rows = [row for row in read_metrics(workdir) if row["split"] == "validation"]
    assert [row["step"] for row in rows] == [0, 2, 4] and all(row["qdm_pairs"] > 0 for row in rows)
    assert rows[0]["loss"] == rows[2]["loss"]
    named = [record.message for record in caplog.records if "held-out pairs are right" in record.message]
    assert len(named) == 1 and named[0].startswith("qdm: ") and "in-links alone reaches 0.90" in named[0]


def test_lines_after_the_restored_step_are_removed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": n, "split": "train"}) + "\n" for n in range(1, 6)) + '{"step": 6, "lo')
    assert len(read_metrics(str(tmp_path))) == 5  # a kill leaves half a line
    MetricsLog(str(tmp_path), 3).close()
    assert [row["step"] for row in read_metrics(str(tmp_path))] == [1, 2, 3]
    path.write_text("[" * 100_000 + "\n")
    with pytest.raises(InputError, match="metrics.jsonl, line 1: damaged"):
        read_metrics(str(tmp_path))


def test_a_run_on_other_data_or_in_a_workdir_in_use_is_refused(tmp_path, monkeypatch):
    """Large files, such as these documents, are compared by their sizes and ends."""
    monkeypatch.setattr("harp_jax.training.workdir.WHOLE", 10)
    monkeypatch.setattr("harp_jax.training.workdir.END", 4)
    manifest, docs = tmp_path / "pairs" / "manifest.json", tmp_path / "docs.tsv"
    manifest.parent.mkdir()
    manifest.write_text('{"shards": [1, 2]}')
    docs.write_text("d1\tone two three\n")
    config = tiny_config(str(tmp_path), data=(str(manifest.parent),), docs=str(docs))

    def claim():
        return claim_workdir(str(tmp_path / "run"), config, {}, load_tokenizer(config.tokenizer))

    with claim(), pytest.raises(InputError, match="another run is using"):
        claim()
    claim().close()
    for text in ("d2\tone two three\n", "d1\tone two forty\n", "d1\tone, two, three\n"):
        docs.write_text(text)
        with pytest.raises(InputError, match=r"started on other data: \S+docs\.tsv changed since"):
            claim()
    manifest.write_text('{"shards": [2, 1]}')
    *tokens, one, other = tokenizer().tokens
    Tokenizer.of_words((*tokens, other, one)).save(config.tokenizer)
    with pytest.raises(InputError, match=r"other data: .*manifest\.json, .*docs\.tsv, tokenizer changed since"):
        claim()


def test_sigterm_ends_the_command_with_the_status_of_a_terminated_process(tmp_path, monkeypatch):
    monkeypatch.setattr("harp_jax.training.train.train", lambda *_: TrainResult({}, interrupted=True))
    given = arguments_parser().parse_args([f"--workdir={tmp_path}", "--config=demo"])
    given.config = tiny_config(str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 143


def test_an_interrupted_measurement_of_the_rate_writes_nothing(tmp_path, monkeypatch):
    """Else two steps, one with compilation, would be recorded as 103 s per step."""
    monkeypatch.setattr("harp_jax.training.dry_run.train", lambda *_: TrainResult({}, interrupted=True))
    with pytest.raises(Terminated):
        measure_rate(configs.pretrain(), str(tmp_path / "rate.json"))
    assert not list(tmp_path.iterdir())


def wait_for(processes, workdir: str, lines: int) -> None:
    while all(p.poll() is None for p in processes) and len(losses(workdir)) < lines:
        time.sleep(0.005)


@pytest.mark.faults
def test_kills_of_two_processes_and_one_process_resumes_their_run(tmp_path):
    options = ("steps=40", "checkpoint_every=4", "mesh.data=4", "lanes=4")
    end(two_processes(tmp_path / "whole", *options))
    rng = np.random.default_rng(7)
    workdir, whole, alone = str(tmp_path / "killed" / "run"), str(tmp_path / "whole" / "run"), str(tmp_path / "alone")
    for number in range(2):
        both = two_processes(tmp_path / "killed", *options)
        wait_for(both, workdir, len(losses(workdir)) + int(rng.integers(3, 9)))
        # One dies first; the other would wait for it forever, and is then killed, as by a supervisor.
        kill(both[number % 2], both[1 - number % 2])
    assert len(losses(workdir)) < 40
    shutil.copytree(workdir, alone)
    end(two_processes(tmp_path / "killed", *options))
    assert same_parameters(workdir, whole) and losses(workdir) == losses(whole)
    end([launch(tmp_path / "killed", *options, f"workdir={alone}", devices=4)])
    np.testing.assert_allclose(losses(alone), losses(whole), rtol=1e-4)


@pytest.mark.faults
def test_one_process_compiles_for_longer_than_the_other_may_wait(tmp_path):
    end(two_processes(tmp_path, "steps=4", "mesh.data=4", "lanes=4", second=["compile_delay=40"]))


@pytest.mark.faults
def test_processes_that_read_survive_a_signal_to_all_and_end_with_a_killed_training(tmp_path):
    options = ("steps=40", "checkpoint_every=4")
    end([launch(tmp_path / "whole", *options)])
    workdir, whole = (str(tmp_path / name / "run") for name in ("killed", "whole"))
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = launch(tmp_path / "killed", *options, "workers=2")
        wait_for([process], workdir, len(losses(workdir)) + 6)
        spawned = ["pgrep", "-P", str(process.pid), "-f", "spawn_main"]
        found = subprocess.run(spawned, capture_output=True, text=True).stdout.split()
        assert len(found) == 2
        for child in map(int, found if number == signal.SIGTERM else ()):
            os.kill(child, number)
        process.send_signal(number)
        end([process], 0 if number == signal.SIGTERM else -number)
        until = time.monotonic() + 300
        while any(os.path.exists(f"/proc/{child}") for child in found):
            assert time.monotonic() < until
            time.sleep(0.1)
    end([launch(tmp_path / "killed", *options, "workers=3")])
    assert losses(workdir) == losses(whole) and same_parameters(workdir, whole)
