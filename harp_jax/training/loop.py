"""The training loop of all stages: step, log, evaluate, checkpoint, stop on SIGTERM."""

import contextlib
import itertools
import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress
from harp_jax.base.version import __version__
from harp_jax.checkpoints.checkpoint import Checkpoints
from harp_jax.input.lanes import Batches
from harp_jax.model import sharding
from harp_jax.objectives.objective import Metrics, summarise
from harp_jax.training.machine import check_memory
from harp_jax.training.stages.stage import Evaluate
from harp_jax.training.step import State
from harp_jax.training.workdir import MetricsLog

log = logging.getLogger(__name__)

# Steps dispatched ahead of the one in progress; each allocates its memory when dispatched. One keeps an accelerator busy. A CPU
# gains nothing, since batches are read in a thread; on CPU `train` also runs steps in this thread, unless JAX had started before.
AHEAD, AHEAD_ON_CPU = 1, 0

MAX_SKIPPED = 100  # updates skipped for Inf, NaN or a spike before the run stops, over all of it

Step = Callable[[State, dict[str, jax.Array]], tuple[State, Metrics]]


@dataclass(frozen=True)
class TrainResult:
    """The last logged training metrics of a run; `interrupted`: SIGTERM ended it before its last step, with its state saved."""

    metrics: dict[str, float]
    interrupted: bool = False


@dataclass
class Loop:
    """What the loop needs besides the state and the batches. `rate`: steps done → learning rate. `flops`: FLOPs of a step with full
    rows; `peak`: FLOP/s of all devices. `before_save` is called before each checkpoint."""

    config: ConfigDict
    steps: int
    mesh: Mesh
    step: jax.stages.Wrapped
    rate: optax.Schedule
    evaluate: Evaluate | None
    checkpoints: Checkpoints
    metrics: MetricsLog
    flops: float
    peak: float
    before_save: Callable[[], None]
    check: Callable[[int, Mapping[str, float]], None] | None = None  # see `Stage.check`

    def run(self, state: State, start: int, batches: Batches) -> TrainResult:
        """Run steps `start + 1` … `steps`, or save and end after the current step when SIGTERM arrives. The result has no metrics
        if no step is left. Raises InputError when more than MAX_SKIPPED updates were skipped."""
        config, steps, step, stop = self.config, self.steps, None, False
        last: dict[str, float] = {}
        if start == 0:
            self._evaluate(0, state)
        pending, waited, since = [], 0.0, time.perf_counter()
        ahead = AHEAD_ON_CPU if self.mesh.devices.flat[0].platform == "cpu" else AHEAD
        with (
            contextlib.closing(iter(batches)) as stream,  # type: ignore[type-var]
            progress(total=steps, initial=start, unit="steps", desc=config.stage) as bar,
            stopped_by_sigterm() as interrupted,
        ):
            for number in range(start + 1, steps + 1):
                # The batch was made ahead, in a thread; `cursors` say where the next one begins.
                before = time.perf_counter()
                batch, cursors = next(stream)
                waited += time.perf_counter() - before

                # The step: compiled at the first batch, then dispatched without waiting for its result. The guard makes any
                # accidental copy between host and device an error.
                arrays = sharding.put(batch, self.mesh)
                step = step or self._compiled(state, arrays, number - 1)
                with jax.transfer_guard("disallow"):
                    state, sums = step(state, arrays)
                pending.append(sums)
                if len(pending) > ahead:
                    jax.block_until_ready(pending[-1 - ahead])
                bar.update(1)

                # Metrics stay on the device until they are logged.
                if number % config.log_every == 0 or number == steps:
                    last = self._log(number, state, pending, waited, since)
                    bar.set_postfix(
                        loss=f"{last['loss']:.3f}", tokens_s=f"{last['tokens_per_second']:.0f}", refresh=False
                    )
                    pending, waited, since = [], 0.0, time.perf_counter()
                if config.eval_every and (number % config.eval_every == 0 or number == steps):
                    before = time.perf_counter()
                    self._evaluate(number, state)
                    since += time.perf_counter() - before

                stop = _stops(number, interrupted) and number < steps
                if number % config.checkpoint_every == 0 or number == steps or stop:
                    self._save(number, state, cursors)
                if stop:
                    log.warning("interrupted: saved step %d; run the same command again to resume", number)
                    break
        self.checkpoints.wait()
        return TrainResult(last, interrupted=stop)

    def _compiled(self, state: State, batch: dict[str, jax.Array], done: int) -> Step:
        """The compiled step, after `done` steps. Raises InputError if it does not fit this machine."""
        log.info(
            "%s: %d steps; compiling the first (seconds for a small encoder, a minute or more for BERT-base)",
            self.config.stage,
            self.steps - done,
        )
        # Compile the schedule before the step: leftovers of a later compilation would fragment the heap.
        self.rate(done)
        step = self.step.lower(state, batch).compile()
        if self.mesh.devices.flat[0].platform == "cpu":
            check_memory(step, state)
        return step

    def _evaluate(self, step: int, state: State) -> None:
        if self.evaluate is not None:
            self.metrics.write(step, self.evaluate(state["params"], step), "validation")

    def _log(self, step: int, state: State, pending: list[Metrics], waited: float, since: float) -> dict[str, float]:
        sums = add(jax.device_get(pending))
        elapsed = max(time.perf_counter() - since, 1e-9)
        out = summarise(sums)
        out["learning_rate"] = float(self.rate(step - 1))
        out["gradient_norm"] = sums["gradient_norm"] / len(pending)
        out["tokens"] = sums["tokens"]
        out["tokens_per_second"] = sums["tokens"] / elapsed
        out["seconds_per_step"] = elapsed / len(pending)
        out["input_wait"] = waited / elapsed
        # FLOPs spent on padding do not count.
        out["mfu"] = self.flops * len(pending) * out["fill"] / elapsed / self.peak
        out["skipped"] = float(jax.device_get(state["skipped"]))
        self.metrics.write(step, out)
        if self.check is not None:
            self.check(step, out)
        if out["skipped"] > MAX_SKIPPED:
            raise InputError(
                f"{out['skipped']:.0f} updates up to step {step} were skipped because of Inf, NaN or a loss spike. Start in "
                "another --workdir with a lower learning_rate; --config.init with this workdir starts from its last checkpoint"
            )
        return out

    def _save(self, step: int, state: State, cursors: Mapping[str, Any]) -> None:
        if step not in self.checkpoints.steps():
            self.before_save()
            self.checkpoints.save(step, state, {"cursors": gather_cursors(cursors), "version": __version__})


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


def _stops(step: int, interrupted: threading.Event) -> bool:
    """Whether to save and end now; the same on all processes."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        return multihost_utils.reached_preemption_sync_point(step)
    return interrupted.is_set()


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[threading.Event]:
    """The event that SIGTERM sets in this block instead of killing the process (main thread, single process only)."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread() or jax.process_count() > 1:
        yield event
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGTERM, previous)
