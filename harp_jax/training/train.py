"""Training, from top to bottom: mesh, stage, workdir, optimizer, state, restore, step, batches, evaluation, loop.

A stage (`stages/`) passes in what differs: encoder, tokenizer, objective, data, starting parameters, number of steps. Here is what
is the same for all. `train` is the story; the functions below it are its parts in the same order, and the dry run uses them too.
The loop itself is in `loop.py`, the update in `step.py`.
"""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import Any

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
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.objectives.objective import not_beaten, summarise
from harp_jax.training.loop import Loop, TrainResult, add
from harp_jax.training.machine import batch_flops, peak_flops
from harp_jax.training.stages.stage import Evaluate, Stage
from harp_jax.training.step import State, initial, make_eval, make_step
from harp_jax.training.workdir import MetricsLog, claim_workdir, disk_full_as_input_error

log = logging.getLogger(__name__)

CLIP_NORM = 1.0
# Compute matrix products with cuBLASLt: it adds the bias in the same kernel and needs no minute of autotuning. On an H200, kernels
# of BERT-base's step then take .95 of the time.
NO_TRITON = {"xla_gpu_enable_triton_gemm": False}

Shardings = Any  # the tree of a State, of NamedShardings


def train(
    config: ConfigDict, workdir: str, stage: Stage | None = None, devices: list[jax.Device] | None = None
) -> TrainResult:
    """Train a stage to its last step, resuming from the workdir. A finished run is left alone. SIGTERM saves the state and ends it.
    `stage` replaces the config's (for example with a custom reader, without TensorFlow); `devices` defaults to all. The workdir may
    be in a bucket (`base/bucket.py`). Raises InputError for bad config or data, for a workdir of another config or in use, and for
    a full disk."""
    check_training(config)
    keep_compiled()
    # On CPU the loop waits for each step (`loop.AHEAD_ON_CPU`), but a step's results may be ready before its memory is free: MiniLM
    # with 18 rows of 256 went from 2.9 to 4.1 GB after some 45 steps. With this setting a step runs in the caller's thread and has
    # freed its memory when it returns. No effect once JAX's backend has started.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(disk_full_as_input_error(workdir))

        # Mesh: the devices as data × fsdp × model. All shardings below are of this mesh; on one device they change nothing.
        # (Skip the barrier with one process.)
        mesh = sharding.make_mesh(config, devices)
        if jax.process_count() > 1:
            sharding.barrier(mesh)

        # Stage: reads the data, the tokenizer and the parameters to start from.
        stage = stage_of(config) if stage is None else stage
        encoder = padded(stage.encoder)

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
        optimizer = make_optimizer(config, stage.steps, stage.model.frozen)
        described = abstract_state(stage, encoder, optimizer, mesh)
        shardings = jax.tree.map(lambda x: x.sharding, described)

        # Restore the newest checkpoint that verifies, or start.
        checkpoints = Checkpoints(workdir, f"{home}/checkpoints" if mirror is not None else "")
        cleanup.callback(checkpoints.close)
        restored = checkpoints.restore(described)
        if restored is not None:
            start, state, meta = restored
            log.info("resuming at step %d of %d", start, stage.steps)
        else:
            if stage.before is not None:
                prepared = prepare(stage, home, devices)
                if prepared is None:
                    return TrainResult({}, interrupted=True)
                stage = prepared
            params = shard_params(stage.start(encoder, jax.random.key(config.seed)), shardings["params"])
            start, state, meta = 0, jax.jit(lambda p: initial(p, optimizer), out_shardings=shardings)(params), {}
            del params  # the state has a copy

        # Step: one fused, jitted function of state and batch, partitioned by the shardings.
        objective = stage.objective(encoder)
        step = jit_step(config, stage, encoder, optimizer, shardings, mesh)

        # Batches of this process's lanes, from where the checkpoint stopped; evaluation on held-out pairs and queries.
        lanes = sharding.host_lanes(mesh, config.lanes)
        batches = Batches(stage.source, lanes, meta.get("cursors"), config.workers)
        evaluate = make_evaluate(config, stage, encoder, mesh, lanes, workdir)

        # Loop: metrics, and FLOPs for the utilisation (MFU) among them.
        metrics = MetricsLog(workdir, -1 if restored is None else start, first_process)
        cleanup.callback(metrics.close)
        flops = batch_flops(config, stage, encoder, objective)
        peak = peak_flops(list(mesh.devices.flat), encoder.dtype)
        rate = schedule(config, stage.steps)
        loop = Loop(
            config, stage.steps, mesh, step, rate, evaluate, checkpoints, metrics, flops, peak, upload, stage.check
        )
        done = loop.run(state, start, batches)
        return done if done.metrics or done.interrupted else TrainResult(last_logged(workdir))


def stage_of(config: ConfigDict, with_data: bool = True) -> Stage:
    """The stage that the config names. Only its own file is imported: they read different data."""
    if config.stage == "pretrain":
        from harp_jax.training.stages.pretrain import pretrain_stage

        return pretrain_stage(config, with_data)
    if config.stage == "retriever":
        from harp_jax.training.stages.retriever import retriever_stage

        return retriever_stage(config, with_data)
    if config.stage == "finetune":
        from harp_jax.training.stages.finetune import finetune_stage

        return finetune_stage(config, with_data)
    if config.stage == "coarse_tune":
        from harp_jax.training.stages.coarse_tune import coarse_tune_stage

        return coarse_tune_stage(config, with_data)
    raise ValueError(f"{config.stage} is trained by harp_jax/baselines")


def padded(encoder: EncoderConfig) -> EncoderConfig:
    """The shape with its vocabulary padded for the hardware."""
    return dataclasses.replace(encoder, vocab_size=sharding.padded_vocab(encoder.vocab_size))


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


