"""Training, from top to bottom: mesh, stage, workdir, optimizer, state, restore, step, batches, evaluation, loop.

A stage (`stages/`) passes in what differs: encoder, tokenizer, objective, data, starting parameters, number of steps. Here is what
is the same for all. `train` is the story; the functions below it are its parts in the same order, and the dry run uses them too.
The update is in `step.py`.
"""

import contextlib
import dataclasses
import importlib
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import optax
from jax.experimental import multihost_utils
from jax.sharding import Mesh
from ml_collections import ConfigDict

from harp_jax.base.allocator import Growth, return_free_pages
from harp_jax.base.errors import InputError
from harp_jax.base.files import full_disk_refused
from harp_jax.base.progress import progress
from harp_jax.base.version import __version__
from harp_jax.checkpoints.checkpoint import Checkpoints
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.config import check_training
from harp_jax.input.lanes import Batches
from harp_jax.model import sharding
from harp_jax.objectives.objective import not_beaten, summarise
from harp_jax.training.machine import batch_flops, check_memory, peak_flops
from harp_jax.training.stages.stage import HEAD_DIRECTORY, Evaluate, Stage
from harp_jax.training.step import State, initial, make_eval, make_step
from harp_jax.training.workdir import MetricsLog, claim_workdir

log = logging.getLogger(__name__)

CLIP_NORM = 1.0
# Compute matrix products with cuBLASLt: it adds the bias in the same kernel and needs no minute of autotuning. On an H200, kernels
# of BERT-base's step then take .95 of the time.
NO_TRITON = {"xla_gpu_enable_triton_gemm": False}
# Steps dispatched ahead of the one in progress; each allocates its memory when dispatched. One keeps an accelerator busy. A CPU
# gains nothing, since batches are read in a thread; on CPU `train` also runs steps in this thread, unless JAX had started before.
AHEAD, AHEAD_ON_CPU = 1, 0
MAX_SKIPPED = 100  # updates skipped for Inf, NaN or a spike before the run stops, over all of it


@dataclass(frozen=True)
class TrainResult:
    """The last logged training metrics of a run; `interrupted`: SIGTERM ended it before its last step, with its state saved."""

    metrics: dict[str, float]
    interrupted: bool = False


