"""Train a stage: mesh, stage, workdir, restored or initial state, step, batches, evaluation, loop."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import optax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from harp_jax.base import bucket
from harp_jax.base.cli import keep_compiled
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import as_stored
from harp_jax.checkpoints.checkpoint import Checkpoints
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.config import check_training
from harp_jax.corpus.paths import is_irds
from harp_jax.input.lanes import Batches
from harp_jax.model import sharding
from harp_jax.objectives.contrastive import START
from harp_jax.objectives.objective import Objective, summarise
from harp_jax.training.loop import Loop, add
from harp_jax.training.machine import batch_flops, peak_flops
from harp_jax.training.stages import pretrain
from harp_jax.training.stages.coarse_tune import coarse_tune_stage
from harp_jax.training.stages.finetune import finetune_stage
from harp_jax.training.stages.neural_ir import neural_ir_stage
from harp_jax.training.stages.retriever import retriever_stage
from harp_jax.training.stages.stage import Family, Shape, Stage
from harp_jax.training.step import State, initial, make_eval, make_step
from harp_jax.training.workdir import MetricsLog, claim_workdir, disk_full_as_input_error

log = logging.getLogger(__name__)

STAGES: dict[str, Callable[..., Stage]] = {
    "pretrain": pretrain.pretrain_stage,
    "finetune": finetune_stage,
    "coarse_tune": coarse_tune_stage,
    "neural_ir": neural_ir_stage,
    "retriever": retriever_stage,
}
JUDGED = ("docs", "queries", "qrels", "candidates")
REQUIRED = {
    "pretrain": ("data",),
    "retriever": ("data",),
    "finetune": JUDGED,
    "coarse_tune": ("docs", "clicks"),
    "neural_ir": JUDGED,
}
OPTIONAL = ("init", "tokenizer", "vectors", "folds", "train_queries", "teacher")  # checked if set
CLIP_NORM = 1.0
# Compute matrix products with cuBLASLt: it adds the bias in the same kernel and needs no minute of autotuning. On an H200, kernels
# of BERT-base's step then take .95 of the time.
NO_TRITON = {"xla_gpu_enable_triton_gemm": False}

Evaluate = Callable[[dict, int], dict[str, float]]  # parameters, step → held-out metrics
Shardings = dict[str, Any]  # the tree of a State, of NamedShardings


def train(
    config: ConfigDict, workdir: str, stage: Stage | None = None, devices: list[jax.Device] | None = None
) -> dict[str, float]:
    """Train a stage to its last step, resuming from the workdir; returns the last logged metrics.

    A finished run is left alone; its last metrics are returned. After SIGTERM the state is saved and {"interrupted": 1.0}
    returned. `stage` replaces the config's (for example with a custom reader, without TensorFlow); `devices` defaults to all.

    The workdir may be in a bucket (`base/bucket.py`). Raises InputError for bad config or data, for a workdir of another config or
    in use, and for a full disk.
    """
    check_training(config)
    if stage is None:
        check_inputs(config)
    keep_compiled()
    # On CPU the loop waits for each step (`loop.AHEAD_ON_CPU`), but a step's results may be ready before its memory is free: MiniLM
    # with 18 rows of 256 went from 2.9 to 4.1 GB after some 45 steps. With this setting a step runs in the caller's thread and has
    # freed its memory when it returns. No effect once JAX's backend has started.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(disk_full_as_input_error(workdir))
        return _train(config, workdir, stage, devices, cleanup)


def check_inputs(config: ConfigDict) -> None:
    """Raises InputError with all inputs that are not set or do not exist."""
    missing, hint = {}, ""
    required = REQUIRED[config.stage] + (JUDGED if "data" in config and config.select else ())
    for name in (*required, *(name for name in OPTIONAL if config.get(name))):
        paths = [config[name]] if isinstance(config[name], str) else list(config[name])
        absent = [
            path
            for path in paths
            if path and not os.path.exists(as_stored(path)) and not is_irds(path) and "://" not in path
        ]
        if not any(paths):
            missing[name] = "is not set"
        elif absent:
            missing[name] = f"does not exist ({', '.join(absent)})"
            hint = hint or (how_to_fetch(absent[0]) if name in ("init", "tokenizer") else "")
    if "init" in config and not config.init and not config.tokenizer:
        missing["init"] = "and tokenizer are not set"
    if missing:
        raise InputError(
            f"missing inputs: {', '.join(f'{name} {what}' for name, what in missing.items())}; "
            f"set each as --config.FIELD=PATH{hint}"
        )


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
    shape = padded(stage.shape)
    home = workdir  # for checkpoints; if it is in a bucket, all other files of the run are in a local directory
    mirror = bucket.Mirror(workdir) if bucket.is_bucket(workdir) else None
    if mirror is not None:
        cleanup.callback(mirror.close)
        workdir = mirror.local
    lock = claim_workdir(workdir, config, stage)
    if lock is not None:
        cleanup.callback(lock.close)
    first_process = jax.process_index() == 0
    if mirror is not None and first_process:
        mirror.send()

    optimizer = make_optimizer(config, stage.steps)
    described = abstract_state(stage.family, shape, optimizer, mesh)
    shardings = jax.tree.map(lambda x: x.sharding, described)
    checkpoints = Checkpoints(workdir, f"{home}/checkpoints" if mirror is not None else "")
    cleanup.callback(checkpoints.close)
    restored = checkpoints.restore(described)
    if restored is not None:
        start, state, meta = restored
        log.info("resuming at step %d of %d", start, stage.steps)
    else:
        trained = with_mlm_head(config, home, stage, devices)
        if trained is None:
            return {"interrupted": 1.0}
        stage = trained
        params = place(stage.start(shape, jax.random.key(config.seed)), shardings["params"])
        start, state, meta = 0, jax.jit(lambda p: initial(p, optimizer), out_shardings=shardings)(params), {}
        del params  # the state has a copy

    objective = stage.objective(shape)
    step = jit_step(config, stage, objective, shape.drops, optimizer, shardings, mesh)
    lanes = sharding.host_lanes(mesh, config.lanes)
    window = stage.window or config.window
    cursors = meta.get("cursors")
    batches = Batches(stage.reader, stage.layout, lanes, stage.shares, window, config.seed, cursors, config.workers)
    evaluate = make_evaluate(config, stage, objective, mesh, lanes)
    if stage.selection is not None:
        select = stage.selection(shape, workdir)
        evaluate = together(evaluate, lambda params, step: select(whole(params), step))
    metrics = MetricsLog(workdir, -1 if restored is None else start, first_process)
    cleanup.callback(metrics.close)
    flops = batch_flops(config, stage, shape, objective)
    peak = peak_flops(list(mesh.devices.flat), shape.dtype) if flops else 0.0
    rate = schedule(config, stage.steps)
    loop = Loop(
        config, stage, mesh, step, rate, evaluate, checkpoints, metrics, flops, peak, mirror if first_process else None
    )
    return loop.run(state, start, batches) or last_logged(workdir)


def with_mlm_head(config: ConfigDict, workdir: str, stage: Stage, devices: list[jax.Device] | None) -> Stage | None:
    """The stage, after training an MLM head in WORKDIR/mlm_head if `init` has none; None if that was interrupted."""
    if not pretrain.head_is_due(config, stage):
        return stage
    directory = os.path.join(workdir, pretrain.HEAD_DIRECTORY)
    log.info("%s has no MLM head: training one for %d steps in %s", config.init, config.mlm_head_steps, directory)
    head_config, head_stage = pretrain.head_training(config, stage)
    if "interrupted" in train(head_config, directory, head_stage, devices):
        return None
    return pretrain.with_head(stage, directory)


def last_logged(workdir: str) -> dict[str, float]:
    """The last training metrics in a workdir's log; empty if nothing was logged."""
    rows = [row for row in read_metrics(workdir) if row["split"] == "train"]
    return {name: value for name, value in rows[-1].items() if name not in ("step", "split")} if rows else {}


