"""Metrics to Weights & Biases: the calls, and an offline run of the real package where it is installed."""

import sys
import types

import pytest

from harp_jax.base.errors import InputError
from harp_jax.training.workdir import MetricsLog, WandbLog


class Run:
    """A run of the stand-in: what was logged, and whether it ended."""

    def __init__(self, **given) -> None:
        if given["project"] == "refused":
            raise NoKey("no API key")
        self.given, self.logged, self.finished = given, [], False
        RUNS.append(self)

    def define_metric(self, name: str, step_metric: str) -> None:
        self.step_metric = step_metric

    def log(self, values: dict) -> None:
        self.logged.append(values)

    def finish(self) -> None:
        self.finished = True
        raise RuntimeError("no network")


class NoKey(Exception): ...


RUNS: list[Run] = []


def logged(workdir, restored: int, *steps: int) -> None:
    log = MetricsLog(str(workdir), restored, wandb=WandbLog("links", str(workdir), {"seed": 0}))
    for step in steps:
        log.write(step, {"loss": 1 / step})
    log.close()


def test_a_resumed_training_continues_the_run(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(Error=NoKey, init=Run))
    logged(tmp_path, -1, 1, 2, 3)
    logged(tmp_path, 2, 3)  # a kill lost step 3
    first, second = RUNS
    assert first.given["id"] == second.given["id"] and second.given["resume"] == "allow"
    assert first.given["project"] == "links" and first.given["config"] == {"seed": 0}
    assert first.logged[1] == {"trained_step": 2, "train/loss": 0.5} and first.step_metric == "trained_step"
    assert [line["trained_step"] for line in second.logged] == [3] and second.finished
    with pytest.raises(InputError, match="wandb does not start: no API key; log in with `wandb login`"):
        WandbLog("refused", str(tmp_path), {})


def test_an_absent_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"config.wandb needs the package wandb; install harp_jax\[wandb\]"):
        WandbLog("links", str(tmp_path), {})


@pytest.mark.real
def test_an_offline_run_holds_the_metrics(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged(tmp_path, -1, 1, 2)
    (found,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert b"train/loss" in found.read_bytes() and b"trained_step" in found.read_bytes()
