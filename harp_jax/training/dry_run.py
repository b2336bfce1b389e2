"""Cost of a run before it starts: compiles the real step for the local devices, or for TPUs and GPUs that are not attached.

"v3:2x2", "v4:2x2x1", "v5e:2x4": TPU topologies as libtpu names them. "h100", "h100:8", "a100-40:4": GPUs of GPUS and their number;
more than eight are spread over machines of eight. An installed libtpu slows every import of jax, so the packages may be outside the
environment: HARP_LIBTPU and HARP_CUDA name their directories (`make .venv/libtpu .venv/cuda`). `harp train` adds them to the path;
elsewhere add them to PYTHONPATH, because JAX looks for cuDNN when it is imported.
"""

import dataclasses
import logging
import math
import os
import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.config import check_training
from harp_jax.input.packing import PackedLayout, batch_shapes
from harp_jax.model import sharding
from harp_jax.model.attention import choose
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.model.encoders.table import encoder_of
from harp_jax.model.products import fastest_dtype
from harp_jax.training.machine import batch_flops, data_sheet, peak_flops, usable_memory
from harp_jax.training.step import State
from harp_jax.training.train import abstract_state, jit_step, make_optimizer, padded, stage_of, train

log = logging.getLogger(__name__)

MEASURED = 8  # steps to time; their median ignores the first ones, which include compilation
FILL = 0.97  # fraction of slots that are real tokens, measured on Wikipedia


class Compiled(NamedTuple):
    """A compiled step and its inputs."""

    program: jax.stages.Compiled
    state: State  # abstract, with shardings
    shape: EncoderConfig
    layout: PackedLayout
    mesh: Mesh
    lanes: int
    flops: float


def compile_step(config: ConfigDict, devices: list[jax.Device], rows: int | None = None) -> Compiled:
    """Compile the step of a config for `devices`, without reading data. `rows` overrides the config's rows per microbatch. Raises
    InputError for neural rankers and for a mesh that does not match the devices."""
    check_training(config)
    if config.stage == "neural_ir":
        raise InputError("a dry run is for encoders; a neural ranker fits on any device, train it without --dry_run")
    with tempfile.TemporaryDirectory(prefix="harp_jax_dry_run_") as stand_in:
        plain = without_files(config, stand_in)
        if plain.dtype == "auto":
            plain.dtype = fastest_dtype(devices[0].platform)  # of the target, not of this machine
        stage = stage_of(plain, with_data=False)
    mesh, layout = sharding.make_mesh(config, devices), stage.source.layout
    if rows is not None:
        layout = dataclasses.replace(layout, rows=math.ceil(rows / config.lanes))
        stage = dataclasses.replace(stage, source=dataclasses.replace(stage.source, layout=layout))
    shape = padded(stage.encoder)
    optimizer = make_optimizer(config, max(stage.steps, 1), stage.model.frozen)
    state = abstract_state(stage, shape, optimizer, mesh)
    shardings = jax.tree.map(lambda x: x.sharding, state)
    split = sharding.batch_sharding(mesh, layout.microbatches)
    batch = {
        name: jax.ShapeDtypeStruct(shape_, dtype, sharding=split)
        for name, (shape_, dtype) in batch_shapes(layout, config.lanes).items()
    }
    objective = stage.objective(shape)
    step = jit_step(config, stage, shape, optimizer, shardings, mesh)
    program = step.lower(state, batch).compile(compiler_options(devices[0]))
    return Compiled(program, state, shape, layout, mesh, config.lanes, batch_flops(config, stage, shape, objective))


def without_files(config: ConfigDict, stand_in: str) -> ConfigDict:
    """The config without missing files: a placeholder in `stand_in` replaces a missing tokenizer; a missing `init` is dropped."""
    from harp_jax.text.tokenizer import Tokenizer

    config = config.copy_and_resolve_references()
    own = "model_type" in config.model and not (config.tokenizer and os.path.exists(config.tokenizer))
    if own and not os.path.isdir(config.init or ""):
        config.tokenizer = stand_in
        # The tokens themselves do not matter to the compiler.
        Tokenizer.stand_in(encoder_of(config.model.model_type, "--config.model.model_type").vocabulary).save(stand_in)
    if config.init and not os.path.isdir(config.init):
        config.init = ""
    return config