def train(
    config: ConfigDict, workdir: str, stage: Stage | None = None, devices: list[jax.Device] | None = None
) -> TrainResult:
    """Train a stage to its last step, resuming from the workdir. A finished run is left alone. SIGTERM saves the state and ends it.
    `stage` replaces the config's (for example with a custom reader, without TensorFlow); `devices` defaults to all. The workdir may
    be in a bucket (`base/bucket.py`). Raises InputError for bad config or data, for a workdir of another config or in use, for a
    full disk, and when more than MAX_SKIPPED updates were skipped."""
    from harp_jax.base.cli import keep_compiled

    check_training(config)
    keep_compiled()
    # On CPU the loop waits for each step (AHEAD_ON_CPU), but a step's results may be ready before its memory is free: MiniLM with
    # 18 rows of 256 went from 2.9 to 4.1 GB after some 45 steps. With this setting a step runs in the caller's thread and has
    # freed its memory when it returns. No effect once JAX's backend has started.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(full_disk_refused(workdir))

        # Mesh: the devices as data × fsdp × model. All shardings below are of this mesh; on one device they change nothing.
        # (Skip the barrier with one process.)
        mesh = sharding.make_mesh(config, devices)
        if jax.process_count() > 1:
            sharding.barrier(mesh)

        # Stage: reads the data, the tokenizer and the parameters to start from.
        stage = stage_of(config) if stage is None else stage
        encoder, steps = stage.encoder.padded, stage.steps

        # Workdir: locked, and bound to this config and data. In a bucket only checkpoints are written directly; the rest is in a
        # local directory, which is uploaded before each checkpoint. (Skip this unless you train in a bucket.)
        first_process = jax.process_index() == 0
        home, mirror = workdir, None
        if "://" in workdir:
            from harp_jax.base.bucket import Mirror

            mirror = Mirror(workdir, cleanup)
            workdir = mirror.local
        lock = claim_workdir(workdir, config, {"encoder": dataclasses.asdict(stage.encoder)}, stage.tokenizer)
        if lock is not None:
            cleanup.callback(lock.close)
        upload = mirror.send if mirror is not None and first_process else lambda: None
        upload()

        # Optimizer and state. The state is described before it exists, so that it is created, or restored, already sharded.
        optimizer, rate = make_optimizer(config, steps, stage.model.frozen), schedule(config, steps)
        described = abstract_state(stage, optimizer, mesh)
        shardings = jax.tree.map(lambda x: x.sharding, described)

        # Restore the newest checkpoint that verifies, or start: from the parameters of a run that must come first, if there is one.
        checkpoints = Checkpoints(workdir, f"{home}/checkpoints" if mirror is not None else "")
        cleanup.callback(checkpoints.close)
        restored = checkpoints.restore(described)
        if restored is not None:
            start, state, meta = restored
            log.info("resuming at step %d of %d", start, steps)
        else:
            if stage.before is not None:
                prepared = train_head(stage, home, devices)
                if prepared is None:
                    return TrainResult({}, interrupted=True)
                stage = prepared
            params = shard_params(stage.start(encoder, jax.random.key(config.seed)), shardings["params"])
            start, state, meta = 0, jax.jit(lambda p: initial(p, optimizer), out_shardings=shardings)(params), {}
            del params  # the state has a copy

        # Step: one fused, jitted function of state and batch, partitioned by the shardings.
        jitted = jit_step(config, stage, optimizer, shardings, mesh)
        step: jax.stages.Compiled | None = None

        # Batches of this process's lanes, from where the checkpoint stopped; evaluation on held-out pairs and queries.
        lanes = sharding.host_lanes(mesh, config.lanes)
        batches = Batches(stage.source, lanes, meta.get("cursors"), config.workers)
        evaluate = make_evaluate(config, stage, mesh, lanes, workdir)

        # Metrics, and FLOPs for the utilisation (MFU) among them.
        metrics = MetricsLog(workdir, -1 if restored is None else start, first_process)
        cleanup.callback(metrics.close)
        flops = batch_flops(config, stage)
        peak = peak_flops(list(mesh.devices.flat), encoder.dtype)

        # Loop. The parameters are evaluated before training, too.
        if start == 0 and evaluate is not None:
            metrics.write(0, evaluate(state["params"], 0), "validation")
            return_free_pages()
        on_cpu = mesh.devices.flat[0].platform == "cpu"
        growth, ahead = Growth(), AHEAD_ON_CPU if on_cpu else AHEAD
        last: dict[str, float] = {}
        stop, pending, waited, since = False, [], 0.0, time.perf_counter()
        stream = cleanup.enter_context(contextlib.closing(iter(batches)))  # type: ignore[type-var]
        bar = cleanup.enter_context(progress(total=steps, initial=start, unit="steps", desc=config.stage))
        interrupted = cleanup.enter_context(stopped_by_sigterm())
        for number in range(start + 1, steps + 1):
            # The batch was made ahead, in a thread; `cursors` say where the next one begins.
            before = time.perf_counter()
            batch, cursors = next(stream)
            waited += time.perf_counter() - before

            # The step: compiled at the first batch, then dispatched without waiting for its result. The guard makes any accidental
            # copy between host and device an error.
            arrays = sharding.put(batch, mesh)
            if step is None:
                said = "%s: %d steps; compiling the first (seconds for a small encoder, a minute or more for BERT-base)"
                log.info(said, config.stage, steps - start)
                rate(start)  # compiled before the step: leftovers of a later compilation would fragment the heap
                step = jitted.lower(state, arrays).compile()
                if on_cpu:
                    return_free_pages()  # the compiler's
                    check_memory(step, state)
            with jax.transfer_guard("disallow"):
                state, sums = step(state, arrays)
            pending.append(sums)
            if len(pending) > ahead:
                jax.block_until_ready(pending[-1 - ahead])
            growth.after_step()
            bar.update(1)

            # Metrics stay on the device until they are logged.
            if number % config.log_every == 0 or number == steps:
                total, count = add(jax.device_get(pending)), len(pending)
                elapsed, skipped = max(time.perf_counter() - since, 1e-9), float(jax.device_get(state["skipped"]))
                last = summarise(total)
                last |= {
                    "learning_rate": float(rate(number - 1)),
                    "gradient_norm": total["gradient_norm"] / count,
                    "tokens": total["tokens"],
                    "tokens_per_second": total["tokens"] / elapsed,
                    "seconds_per_step": elapsed / count,
                    "input_wait": waited / elapsed,
                    "mfu": flops * count * last["fill"] / elapsed / peak,  # FLOPs spent on padding do not count
                    "skipped": skipped,
                }
                metrics.write(number, last)
                if stage.check is not None:
                    stage.check(number, last)
                if skipped > MAX_SKIPPED:
                    raise InputError(
                        f"{skipped:.0f} updates up to step {number} were skipped because of Inf, NaN or a loss spike. Start in "
                        "another --workdir with a lower learning_rate; --config.init with this workdir starts from its last "
                        "checkpoint"
                    )
                speed = f"{last['tokens_per_second']:.0f}"
                bar.set_postfix(loss=f"{last['loss']:.3f}", tokens_s=speed, refresh=False)
                pending, waited, since = [], 0.0, time.perf_counter()
            if evaluate is not None and config.eval_every and (number % config.eval_every == 0 or number == steps):
                before = time.perf_counter()
                metrics.write(number, evaluate(state["params"], number), "validation")
                return_free_pages()
                since += time.perf_counter() - before

            # Save, and stop after SIGTERM; several processes agree on a step.
            several = jax.process_count() > 1
            terminated = multihost_utils.reached_preemption_sync_point(number) if several else interrupted.is_set()
            stop = terminated and number < steps
            due = number % config.checkpoint_every == 0 or number == steps or stop
            if due and number not in checkpoints.steps():
                upload()
                checkpoints.save(number, state, {"cursors": gather_cursors(cursors), "version": __version__})
                return_free_pages()
            if stop:
                log.warning("interrupted: saved step %d; run the same command again to resume", number)
                break
        checkpoints.wait()
        return TrainResult(last or ({} if stop else last_logged(workdir)), interrupted=stop)


