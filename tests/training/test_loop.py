"""The loop with fake steps: its timing, with a clock that advances only with work, and waiting for each step on CPU."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from harp_jax.config import pretrain
from harp_jax.model import sharding
from harp_jax.training import loop as train


def run(monkeypatch, config, step, evaluate, batches) -> list[dict]:
    """Eight steps; returns the rows of metrics."""
    monkeypatch.setattr(train.sharding, "put", lambda batch, mesh: batch)
    monkeypatch.setattr(train, "summarise", lambda sums, tasks: {"loss": 0.0})
    rows = []
    checkpoints = SimpleNamespace(steps=lambda: [], save=lambda *_: None, wait=lambda: None)
    metrics = SimpleNamespace(write=lambda number, row, split="train": rows.append(row))
    stage = SimpleNamespace(steps=8, tasks=(), trivial={})
    mesh = sharding.make_mesh(config)
    loop = train.Loop(config, stage, mesh, step, lambda done: 0.0, evaluate, checkpoints, metrics)
    loop.run({"params": {}, "skipped": 0}, 0, batches)
    return rows


def test_evaluations_between_log_lines_do_not_count_as_training_time(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(train.time, "perf_counter", lambda: clock.now)

    def after(seconds, result):
        clock.now += seconds
        return result

    config = pretrain()
    config.log_every, config.eval_every = 4, 3
    step = lambda state, batch: after(3.0, (state, {"tokens": 40.0, "gradient_norm": 1.0}))  # noqa: E731
    evaluate = lambda params, number: after(1000.0, {})  # noqa: E731
    rows = run(monkeypatch, config, step, evaluate, (after(1.0, ({}, {})) for _ in range(9)))
    logged = [row for row in rows if "tokens_per_second" in row]
    assert [row["tokens_per_second"] for row in logged] == [pytest.approx(10.0)] * 2
    assert [row["seconds_per_step"] for row in logged] == [pytest.approx(4.0)] * 2
    assert [row["input_wait"] for row in logged] == [pytest.approx(0.25)] * 2


def test_on_cpu_no_step_starts_before_the_last_one_has_ended(monkeypatch):
    """Even if JAX's backend was started with asynchronous dispatch, as here."""
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, y: jnp.cos(y @ y), x)[0, 0])
    matrix, ended, metrics = jnp.ones((200, 200)), [], []

    def step(state, batch):
        ended.extend(row["tokens"].is_ready() for row in metrics)
        metrics.append({"tokens": slow(matrix), "gradient_norm": 1.0})
        return state, metrics[-1]

    config = pretrain()
    config.log_every, config.eval_every = 100, 0
    run(monkeypatch, config, step, None, (({}, {}) for _ in range(8)))
    assert len(ended) == 28 and all(ended)