def padded(shape: Shape) -> Shape:
    """The shape with its vocabulary padded for the hardware."""
    return dataclasses.replace(shape, vocab_size=sharding.padded_vocab(shape.vocab_size))


def jit_step(
    config: ConfigDict,
    stage: Stage,
    objective: Objective,
    dropout: bool,
    optimizer: optax.GradientTransformation,
    shardings: Shardings,
    mesh: Mesh,
) -> jax.stages.Wrapped:
    """The jitted step, partitioned over the mesh; the state is donated."""
    platform = mesh.devices.flat[0].platform
    return jax.jit(
        make_step(objective, optimizer, config.seed, config.prng, dropout, stage.spike),
        donate_argnums=0,
        in_shardings=(shardings, sharding.batch_sharding(mesh, config.accumulate)),
        out_shardings=(shardings, sharding.replicated(mesh)),
        compiler_options=NO_TRITON if platform == "gpu" else None,
    )


def make_evaluate(
    config: ConfigDict, stage: Stage, objective: Objective, mesh: Mesh, lanes: Sequence[int]
) -> Evaluate | None:
    """Evaluates on the same `eval_batches` batches each time; None without held-out data."""
    if stage.held_out is None:
        return None
    layout = stage.layout.single()
    batches = Batches(stage.held_out, layout, lanes, stage.shares, config.window, config.seed)
    fixed = [batches.make()[0] for _ in range(config.eval_batches)]
    compute = jax.jit(make_eval(objective, config.seed), out_shardings=sharding.replicated(mesh))

    sizes = stage.held_out.sizes

    def evaluate(params: dict, step: int) -> dict[str, float]:
        sums = add([jax.device_get(compute(params, sharding.put(b, mesh))) for b in fixed])
        # The stream repeats its records, and a pair that is evaluated twice counts once.
        counts = {f"{task}_pairs": min(sums.get(f"pairs/{task}", 0.0), sizes[task]) for task in stage.trivial}
        return summarise(sums, stage.tasks) | counts

    return evaluate