def stage_of(config: ConfigDict, with_data: bool = True) -> Stage:
    """The stage that the config names. Only its own file is imported: they read different data."""
    module = importlib.import_module(f"harp_jax.training.stages.{config.stage}")
    return getattr(module, f"{config.stage}_stage")(config, with_data)


def schedule(config: ConfigDict, steps: int) -> optax.Schedule:
    """Learning rate by step: linear warmup over `warmup`·steps, then "linear" decay to 0, or "constant"."""
    warmup, rate = int(config.warmup * steps), config.learning_rate
    before = optax.linear_schedule(0.0, rate, max(1, warmup))
    after = optax.linear_schedule(rate, 0.0 if config.schedule == "linear" else rate, max(1, steps - warmup))
    return optax.join_schedules([before, after], [warmup])


def decayed(params: dict) -> dict:
    """Mask of the parameters that weight decay applies to: all but biases and layer norms."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: path[-1].key != "scale" and "bias" not in path[-1].key, params
    )


def make_optimizer(config: ConfigDict, steps: int, frozen: Sequence[str] = ()) -> optax.GradientTransformation:
    """Clipping by global norm, Adam (with decoupled weight decay if configured), and the schedule; not for `frozen` subtrees."""
    trained = optax.chain(
        optax.clip_by_global_norm(CLIP_NORM),
        optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-6),
        *([optax.add_decayed_weights(config.weight_decay, mask=decayed)] if config.weight_decay else []),
        optax.scale_by_learning_rate(schedule(config, steps)),
    )
    if not frozen:
        return trained
    return optax.masked(trained, lambda params: {name: name not in frozen for name in params})


def abstract_state(stage: Stage, optimizer: optax.GradientTransformation, mesh: Mesh) -> State:
    """The state as ShapeDtypeStructs with shardings, without allocating it."""
    wide = stage.encoder.padded.computing_in("float32")
    tree = jax.eval_shape(lambda: initial(stage.model.init(wide, jax.random.key(0)), optimizer))
    shardings = sharding.param_shardings(mesh, tree, stage.model.rules(wide))
    return jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), tree, shardings)


def train_head(stage: Stage, workdir: str, devices: list[jax.Device] | None) -> Stage | None:
    """The stage that starts from the parameters of `stage.before`, after training these; None if that was interrupted."""
    from harp_jax.base.bucket import fetched
    from harp_jax.checkpoints.start import load_encoder, starting_params

    assert stage.before is not None
    config, alone = stage.before(stage)
    directory = os.path.join(workdir, HEAD_DIRECTORY)
    log.info("%s has no MLM head: training one for %d steps in %s first", config.init, alone.steps, directory)
    if train(config, directory, alone, devices).interrupted:
        return None
    with fetched(directory) as local:
        loaded = load_encoder(local)[1]
    return dataclasses.replace(stage, start=starting_params(loaded, (), stage.tokenizer.size))


def shard_params(params: dict, shardings: dict) -> dict:
    """Host parameters (numpy) as sharded arrays; every process has all of them and places its shards."""
    return jax.tree.map(
        lambda x, s: jax.make_array_from_callback(x.shape, s, lambda index: x[index]), params, dict(shardings)
    )


def jit_step(
    config: ConfigDict, stage: Stage, optimizer: optax.GradientTransformation, shardings: Any, mesh: Mesh
) -> jax.stages.Wrapped:
    """The jitted step, partitioned over the mesh; the state, of NamedShardings `shardings`, is donated."""
    return jax.jit(
        make_step(stage.objective, optimizer, config.seed, config.prng, stage.encoder.drops, stage.spike),
        donate_argnums=0,
        in_shardings=(shardings, sharding.batch_sharding(mesh, config.accumulate)),
        out_shardings=(shardings, sharding.replicated(mesh)),
        compiler_options=NO_TRITON if mesh.devices.flat[0].platform == "gpu" else None,
    )


def make_evaluate(config: ConfigDict, stage: Stage, mesh: Mesh, lanes: Sequence[int], workdir: str) -> Evaluate | None:
    """The objective on the same `eval_batches` held-out batches each time, and selection by held-out queries, whichever the stage
    has; None if it has neither. At the last step the log names the tasks that are not better than a trivial predictor."""
    held_out, select = stage.held_out, stage.select and stage.select(stage.encoder.padded, workdir)
    if held_out is None and select is None:
        return None
    fixed: list[dict[str, np.ndarray]] = []
    if held_out is not None:
        layout = dataclasses.replace(stage.source.layout, microbatches=1)
        source = dataclasses.replace(stage.source, reader=held_out.reader, layout=layout, window=config.window)
        batches = Batches(source, lanes)
        fixed = [batches.make()[0] for _ in range(config.eval_batches)]
    compute = jax.jit(make_eval(stage.objective, config.seed), out_shardings=sharding.replicated(mesh))

    def evaluate(params: dict, step: int) -> dict[str, float]:
        metrics: dict[str, float] = {}
        if held_out is not None:
            sums = add([jax.device_get(compute(params, sharding.put(batch, mesh))) for batch in fixed])
            metrics = summarise(sums)
            for task in held_out.trivial:
                # The stream repeats its records, and a pair that is evaluated twice counts once.
                metrics[f"{task}_pairs"] = min(sums.get(f"pairs/{task}", 0.0), held_out.reader.sizes[task])
            for sentence in not_beaten(metrics, held_out.trivial) if step == stage.steps else ():
                log.warning("%s", sentence)
        if select is not None:
            if jax.process_count() > 1:  # each host may hold only a part (`mesh.fsdp`, `mesh.model`)
                params = jax.device_put(multihost_utils.process_allgather(params, tiled=True))
            metrics |= select(params, step)
        return metrics

    return evaluate


def add(rows: list[Mapping[str, Any]]) -> dict[str, float]:
    """Sums of metric sums."""
    return {name: float(np.sum([row[name] for row in rows], dtype=np.float64)) for name in rows[0]}


def gather_cursors(cursors: Mapping[str, Any]) -> dict[str, Any]:
    """The cursors of the lanes of all hosts, on every host."""
    if jax.process_count() == 1:
        return dict(cursors)
    text = np.frombuffer(json.dumps(cursors).encode(), np.uint8)
    length = int(np.max(multihost_utils.process_allgather(np.asarray(len(text), np.int32))))
    rows = multihost_utils.process_allgather(np.pad(text, (0, length - len(text)), constant_values=ord(" ")))
    return {lane: cursor for row in rows for lane, cursor in json.loads(bytes(row)).items()}


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


def last_logged(workdir: str) -> dict[str, float]:
    """The last training metrics in a workdir's log; empty if nothing was logged."""
    rows = [row for row in read_metrics(workdir) if row["split"] == "train"]
    return {name: value for name, value in rows[-1].items() if name not in ("step", "split")} if rows else {}