def make_optimizer(config: ConfigDict, steps: int, frozen: Sequence[str] = ()) -> optax.GradientTransformation:
    """Clipping by global norm, Adam (with decoupled weight decay if configured), and the schedule; not for `frozen` subtrees."""
    chain = [optax.clip_by_global_norm(CLIP_NORM), optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-6)]
    if config.weight_decay:
        chain.append(optax.add_decayed_weights(config.weight_decay, mask=decayed))
    chain.append(optax.scale_by_learning_rate(schedule(config, steps)))
    trained = optax.chain(*chain)
    if not frozen:
        return trained
    return optax.masked(trained, lambda params: {name: name not in frozen for name in params})


def abstract_state(stage: Stage, encoder: EncoderConfig, optimizer: optax.GradientTransformation, mesh: Mesh) -> State:
    """The state as ShapeDtypeStructs with shardings, without allocating it."""
    wide = dataclasses.replace(encoder, dtype="float32")
    tree = jax.eval_shape(lambda: initial(stage.model.init_params(wide, jax.random.key(0)), optimizer))
    shardings = sharding.param_shardings(mesh, tree, stage.model.rules(encoder))
    return jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), tree, shardings)


def shard_params(params: dict, shardings: dict) -> dict:
    """Host parameters (numpy) as sharded arrays; every process has all of them and places its shards."""
    return jax.tree.map(
        lambda x, s: jax.make_array_from_callback(x.shape, s, lambda index: x[index]), params, dict(shardings)
    )


def prepare(stage: Stage, workdir: str, devices: list[jax.Device] | None) -> Stage | None:
    """The stage that starts from the parameters of the run that comes before it; None if that was interrupted."""
    from harp_jax.base.bucket import fetched
    from harp_jax.checkpoints.start import load_encoder, starting_params

    assert stage.before is not None
    before = stage.before(stage)
    directory = os.path.join(workdir, before.directory)
    log.info("%s: training for %d steps in %s first", before.why, before.stage.steps, directory)
    if train(before.config, directory, before.stage, devices).interrupted:
        return None
    with fetched(directory) as local:
        loaded = load_encoder(local)[1]
    return dataclasses.replace(stage, start=starting_params(loaded, (), stage.tokenizer.size))


def jit_step(
    config: ConfigDict,
    stage: Stage,
    encoder: EncoderConfig,
    optimizer: optax.GradientTransformation,
    shardings: Shardings,
    mesh: Mesh,
) -> jax.stages.Wrapped:
    """The jitted step, partitioned over the mesh; the state is donated."""
    platform = mesh.devices.flat[0].platform
    return jax.jit(
        make_step(stage.objective(encoder), optimizer, config.seed, config.prng, encoder.drops, stage.spike),
        donate_argnums=0,
        in_shardings=(shardings, sharding.batch_sharding(mesh, config.accumulate)),
        out_shardings=(shardings, sharding.replicated(mesh)),
        compiler_options=NO_TRITON if platform == "gpu" else None,
    )


def make_evaluate(
    config: ConfigDict, stage: Stage, encoder: EncoderConfig, mesh: Mesh, lanes: Sequence[int], workdir: str
) -> Evaluate | None:
    """Evaluates on held-out pairs and selects by held-out queries, whichever the stage has; None if it has neither."""
    both: list[Evaluate] = []
    if stage.held_out is not None:
        both.append(pair_evaluation(config, stage, encoder, mesh, lanes))
    if stage.select is not None:
        select = stage.select(encoder, workdir)
        both.append(lambda params, step: select(whole(params), step))
    if not both:
        return None
    return lambda params, step: {name: value for part in both for name, value in part(params, step).items()}


def pair_evaluation(
    config: ConfigDict, stage: Stage, encoder: EncoderConfig, mesh: Mesh, lanes: Sequence[int]
) -> Evaluate:
    """The objective on the same `eval_batches` held-out batches each time. At the last step the log names the tasks that are not
    better than a trivial predictor."""
    assert stage.held_out is not None
    layout, sizes = stage.source.layout.single(), stage.held_out.sizes
    source = dataclasses.replace(stage.source, reader=stage.held_out, layout=layout, window=config.window)
    batches = Batches(source, lanes)
    fixed = [batches.make()[0] for _ in range(config.eval_batches)]
    compute = jax.jit(make_eval(stage.objective(encoder), config.seed), out_shardings=sharding.replicated(mesh))

    def evaluate(params: dict, step: int) -> dict[str, float]:
        sums = add([jax.device_get(compute(params, sharding.put(b, mesh))) for b in fixed])
        # The stream repeats its records, and a pair that is evaluated twice counts once.
        counts = {f"{task}_pairs": min(sums.get(f"pairs/{task}", 0.0), sizes[task]) for task in stage.trivial}
        metrics = summarise(sums) | counts
        if step == stage.steps:
            for sentence in not_beaten(metrics, stage.trivial):
                log.warning("%s", sentence)
        return metrics

    return evaluate


def whole(params: dict) -> dict:
    """All parameters on each host, which may hold only a part (`mesh.fsdp`, `mesh.model`). Every process must call this."""
    if jax.process_count() == 1:
        return params
    from jax.experimental import multihost_utils

    return jax.device_put(multihost_utils.process_allgather(params, tiled=True))


def last_logged(workdir: str) -> dict[str, float]:
    """The last training metrics in a workdir's log; empty if nothing was logged."""
    rows = [row for row in read_metrics(workdir) if row["split"] == "train"]
    return {name: value for name, value in rows[-1].items() if name not in ("step", "split")} if rows else {}
