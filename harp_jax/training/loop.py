"""The training loop of all stages: step, log, evaluate, checkpoint, stop on SIGTERM."""

import contextlib
import itertools
import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from harp_jax.base.allocator import Growth, return_free_pages
from harp_jax.base.bucket import Mirror
from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress
from harp_jax.base.version import __version__
from harp_jax.checkpoints.checkpoint import Checkpoints
from harp_jax.input.lanes import Batches
from harp_jax.model import sharding
from harp_jax.objectives.objective import Metrics, not_beaten, summarise
from harp_jax.training.machine import check_memory
from harp_jax.training.stages.stage import Stage
from harp_jax.training.step import State
from harp_jax.training.workdir import MetricsLog

log = logging.getLogger(__name__)

# Steps dispatched ahead of the one in progress; each allocates its memory when dispatched. One keeps an accelerator busy. A CPU
# gains nothing, since batches are read in a thread; on CPU `train` also runs steps in this thread, unless JAX had started before.
AHEAD, AHEAD_ON_CPU = 1, 0

MAX_SKIPPED = 100  # updates skipped for Inf, NaN or a spike before the run stops, over all of it


@dataclass
class Loop:
    """The training loop. When `interrupted` is set (by SIGTERM), it saves and ends after the current step.

    `step`: state, batch → state, metric sums. `rate`: steps done → learning rate. `evaluate`: parameters, step → held-out metrics.
    `flops`: FLOPs of a step with full rows; `peak`: FLOP/s of all devices (0: MFU is not logged). `mirror`: for a workdir in a
    bucket; sends the metrics before each checkpoint.
    """

    config: ConfigDict
    stage: Stage
    mesh: Mesh
    step: Callable[[State, dict[str, jax.Array]], tuple[State, Metrics]]
    rate: Callable[[int], Any]
    evaluate: Callable[[dict, int], dict[str, float]] | None
    checkpoints: Checkpoints
    metrics: MetricsLog
    flops: float = 0.0
    peak: float = 0.0
    mirror: Mirror | None = None
    interrupted: threading.Event = field(default_factory=threading.Event)

    def run(self, state: State, start: int, batches: Batches) -> dict[str, float]:
        """Run steps `start + 1` … `stage.steps`; returns the last logged metrics (none if no step is left),
        {"interrupted": 1.0} if interrupted before the last step.

        Raises InputError when more than MAX_SKIPPED updates were skipped.
        """
        config, steps = self.config, self.stage.steps
        last: dict[str, float] = {}
        if start == 0 and self.evaluate is not None:
            self.metrics.write(0, self.evaluate(state["params"], 0), "validation")
        pending, waited, since = [], 0.0, time.perf_counter()
        growth = Growth()
        ahead = AHEAD_ON_CPU if self.mesh.devices.flat[0].platform == "cpu" else AHEAD
        with (
            contextlib.closing(iter(batches)) as stream,  # type: ignore[type-var]
            progress(total=steps, initial=start, unit="steps", desc=config.stage) as bar,
            _sigterm(self.interrupted),
        ):
            for number in range(start + 1, steps + 1):
                before = time.perf_counter()
                batch, cursors = next(stream)
                waited += time.perf_counter() - before
                state, metrics = self._update(state, sharding.put(batch, self.mesh), number - 1)
                pending.append(metrics)
                if len(pending) > ahead:
                    jax.block_until_ready(pending[-1 - ahead])
                growth.after_step()
                bar.update(1)
                if number % config.log_every == 0 or number == steps:
                    last = self._log(number, state, pending, waited, since)
                    bar.set_postfix(
                        loss=f"{last['loss']:.3f}", tokens_s=f"{last['tokens_per_second']:.0f}", refresh=False
                    )
                    pending, waited, since = [], 0.0, time.perf_counter()
                if config.eval_every and (number % config.eval_every == 0 or number == steps):
                    since += self._evaluate(number, state)
                stop = self._stops(number)
                if number % config.checkpoint_every == 0 or number == steps or stop:
                    self._save(number, state, cursors)
                if stop and number < steps:
                    log.warning("interrupted: saved step %d; run the same command again to resume", number)
                    last = {"interrupted": 1.0}
                    break
        self.checkpoints.wait()
        return last

    def _update(self, state: State, batch: dict[str, jax.Array], done: int) -> tuple[State, Metrics]:
        """One step, after `done` steps. The first call compiles it; raises InputError if it does not fit this machine."""
        if isinstance(self.step, jax.stages.Wrapped):
            log.info(
                "%s: %d steps; compiling the first (seconds for a small encoder, a minute or more for BERT-base)",
                self.config.stage,
                self.stage.steps - done,
            )
            # Compile the schedule before the step: leftovers of a later compilation would fragment the heap.
            self.rate(done)
            self.step = self.step.lower(state, batch).compile()
            if self.mesh.devices.flat[0].platform == "cpu":
                return_free_pages()  # the compiler's
                check_memory(self.step, state)
        with jax.transfer_guard("disallow"):
            return self.step(state, batch)

    def _evaluate(self, step: int, state: State) -> float:
        """Logs held-out metrics and, at the last step, tasks not better than a trivial predictor; returns the seconds it took."""
        before = time.perf_counter()
        if self.evaluate is not None:
            found = self.evaluate(state["params"], step)
            self.metrics.write(step, found, "validation")
            if step == self.stage.steps:
                for sentence in not_beaten(found, self.stage.trivial):
                    log.warning("%s", sentence)
            return_free_pages()
        return time.perf_counter() - before

    def _stops(self, step: int) -> bool:
        """Whether to save and end now; the same on all processes."""
        if jax.process_count() > 1:
            from jax.experimental import multihost_utils

            return multihost_utils.reached_preemption_sync_point(step)
        return self.interrupted.is_set()

    def _log(self, step: int, state: State, pending: list[Metrics], waited: float, since: float) -> dict[str, float]:
        sums = add(jax.device_get(pending))
        elapsed = max(time.perf_counter() - since, 1e-9)
        out = summarise(sums, self.stage.tasks)
        out["learning_rate"] = float(self.rate(step - 1))
        out["gradient_norm"] = sums["gradient_norm"] / len(pending)
        out["tokens"] = sums["tokens"]
        out["tokens_per_second"] = sums["tokens"] / elapsed
        out["seconds_per_step"] = elapsed / len(pending)
        out["input_wait"] = waited / elapsed
        if self.peak:
            # FLOPs spent on padding do not count.
            out["mfu"] = self.flops * len(pending) * out["fill"] / elapsed / self.peak
        out["skipped"] = float(jax.device_get(state["skipped"]))
        self.metrics.write(step, out)
        if self.stage.check is not None:
            self.stage.check(step, out)
        if out["skipped"] > MAX_SKIPPED:
            raise InputError(
                f"{out['skipped']:.0f} updates up to step {step} were skipped because of Inf, NaN or a loss spike. Start in "
                "another --workdir with a lower learning_rate; --config.init with this workdir starts from its last checkpoint"
            )
        return out

    def _save(self, step: int, state: State, cursors: Mapping[str, Any]) -> None:
        if step in self.checkpoints.steps():
            return
        if self.mirror is not None:
            self.mirror.send()
        self.checkpoints.save(step, state, {"cursors": gather_cursors(cursors), "version": __version__})
        return_free_pages()


def add(rows: list[Mapping[str, Any]]) -> dict[str, float]:
    """Sums of metric sums."""
    return {name: float(np.sum([row[name] for row in rows], dtype=np.float64)) for name in rows[0]}


def gather_cursors(cursors: Mapping[str, Any]) -> dict[str, Any]:
    """The cursors of the lanes of all hosts, on every host."""
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


class _sigterm:
    """Context in which SIGTERM sets the event instead of killing the process (main thread, single process only)."""

    def __init__(self, event: threading.Event) -> None:
        self.event = event

    def __enter__(self) -> None:
        self.previous = None
        if threading.current_thread() is threading.main_thread() and jax.process_count() == 1:
            self.previous = signal.signal(signal.SIGTERM, lambda *_: self.event.set())

    def __exit__(self, *_: object) -> None:
        if self.previous is not None:
            signal.signal(signal.SIGTERM, self.previous)