def dry_run(config: ConfigDict, topology: str = "") -> str:
    """A text report: bytes per device by kind, FLOPs per step, collectives with their bytes, and a lower bound on the time. Raises
    InputError if the topology is unknown, the mesh does not match it, or the step does not fit in memory."""
    devices = topology_devices(topology)
    try:
        compiled = compile_step(config, devices)
    except Exception as error:
        if not _exceeds_memory(error):
            raise
        sizes = re.findall(r"\(([\d.]+[KMGT])\)", str(error))  # of the compiler's message, such as (47.12G) … (15.48G)
        used = f"{sizes[0]} of temporaries, {sizes[1]} available" if len(sizes) == 2 else "out of memory when compiling"
        raise _does_not_fit(devices, used) from error
    shape, layout, mesh, flops = compiled.shape, compiled.layout, compiled.mesh, compiled.flops
    rows, length = layout.rows * config.lanes * layout.microbatches, config.row_length
    hlo = compiled.program.as_text() or ""
    traffic = collectives(hlo, layout.microbatches)
    drops = shape.attention_dropout > 0
    attention = choose(shape.attention, shape.dtype, drops, devices[0].platform, length)
    parts = f" in {layout.microbatches} microbatches" if layout.microbatches > 1 else ""
    lines = [
        f"devices            {len(devices)} × {devices[0].device_kind}, mesh {dict(mesh.shape)}",
        f"encoder            {shape.layers} × {shape.hidden}, {shape.heads} heads, {shape.vocab_size} words, {shape.dtype}",
        f"attention          {attention}",
        f"batch              {rows} rows × {length} tokens{parts}, {config.lanes} lanes, "
        f"up to {layout.sequences} sequences a row",
        *memory_report(compiled),
        f"FLOPs per step     {flops:.3e} (analytic; {flops / len(devices):.3e} per device)",
        f"collectives        {len(traffic)}: " + ("none" if not traffic else ""),
    ]
    for kind in sorted({kind for kind, _ in traffic}):
        sizes = [size for k, size in traffic if k == kind]
        lines.append(f"  {kind:<17}{len(sizes)} ×, {_mib(sum(sizes))} in total, largest {_mib(max(sizes))}")
    return "\n".join([*lines, *time_report(config, devices, compiled, traffic)])


COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
WIDTHS = {"64": 8, "32": 4, "16": 2, "8": 1}  # bytes by the bits of a type


def collectives(hlo: str, loops: int = 1) -> list[tuple[str, int]]:
    """(kind, bytes of the result) of every collective that compiled HLO executes on one device, largest first. The body of a loop
    over microbatches appears once in the text and is counted `loops` times."""
    traffic: list[tuple[str, int]] = []
    times = loops
    for line in hlo.splitlines():
        if line and not line[0].isspace():
            times = 1 if line.startswith("ENTRY") else loops
        if match := re.search(r"= (.*?) (" + "|".join(COLLECTIVES) + r")(-start)?\(", line):
            arrays = re.findall(r"\b(?:pred|[a-z]+(\d+)\w*)\[([\d,]*)\]", match[1])  # a tuple has several
            sizes = [
                WIDTHS.get(bits or "8", 4) * math.prod(map(int, filter(None, shape.split(","))))
                for bits, shape in arrays
            ]
            traffic.extend([(match[2], sum(sizes))] * times)
    return sorted(traffic, key=lambda item: -item[1])


def memory_analysis(program: jax.stages.Compiled) -> Any:
    """XLA's sizes of a program on one device (`argument_size_in_bytes`, …). Raises InputError if the backend reports none."""
    sizes = program.memory_analysis()
    if sizes is None:
        raise InputError("this backend does not report the memory of a program; name a device with --topology")
    return sizes


def memory_report(compiled: Compiled) -> list[str]:
    """Bytes per device, by kind; the step overwrites the state, so it counts once."""
    size = lambda x: math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize  # noqa: E731
    kinds = {part: sum(map(size, jax.tree.leaves(compiled.state[part]))) for part in ("params", "opt_state")}
    sizes = memory_analysis(compiled.program)
    temporary, program = sizes.temp_size_in_bytes, sizes.generated_code_size_in_bytes
    batch = max(0, sizes.argument_size_in_bytes - sum(kinds.values()))
    total = sizes.argument_size_in_bytes + temporary + program
    usable = usable_memory(compiled.mesh.devices.flat[0].device_kind)
    if usable and total > usable:  # for a GPU, XLA compiles it anyway
        raise _does_not_fit([*compiled.mesh.devices.flat], f"{_mib(total)} of {_mib(usable)} usable")
    lines = [
        f"parameters         {_mib(kinds['params'])} per device",
        f"optimizer          {_mib(kinds['opt_state'])} per device (Adam's moments)",
        f"batch              {_mib(batch)} per device",
        f"temporaries        {_mib(temporary)} per device (activations, gradients)",
        f"program            {_mib(program)}",
        f"total              {_mib(total)} per device" + (f" of {_mib(usable)} usable" if usable else ""),
    ]
    if not usable:
        return lines
    # Linear in the rows, so too low near the limit, where the compiler recomputes activations.
    fit = int(compiled.layout.rows * compiled.lanes * (usable - total + temporary) / temporary)
    return [*lines, f"fits               about {fit:,} rows per microbatch; --largest finds the limit"]


