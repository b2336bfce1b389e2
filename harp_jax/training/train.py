"""Train a stage: mesh, stage, workdir, restored or initial state, step, batches, evaluation, loop."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable

import jax
import optax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from harp_jax.base.cli import keep_compiled
from harp_jax.checkpoints.checkpoint import Checkpoints
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.config import check_training
from harp_jax.input.lanes import Batches
from harp_jax.model import sharding
from harp_jax.objectives.objective import Objective, summarise
from harp_jax.training import balance
from harp_jax.training.cost import batch_flops, peak_flops
from harp_jax.training.loop import Loop, add
from harp_jax.training.metrics_log import MetricsLog, WandbLog
from harp_jax.training.stages.base import Stage
from harp_jax.training.stages.families import Shape
from harp_jax.training.stages.table import STAGES, check_inputs
from harp_jax.training.state import Shardings, abstract_state, make_optimizer, place, state_shardings
from harp_jax.training.step import initial, make_eval, make_step
from harp_jax.training.workdir import claim_workdir, disk_full_as_input_error

log = logging.getLogger(__name__)


def train(
    config: ConfigDict, workdir: str, stage: Stage | None = None, devices: list[jax.Device] | None = None
) -> dict[str, float]:
    """Train a stage to its last step, resuming from the workdir; returns the last logged metrics.

    A finished run is left alone; its last metrics are returned. After SIGTERM the state is saved and {"interrupted": 1.0}
    returned. `stage` replaces the config's (for example with a custom reader, without TensorFlow); `devices` defaults to all.

    Raises InputError for bad config (`ranges`) or data, for a workdir of another config or in use, and for a full disk.
    """
    check_training(config)
    if stage is None:
        check_inputs(config)
    keep_compiled()
    # On CPU the loop waits for each step (`loop.AHEAD_ON_CPU`), but a step's results may be ready before its memory is free: MiniLM
    # with 18 rows of 256 went from 2.9 to 4.1 GB after some 45 steps. With this setting steps run in the caller's thread, which has
    # given the memory back. No effect once JAX's backend has started.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(disk_full_as_input_error(workdir))
        return _train(config, workdir, stage, devices, cleanup)


def _train(
    config: ConfigDict,
    workdir: str,
    stage: Stage | None,
    devices: list[jax.Device] | None,
    cleanup: contextlib.ExitStack,
) -> dict[str, float]:
    mesh = sharding.make_mesh(config, devices)
    if jax.process_count() > 1:
        sharding.meet(mesh)
    stage = STAGES[config.stage](config) if stage is None else stage
    shape = padded(stage.shape, mesh)
    lock = claim_workdir(workdir, config, stage)
    if lock is not None:
        cleanup.callback(lock.close)

    optimizer = make_optimizer(config, stage.steps)
    shardings = state_shardings(stage.family, shape, optimizer, mesh)
    checkpoints = Checkpoints(workdir)
    cleanup.callback(checkpoints.close)
    restored = checkpoints.restore(abstract_state(stage.family, shape, optimizer, shardings))
    if restored is None and balance.head_is_due(config, stage):
        trained = balance.with_trained_head(config, workdir, stage, functools.partial(train, devices=devices))
        if trained is None:
            return {"interrupted": 1.0}
        stage = trained
    if restored is None:
        params = place(stage.start(shape, jax.random.key(config.seed)), shardings["params"])
        state = jax.jit(lambda p: initial(p, optimizer), out_shardings=shardings)(params)
        del params  # the state has a copy
        start, cursors = 0, None
    else:
        start, state, meta = restored
        cursors = meta["cursors"]
        log.info("resuming at step %d of %d", start, stage.steps)

    objective = stage.objective(shape)
    step = jit_step(config, objective, shape.drops, optimizer, shardings, mesh, stage.spike)
    lanes = sharding.host_lanes(mesh, config.lanes)
    batches = Batches(
        stage.reader, stage.layout, lanes, stage.shares, stage.window or config.window, config.seed, cursors
    )
    if stage.selection is None:
        evaluate = make_evaluate(config, stage, objective, mesh, lanes)
    else:
        evaluate = stage.selection(shape, workdir)
    first_process = jax.process_index() == 0
    wandb = WandbLog(config.wandb, workdir, config.to_dict()) if config.wandb and first_process else None
    metrics_log = MetricsLog(workdir, -1 if restored is None else start, first_process, wandb)
    cleanup.callback(metrics_log.close)
    flops = batch_flops(config, stage, shape, objective)
    peak = peak_flops(list(mesh.devices.flat), shape.dtype) if flops else 0.0
    loop = Loop(config, stage, mesh, step, evaluate, checkpoints, metrics_log, flops, peak)
    return loop.run(state, start, batches) or last_logged(workdir)


def last_logged(workdir: str) -> dict[str, float]:
    """The last training metrics in a workdir's log; empty where nothing was logged."""
    rows = [row for row in read_metrics(workdir) if row["split"] == "train"]
    return {name: value for name, value in rows[-1].items() if name not in ("step", "split")} if rows else {}


def padded(shape: Shape, mesh: Mesh) -> Shape:
    """The shape with its vocabulary padded for the mesh."""
    return dataclasses.replace(shape, vocab_size=sharding.padded_vocab(shape.vocab_size, mesh))


def jit_step(
    config: ConfigDict,
    objective: Objective,
    dropout: bool,
    optimizer: optax.GradientTransformation,
    shardings: Shardings,
    mesh: Mesh,
    spike: float,
) -> jax.stages.Wrapped:
    """The jitted step, partitioned over the mesh; the state is donated."""
    return jax.jit(
        make_step(objective, optimizer, config.seed, config.prng, dropout, spike),
        donate_argnums=0,
        in_shardings=(shardings, sharding.batch_sharding(mesh, config.accumulate)),
        out_shardings=(shardings, sharding.replicated(mesh)),
    )


def make_evaluate(
    config: ConfigDict, stage: Stage, objective: Objective, mesh: Mesh, lanes: range
) -> Callable[[dict, int], dict[str, float]] | None:
    """`parameters, step → held-out metrics`, over the same `eval_batches` batches each time; None without held-out data."""
    if stage.held_out is None:
        return None
    layout = stage.layout.single()
    batches = Batches(stage.held_out, layout, lanes, stage.shares, config.window, config.seed)
    fixed = [batches.make()[0] for _ in range(config.eval_batches)]
    compute = jax.jit(make_eval(objective, config.seed), out_shardings=sharding.replicated(mesh))

    def evaluate(params: dict, step: int) -> dict[str, float]:
        sums = add([jax.device_get(compute(params, sharding.put(b, mesh))) for b in fixed])
        counts = {f"{task}_pairs": sums.get(f"pairs/{task}", 0.0) for task in stage.trivial}
        return summarise(sums, stage.tasks) | counts

    return evaluate
