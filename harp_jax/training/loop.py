"""The training loop that all stages share: mesh, data, state, step, restore, run."""

import contextlib
import dataclasses
import itertools
import json
import logging
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from harp_jax import __version__
from harp_jax.checkpoints.checkpoint import Checkpoints
from harp_jax.cli import keep_compiled
from harp_jax.errors import InputError
from harp_jax.input.lanes import Batches
from harp_jax.model import sharding
from harp_jax.model.bert import BertConfig
from harp_jax.objectives.pretrain import summarise
from harp_jax.progress import progress
from harp_jax.stages import families as models
from harp_jax.stages.base import Stage
from harp_jax.stages.table import STAGES
from harp_jax.training.cost import batch_flops
from harp_jax.training.hardware import peak_flops
from harp_jax.training.metrics_log import MetricsLog
from harp_jax.training.optimizer import make as make_optimizer
from harp_jax.training.optimizer import schedule
from harp_jax.training.step import initial, make_eval, make_step
from harp_jax.training.workdir import claim_workdir, room_on_disk

log = logging.getLogger(__name__)


def train(
    config: ConfigDict, workdir: str, stage: Stage | None = None, devices: list | None = None
) -> dict[str, float]:
    """Runs a stage to its last step, resuming from the workdir; returns the last logged metrics.

    A run that SIGTERM ended returns {"interrupted": 1.0}, its state saved. `stage` replaces the one that the config
    describes (a reader of one's own, without TensorFlow); `devices` all devices.

    Raises InputError for bad config or data, and where the workdir belongs to another config.
    """
    if config.stage not in STAGES:
        raise InputError(f"unknown stage {config.stage!r}; choose from {', '.join(STAGES)}")
    set_up_cache(config)
    with contextlib.ExitStack() as at_the_end:
        at_the_end.enter_context(room_on_disk(workdir))
        return _train(config, workdir, stage, devices, at_the_end)


def _train(
    config: ConfigDict, workdir: str, stage: Stage | None, devices: list | None, at_the_end: contextlib.ExitStack
) -> dict[str, float]:
    mesh = sharding.make_mesh(config, devices)
    stage = STAGES[config.stage](config) if stage is None else stage
    shape = dataclasses.replace(stage.bert, vocab_size=sharding.padded_vocab(stage.bert.vocab_size, mesh))
    lock = claim_workdir(workdir, config, stage)
    if lock is not None:
        at_the_end.callback(lock.close)

    optimizer = make_optimizer(config, stage.steps)
    shardings = state_shardings(shape, optimizer, mesh)
    checkpoints = Checkpoints(workdir, config.keep_checkpoints)
    at_the_end.callback(checkpoints.close)
    restored = checkpoints.restore(abstract_state(shape, optimizer, shardings))
    if restored is None:
        params = place(stage.start(shape, jax.random.key(config.seed)), shardings["params"])
        state = jax.jit(lambda p: initial(p, optimizer), out_shardings=shardings)(params)
        start, cursors = 0, None
    else:
        start, state, meta = restored
        cursors = meta["cursors"]
        log.info("resuming at step %d of %d", start, stage.steps)

    objective = stage.objective(shape)
    step = jit_step(config, objective, optimizer, shardings, mesh)
    lanes = sharding.host_lanes(mesh, config.lanes)
    batches = Batches(
        stage.reader, stage.layout, lanes, stage.shares, stage.window or config.window, config.seed, cursors
    )
    if stage.selection is None:
        evaluate = make_evaluate(config, stage, objective, mesh, lanes)
    else:
        evaluate = stage.selection(shape, workdir)
    metrics_log = MetricsLog(workdir, -1 if restored is None else start, enabled=jax.process_index() == 0)
    at_the_end.callback(metrics_log.close)
    loop = Loop(config, stage, mesh, step, evaluate, checkpoints, metrics_log)
    if isinstance(shape, BertConfig):
        loop.flops = batch_flops(config, shape, stage.layout)
        loop.peak = peak_flops(list(mesh.devices.flat), shape.dtype)
    return loop.run(state, start, batches)