def time_report(
    config: ConfigDict, devices: list[jax.Device], compiled: Compiled, traffic: list[tuple[str, int]]
) -> list[str]:
    """The roofline: a lower bound on the time per step, its bottlenecks, and the resulting hours for the run."""
    shape, layout, flops = compiled.shape, compiled.layout, compiled.flops
    peak, n = data_sheet(devices[0].device_kind), len(devices)
    if peak is None or devices[0].platform == "cpu":
        rate = peak_flops(devices, shape.dtype)
        parts = {"computing": flops / rate}
        assumed = f"matrix products at {rate / 1e9:.0f} GFLOP/s, measured here; memory and links not counted"
    else:
        cost = compiled.program.cost_analysis() or {}
        # XLA counts the body of the loop over microbatches once. The update, outside the loop, is small in comparison.
        moved = float((cost[0] if isinstance(cost, list) else cost).get("bytes accessed", 0.0)) * layout.microbatches
        sent = sum(size for _, size in traffic) * 2 * (n - 1) / n
        parts = {"computing": flops / n / peak.flops, "memory": moved / peak.memory, "links": sent / peak.links}
        between = "; between machines they are slower" if n > HOST and devices[0].platform == "gpu" else ""
        assumed = (
            f"{peak.flops / 1e12:.1f} TFLOP/s, {peak.memory / 1e9:.0f} GB/s of memory, {peak.links / 1e9:.0f} GB/s of links "
            f"per device (data sheet{between}); memory traffic is XLA's upper bound, 0 if it reports none, as for GPUs"
        )
    floor = max(parts["computing"], parts.get("memory", 0.0)) + parts.get("links", 0.0)
    best = parts["computing"] + parts.get("links", 0.0)
    tokens = layout.rows * config.lanes * layout.microbatches * config.row_length * FILL
    hours = lambda seconds: f"{config.steps * seconds / 3600:,.1f} h"  # noqa: E731
    lines = [
        f"assumptions        {assumed}; {FILL:.0%} of the slots filled; links not overlapped",
        "time per step      " + ", ".join(f"{name} {1e3 * t:.1f} ms" for name, t in parts.items()),
        f"roofline           {1e3 * best:.1f} ms if compute hides memory, {1e3 * floor:.1f} ms if nothing is fused",
        f"tokens per second  {tokens / best:,.0f} at best; {0.4 * tokens / best:,.0f} at 40 % utilisation",
    ]
    if config.steps:
        run = f"{config.steps:,} steps: {hours(best)} at best, {hours(best / 0.4)} at 40 % utilisation"
        lines.append(f"configured run     {run}")
    return lines


def largest_batch(config: ConfigDict, topology: str = "") -> str:
    """The maximum rows of a (micro)batch that fit in the devices' memory, found by compiling, to within a sixteenth. About six
    compilations: five minutes for BERT-base. Raises InputError if the memory is unknown or nothing fits."""
    devices = topology_devices(topology)
    limit = usable_memory(devices[0].device_kind)
    if limit is None:
        raise InputError(f"the memory size of {devices[0].device_kind} is unknown; name a device with --topology")

    def needed(lane_rows: int) -> Bytes | None:
        try:
            sizes = memory_analysis(compile_step(config, devices, lane_rows * config.lanes).program)
        except Exception as error:
            # The compiler's own limit is slightly below the data sheet's; near it, the compiler recomputes activations.
            if _exceeds_memory(error):
                return None
            raise
        needs = Bytes(sizes.argument_size_in_bytes + sizes.generated_code_size_in_bytes, sizes.temp_size_in_bytes)
        log.info("%d rows: %s", lane_rows * config.lanes, _mib(sum(needs)))
        return needs if sum(needs) <= limit else None

    fits, used, fails = search_rows(needed, limit)
    if not fits:
        raise InputError(
            f"even {config.lanes} rows of {config.row_length} tokens do not fit {len(devices)} × {devices[0].device_kind}; set "
            "model.remat='layer', mesh.fsdp or mesh.model, or a smaller row_length"
        )
    return (
        f"largest batch      {fits * config.lanes} rows × {config.row_length} tokens ({fits} per lane) fit {len(devices)} × "
        f"{devices[0].device_kind}: {_mib(used)} of {_mib(limit)} each; {fails * config.lanes} do not"
    )


