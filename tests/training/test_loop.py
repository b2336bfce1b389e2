"""The timing of the loop, with a clock that advances only with work."""

from types import SimpleNamespace

import pytest

from harp_jax.defaults import pretrain
from harp_jax.training import loop as train


def test_evaluations_between_log_lines_do_not_count_as_training_time(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(train.time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(train.sharding, "put", lambda batch, mesh: batch)
    monkeypatch.setattr(train, "summarise", lambda sums, tasks: {"loss": 0.0})

    def step(state, batch):
        clock.now += 3.0
        return state, {"tokens": 40.0, "gradient_norm": 1.0}

    def evaluate(params, number):
        clock.now += 1000.0
        return {}

    def batches():
        while True:
            clock.now += 1.0
            yield {}, {}

    rows = []
    metrics = SimpleNamespace(write=lambda number, row, split="train": rows.append(row))
    checkpoints = SimpleNamespace(steps=lambda: [], save=lambda *_: None, wait=lambda: None)
    config = pretrain()
    config.log_every, config.eval_every = 4, 3
    stage = SimpleNamespace(steps=8, tasks=(), trivial={})
    loop = train.Loop(config, stage, None, step, evaluate, checkpoints, metrics)
    loop.run({"params": {}, "skipped": 0}, 0, batches())
    logged = [row for row in rows if "tokens_per_second" in row]
    assert [row["tokens_per_second"] for row in logged] == [pytest.approx(10.0)] * 2
    assert [row["seconds_per_step"] for row in logged] == [pytest.approx(4.0)] * 2
    assert [row["input_wait"] for row in logged] == [pytest.approx(0.25)] * 2