def jit_step(config: ConfigDict, objective: Any, optimizer: Any, shardings: Any, mesh: Any) -> Any:
    """The step, partitioned over the mesh; its state is donated."""
    shape = objective.ranker.config
    dropout = shape.dropout > 0 or shape.attention_dropout > 0
    return jax.jit(
        make_step(objective, optimizer, config.seed, config.prng, dropout, config.spike),
        donate_argnums=0,
        in_shardings=(shardings, sharding.batch_sharding(mesh, config.accumulate)),
        out_shardings=(shardings, sharding.replicated(mesh)),
    )


class Loop:
    """The loop itself. `interrupted` makes it save and end at the next step (SIGTERM sets it)."""

    def __init__(
        self,
        config: ConfigDict,
        stage: Stage,
        mesh: Any,
        step: Any,
        evaluate: Any,
        checkpoints: Checkpoints,
        metrics: MetricsLog,
    ) -> None:
        self.config, self.stage, self.mesh, self.step = config, stage, mesh, step
        self.evaluate, self.checkpoints, self.metrics = evaluate, checkpoints, metrics
        self.rate = schedule(config, stage.steps)
        self.interrupted = threading.Event()
        self.flops = self.peak = 0.0  # of a step with full rows; of all devices at best, each second

    def run(self, state: Any, start: int, batches: Batches) -> dict[str, float]:
        """Steps `start` … `stage.steps`; returns the last logged metrics."""
        config, steps = self.config, self.stage.steps
        pending: list[Any] = []
        last: dict[str, float] = {}
        if start == 0 and self.evaluate is not None:
            self.metrics.write(0, self.evaluate(state["params"], 0), "validation")
        waited, since = 0.0, time.perf_counter()
        stream = iter(batches)
        saved = start
        with progress(total=steps, initial=start, unit="steps", desc=config.stage) as bar, _sigterm(self.interrupted):
            for number in range(start + 1, steps + 1):
                before = time.perf_counter()
                batch, cursors = next(stream)
                waited += time.perf_counter() - before
                arrays = sharding.put(batch, self.mesh)
                with jax.transfer_guard("disallow"):
                    state, metrics = self.step(state, arrays)
                pending.append(metrics)
                bar.update(1)
                if number % config.log_every == 0 or number == steps:
                    last = self._log(number, state, pending, waited, since)
                    bar.set_postfix(
                        loss=f"{last['loss']:.3f}", tokens_s=f"{last['tokens_per_second']:.0f}", refresh=False
                    )
                    pending, waited, since = [], 0.0, time.perf_counter()
                due = config.eval_every and (number % config.eval_every == 0 or number == steps)
                if due and self.evaluate is not None:
                    before = time.perf_counter()
                    self.metrics.write(number, self.evaluate(state["params"], number), "validation")
                    since += time.perf_counter() - before
                stop = self._stops(number)
                if number % config.checkpoint_every == 0 or number == steps or stop:
                    self._save(number, state, cursors)
                    saved = number
                if stop:
                    log.warning("interrupted: saved step %d; run the same command again to go on", saved)
                    last = {"interrupted": 1.0}
                    break
        stream.close()  # type: ignore[attr-defined]
        self.checkpoints.wait()
        return last

    def _stops(self, step: int) -> bool:
        """Whether to save and end now; all processes answer alike."""
        if jax.process_count() > 1:
            from jax.experimental import multihost_utils

            return multihost_utils.reached_preemption_sync_point(step)
        return self.interrupted.is_set()

    def _log(self, step: int, state: Any, pending: list[Any], waited: float, since: float) -> dict[str, float]:
        sums = add(jax.device_get(pending))
        elapsed = max(time.perf_counter() - since, 1e-9)
        out = summarise(sums, self.stage.tasks)
        out["learning_rate"] = float(self.rate(step - 1))
        out["gradient_norm"] = sums["gradient_norm"] / len(pending)
        out["tokens_per_second"] = sums["tokens"] / elapsed
        out["input_wait"] = waited / elapsed
        if self.peak:
            # Padding is no use: only the share of the FLOPs that real tokens take counts.
            out["mfu"] = self.flops * len(pending) * out["fill"] / elapsed / self.peak
        out["skipped"] = float(jax.device_get(state["skipped"]))
        self.metrics.write(step, out)
        if out["skipped"] > self.config.max_skipped:
            raise InputError(
                f"{out['skipped']:.0f} updates were skipped for Inf, NaN or a spike up to step {step}; lower learning_rate. "
                f"The last checkpoint in {self.checkpoints.directory} is kept"
            )
        return out

    def _save(self, step: int, state: Any, cursors: Mapping[str, Any]) -> None:
        if step in self.checkpoints.steps():
            return
        self.checkpoints.save(step, state, {"cursors": gather_cursors(cursors), "version": __version__})