def seconds_per_step(config: ConfigDict, directory: str = "", steps: int = MEASURED) -> float | None:
    """The median time of `steps` steps of the config's training, run in a temporary workdir below `directory`. Excludes evaluations
    and checkpoints. None after SIGTERM: the few steps done would be the ones that compile. Raises InputError as `train` does."""
    trial = config.copy_and_resolve_references()
    with trial.unlocked():
        trial.steps, trial.log_every, trial.eval_every = steps, 1, 0
        trial.checkpoint_every = steps
        if "select" in trial:
            trial.select = ""
    with tempfile.TemporaryDirectory(prefix=".rate.", dir=directory or None) as place:
        workdir = os.path.join(place, "trial")
        if train(trial, workdir).interrupted:
            return None
        return statistics.median(row["seconds_per_step"] for row in read_metrics(workdir) if row["split"] == "train")


def _does_not_fit(devices: Sequence[jax.Device], used: str) -> InputError:
    return InputError(
        f"the step does not fit in the memory of {len(devices)} × {devices[0].device_kind} ({used}); raise config.accumulate or "
        "mesh.fsdp, set model.remat='layer', or find the rows that fit with --largest"
    )


def _exceeds_memory(error: Exception) -> bool:
    """Whether compilation failed because the program exceeds the device's memory."""
    return "RESOURCE_EXHAUSTED" in str(error) and "hbm" in str(error).lower()


class Bytes(NamedTuple):
    """Memory of a device: state and program, which do not grow with the rows, and activations, which do."""

    fixed: float
    temporary: float