def whole(params: dict) -> dict:
    """All parameters on each host, which may hold only a part (`mesh.fsdp`, `mesh.model`). Every process must call this."""
    if jax.process_count() == 1:
        return params
    from jax.experimental import multihost_utils

    return jax.device_put(multihost_utils.process_allgather(params, tiled=True))


def together(evaluate: Evaluate | None, select: Evaluate) -> Evaluate:
    """Both evaluations as one."""
    return select if evaluate is None else lambda params, step: {**evaluate(params, step), **select(params, step)}


def schedule(config: ConfigDict, steps: int) -> optax.Schedule:
    """Learning rate by step: linear warmup over `warmup`·steps, then "linear" decay to 0, or "constant"."""
    warmup = int(config.warmup * steps)
    last = {"linear": 0.0, "constant": config.learning_rate}[config.schedule]
    after = optax.linear_schedule(config.learning_rate, last, max(1, steps - warmup))
    if not warmup:
        return after
    return optax.join_schedules([optax.linear_schedule(0.0, config.learning_rate, warmup), after], [warmup])


def decayed(params: dict) -> dict:
    """Mask of the parameters that weight decay applies to: all but biases and layer norms."""

    def walk(tree: dict, name: str) -> dict | bool:
        if isinstance(tree, dict):
            return {key: walk(value, key) for key, value in tree.items()}
        return name != "scale" and "bias" not in name

    return walk(params, "")  # type: ignore[return-value]


def make_optimizer(config: ConfigDict, steps: int) -> optax.GradientTransformation:
    """Clipping by global norm, Adam (with decoupled weight decay if configured), and the schedule."""
    chain = [optax.clip_by_global_norm(CLIP_NORM), optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-6)]
    if config.weight_decay:
        chain.append(optax.add_decayed_weights(config.weight_decay, mask=decayed))
    chain.append(optax.scale_by_learning_rate(schedule(config, steps)))
    if config.get("kl_weight"):
        return optax.masked(optax.chain(*chain), lambda params: {name: name != START for name in params})
    return optax.chain(*chain)


def abstract_state(family: Family, shape: Shape, optimizer: optax.GradientTransformation, mesh: Mesh) -> State:
    """The state as ShapeDtypeStructs with shardings, without allocating it."""
    wide = dataclasses.replace(shape, dtype="float32")
    tree = jax.eval_shape(lambda: initial(family.init_params(wide, jax.random.key(0)), optimizer))
    shardings = sharding.param_shardings(mesh, tree, family.rules(shape))
    return jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), tree, shardings)


def place(params: dict, shardings: dict) -> dict:
    """Host parameters (numpy) as sharded arrays; every process has all of them and places its shards."""
    return jax.tree.map(
        lambda x, s: jax.make_array_from_callback(x.shape, s, lambda index: x[index]), params, dict(shardings)
    )