def add(rows: list[Mapping[str, Any]]) -> dict[str, float]:
    """Sums of metric sums."""
    return {name: float(np.sum([row[name] for row in rows], dtype=np.float64)) for name in rows[0]}


def gather_cursors(cursors: Mapping[str, Any]) -> dict[str, Any]:
    """The cursors of all hosts' lanes, on every host."""
    if jax.process_count() == 1:
        return dict(cursors)
    from jax.experimental import multihost_utils

    text = json.dumps(cursors).encode()
    length = multihost_utils.process_allgather(np.asarray(len(text), np.int32))
    buffer = np.zeros(int(np.max(length)), np.uint8)
    buffer[: len(text)] = np.frombuffer(text, np.uint8)
    rows = multihost_utils.process_allgather(buffer)
    merged = [json.loads(bytes(row[:n])) for row, n in zip(rows, length)]
    return dict(itertools.chain.from_iterable(m.items() for m in merged))


def make_evaluate(config: ConfigDict, stage: Stage, objective: Any, mesh: Any, lanes: range) -> Any:
    """A function from parameters and step to held-out metrics over the same few batches every time, or None."""
    if stage.held_out is None:
        return None
    layout = dataclasses.replace(stage.layout, microbatches=1)
    batches = Batches(stage.held_out, layout, lanes, stage.shares, config.window, config.seed)
    fixed = [batches.make()[0] for _ in range(config.eval_batches)]
    compute = jax.jit(make_eval(objective, config.seed), out_shardings=sharding.replicated(mesh))

    def evaluate(params: Any, step: int) -> dict[str, float]:
        return summarise(add([jax.device_get(compute(params, sharding.put(b, mesh))) for b in fixed]), stage.tasks)

    return evaluate


def abstract_state(shape: Any, optimizer: Any, shardings: Any) -> Any:
    """The state's shapes and dtypes with their shardings, without making it."""
    tree = _state_shapes(shape, optimizer)
    return jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), tree, shardings)


def state_shardings(shape: Any, optimizer: Any, mesh: Any) -> Any:
    """Where every leaf of the state lies."""
    return sharding.param_shardings(mesh, _state_shapes(shape, optimizer), models.rules(shape))


def _state_shapes(shape: Any, optimizer: Any) -> Any:
    wide = dataclasses.replace(shape, dtype="float32")
    return jax.eval_shape(lambda: initial(models.init_params(wide, jax.random.key(0)), optimizer))


def place(params: dict, shardings: dict) -> dict:
    """Puts host parameters where they belong; every process holds all of them and keeps its part."""
    return jax.tree.map(
        lambda x, s: jax.make_array_from_callback(x.shape, s, lambda index: x[index]), params, dict(shardings)
    )


def set_up_cache(config: ConfigDict) -> None:
    """Compiled programs are kept between runs (16 s of compilation become one)."""
    if config.compilation_cache:
        keep_compiled()


class _sigterm:
    """While open, SIGTERM sets the event instead of killing the process (in the main thread only)."""

    def __init__(self, event: threading.Event) -> None:
        self.event = event

    def __enter__(self) -> None:
        self.previous = None
        if threading.current_thread() is threading.main_thread() and jax.process_count() == 1:
            self.previous = signal.signal(signal.SIGTERM, lambda *_: self.event.set())

    def __exit__(self, *_: object) -> None:
        if self.previous is not None:
            signal.signal(signal.SIGTERM, self.previous)