def search_rows(needed: Callable[[int], Bytes | None], limit: float) -> tuple[int, float, int]:
    """(most rows that fit, their bytes, fewest rows tried that do not fit), at most a sixteenth apart; 0 rows if none fit. `needed`
    returns the bytes for a number of rows, or None if they do not fit. Every call compiles, so the limit is first extrapolated from
    one size that fits: temporaries grow with the rows."""
    fits, used, fails = 0, 0.0, 0
    trial, guessed = 8, False
    while True:
        needs = needed(trial)
        if needs is None:
            fails = trial
        else:
            fits, used = trial, sum(needs)
            if not guessed:
                guess = int(trial * (limit - needs.fixed) / needs.temporary)
                trial, guessed = max(trial + 1, guess if not fails else min(guess, fails - 1)), True
                if not fails or fits < trial < fails:
                    continue
        if fails and fails - fits <= max(1, fits // 16):
            return fits, used, fails
        trial = (fits + fails) // 2 if fails else fits + max(1, fits // 8)


def _mib(n: int | float) -> str:
    return f"{n / 2**20:,.1f} MiB"


HOST = 8  # GPUs in a machine
# Autotuning needs the device, to run kernels on it. Without it XLA uses its defaults.
NOT_TUNED: dict[str, str | bool] = {"xla_gpu_autotune_level": "0"}


class Gpu(NamedTuple):
    """What XLA needs to know to compile for a GPU, from NVIDIA's data sheets and compute capability tables."""

    name: str  # as the driver reports it
    capability: tuple[int, int]
    cores: int  # streaming multiprocessors
    memory: int  # bytes
    bandwidth: float  # bytes/s
    l2: int  # bytes of cache
    ghz: float
    shared: int  # bytes of shared memory per core; a block may use 1 KiB less
    threads: int = 2048  # resident per core
    fpus: int = 128  # float32 units per core


GPUS = {
    "a100": Gpu("NVIDIA A100-SXM4-80GB", (8, 0), 108, 85_100_068_864, 2039e9, 40 << 20, 1.41, 164 << 10, fpus=64),
    "a100-40": Gpu("NVIDIA A100-SXM4-40GB", (8, 0), 108, 42_331_013_120, 1555e9, 40 << 20, 1.41, 164 << 10, fpus=64),
    "l4": Gpu("NVIDIA L4", (8, 9), 58, 23_800_000_000, 300e9, 48 << 20, 2.04, 100 << 10, threads=1536),
    "rtx4090": Gpu(
        "NVIDIA GeForce RTX 4090", (8, 9), 128, 25_250_000_000, 1008e9, 72 << 20, 2.52, 100 << 10, threads=1536
    ),
    "h100": Gpu("NVIDIA H100 80GB HBM3", (9, 0), 132, 84_942_979_072, 3352e9, 50 << 20, 1.98, 228 << 10),
    "h200": Gpu("NVIDIA H200", (9, 0), 132, 151_397_597_184, 4800e9, 50 << 20, 1.98, 228 << 10),
    "b200": Gpu("NVIDIA B200", (10, 0), 148, 191_514_411_008, 7672e9, 126 << 20, 1.965, 228 << 10),
}


def topology_devices(topology: str) -> list[jax.Device]:
    """The devices of a topology, or the local ones for an empty name. Raises InputError for an unknown or unavailable one."""
    if not topology:
        return jax.devices()
    kind, _, count = topology.partition(":")
    if kind.lower() in GPUS:
        if not re.fullmatch(r"|[1-9]\d{0,3}", count) or (int(count or 1) > HOST and int(count) % HOST):
            raise InputError(
                f"--topology={topology}: not a number of GPUs; use {kind}:1 to {kind}:8 or a multiple of 8"
            )
        return _gpus(GPUS[kind.lower()], int(count or 1))
    return _tpus(topology)


def compiler_options(device: jax.Device) -> dict[str, str | bool]:
    """Compiler options for a device that is not attached; none for an attached one."""
    return NOT_TUNED if device.platform == "gpu" and jax.local_devices()[0].platform != "gpu" else {}


def _gpus(gpu: Gpu, count: int) -> list[jax.Device]:
    # Otherwise JAX would ask the client of a local GPU, which knows no other topology.
    jax.config.update("jax_platforms", "cpu")
    shape = f"1x{max(1, count // HOST)}x{min(count, HOST)}"
    return _described(
        "HARP_CUDA", "cuda13", lambda get: get(platform="cuda", target_config=_target(gpu), topology=shape)
    )


def _target(gpu: Gpu) -> str:
    """XLA's GpuTargetConfigProto as text."""
    major, minor = gpu.capability
    return f"""
    gpu_device_info {{
      threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: {gpu.threads}
      shared_memory_per_block: 49152 shared_memory_per_core: {gpu.shared}
      shared_memory_per_block_optin: {gpu.shared - 1024} registers_per_core_limit: 65536 registers_per_block_limit: 65536
      block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
      core_count: {gpu.cores} fpus_per_core: {gpu.fpus} clock_rate_ghz: {gpu.ghz}
      memory_bandwidth: {gpu.bandwidth:.0f} l2_cache_size: {gpu.l2} device_memory_size: {gpu.memory}
      cuda_compute_capability {{ major: {major} minor: {minor} }}
    }}
    platform_name: "CUDA" device_description_str: "{gpu.name}"
    dnn_version_info {{ major: 9 minor: 10 }} runtime_version {{ major: 13 minor: 0 }}
    """


def _tpus(topology: str) -> list[jax.Device]:
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # otherwise libtpu queries a metadata server that does not exist
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # otherwise a second dry run on this machine is refused
    devices = _described("HARP_LIBTPU", "tpu", lambda get: get(topology, platform="tpu"))
    if devices[0].device_kind.startswith(("TPU v2", "TPU v3")):
        return devices
    # From v4 on, the two cores of a chip are one device; the topology lists both, but JAX cannot use the second in a mesh.
    return [device for device in devices if device.core_on_chip == 0]  # type: ignore[attr-defined]


def _described(variable: str, extra: str, describe: Callable[[Callable], Any]) -> list[Any]:
    """The devices of a topology description; `variable` may name a directory with the packages of jax[`extra`]."""
    from jax.experimental import topologies

    try:
        return list(describe(topologies.get_topology_desc).devices)
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"no such topology ({first[:120]}); GPUs are {', '.join(GPUS)}, each with :N; TPUs such as v3:2x2, v4:2x2x1 or "
            f"v5e:2x4. It needs jax[{extra}]: install it here, or elsewhere and name the directory in {variable}"
        ) from error
