"""Cost of a run before it starts: compiles the real step for the local devices, or for TPUs and GPUs that are not attached.

"v3:2x2", "v4:2x2x1", "v5e:2x4": TPU topologies as libtpu names them. "h100", "h100:8", "a100-40:4": GPUs of GPUS and their number;
more than eight are spread over machines of eight. An installed libtpu slows every import of jax, so the packages may be outside the
environment: HARP_LIBTPU and HARP_CUDA name their directories (`make .venv/libtpu .venv/cuda`). `harp train` adds them to the path;
elsewhere add them to PYTHONPATH, because JAX looks for cuDNN when it is imported.
"""

import math
import os
import re
import statistics
import tempfile
from typing import Any, NamedTuple

import jax
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError, first_line
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.config import check_training
from harp_jax.input.packing import batch_shapes
from harp_jax.model import sharding
from harp_jax.model.attention import choose
from harp_jax.model.encoders.table import encoder_of
from harp_jax.model.products import fastest_dtype
from harp_jax.text.tokenizer import Tokenizer
from harp_jax.training.machine import batch_flops, bytes_per_device, peak_flops, usable_memory
from harp_jax.training.train import abstract_state, jit_step, make_optimizer, stage_of, train

MEASURED = 8  # steps to time; their median ignores the first ones, which include compilation
FILL = 0.97  # fraction of slots that are real tokens, measured on Wikipedia


def dry_run(config: ConfigDict, topology: str = "") -> str:
    """A text report: attention, bytes per device by kind, FLOPs per step and their time, collectives with their bytes. Reads no
    data. Raises InputError for neural rankers, for an unknown topology, a mesh that does not match it, and a step that does not fit
    in memory."""
    check_training(config)
    if config.stage == "neural_ir":
        raise InputError("a dry run is for encoders; a neural ranker fits on any device, train it without --dry_run")
    devices = topology_devices(topology)
    kind, platform = devices[0].device_kind, devices[0].platform

    # The stage without data, and without the files that are missing: a placeholder replaces a tokenizer, `init` is dropped.
    with tempfile.TemporaryDirectory(prefix="harp_jax_dry_run_") as stand_in:
        plain = config.copy_and_resolve_references()
        present = os.path.isdir(config.init or "")
        if not present and not os.path.exists(config.tokenizer or ""):
            # The tokens themselves do not matter to the compiler.
            size = encoder_of(config.model.model_type, "--config.model.model_type").vocabulary
            Tokenizer.stand_in(size).save(stand_in)
            plain.tokenizer = stand_in
        if not present:
            plain.init = ""
        if plain.dtype == "auto":
            plain.dtype = fastest_dtype(platform)  # of the target, not of this machine
        stage = stage_of(plain, with_data=False)

    # The step, from descriptions of state and batch.
    mesh, layout, shape = sharding.make_mesh(config, devices), stage.source.layout, stage.encoder.padded
    optimizer = make_optimizer(config, max(stage.steps, 1), stage.model.frozen)
    state = abstract_state(stage, optimizer, mesh)
    step = jit_step(config, stage, optimizer, jax.tree.map(lambda x: x.sharding, state), mesh)
    split = sharding.batch_sharding(mesh, layout.microbatches)
    batch = {
        name: jax.ShapeDtypeStruct(dimensions, dtype, sharding=split)
        for name, (dimensions, dtype) in batch_shapes(layout, config.lanes).items()
    }
    not_attached = platform == "gpu" and jax.local_devices()[0].platform != "gpu"

    def too_large(used: str) -> InputError:
        return InputError(
            f"the step does not fit in the memory of {len(devices)} × {kind} ({used}); raise config.accumulate or mesh.fsdp, or "
            "set model.remat='layer'"
        )

    try:
        program = step.lower(state, batch).compile(NOT_TUNED if not_attached else {})
    except Exception as error:
        if "RESOURCE_EXHAUSTED" not in str(error) or "hbm" not in str(error).lower():
            raise
        found = re.findall(r"\(([\d.]+[KMGT])\)", str(error))  # of the compiler's message, such as (47.12G) … (15.48G)
        used = f"{found[0]} of temporaries, {found[1]} available" if len(found) == 2 else "out of memory when compiling"
        raise too_large(used) from error

    # Memory of a device. The step overwrites the state, so it counts once.
    sizes = program.memory_analysis()
    if sizes is None:
        raise InputError("this backend does not report the memory of a program; name a device with --topology")
    parameters, optimizer_state = bytes_per_device(state["params"]), bytes_per_device(state["opt_state"])
    temporary, program_size = sizes.temp_size_in_bytes, sizes.generated_code_size_in_bytes
    rest = max(0, sizes.argument_size_in_bytes - parameters - optimizer_state)
    total, usable = sizes.argument_size_in_bytes + temporary + program_size, usable_memory(kind)
    if usable and total > usable:  # for a GPU, XLA compiles it anyway
        raise too_large(f"{mib(total)} of {mib(usable)} usable")

    # The report.
    rows = layout.rows * config.lanes * layout.microbatches
    attention = choose(shape.attention, shape.dtype, shape.attention_dropout > 0, platform, config.row_length)
    parts = f" in {layout.microbatches} microbatches" if layout.microbatches > 1 else ""
    flops = batch_flops(config, stage)
    seconds = flops / peak_flops(devices, shape.dtype)
    hours = f", {config.steps * seconds / 0.4 / 3600:,.1f} h for {config.steps:,} steps" if config.steps else ""
    traffic = collectives(program.as_text() or "", layout.microbatches)
    lines = [
        f"devices            {len(devices)} × {kind}, mesh {dict(mesh.shape)}",
        f"encoder            {shape.layers} × {shape.hidden}, {shape.heads} heads, {shape.vocab_size} words, {shape.dtype}",
        f"attention          {attention}",
        f"batch              {rows} rows × {config.row_length} tokens{parts}, {config.lanes} lanes, "
        f"up to {layout.sequences} sequences a row",
        f"parameters         {mib(parameters)} per device",
        f"optimizer          {mib(optimizer_state)} per device (Adam's moments)",
        f"batch              {mib(rest)} per device",
        f"temporaries        {mib(temporary)} per device (activations, gradients)",
        f"program            {mib(program_size)}",
        f"total              {mib(total)} per device" + (f" of {mib(usable)} usable" if usable else ""),
    ]
    if usable:
        # Linear in the rows, so too low near the limit, where the compiler recomputes activations.
        fit = int(layout.rows * config.lanes * (usable - total + temporary) / temporary)
        lines.append(f"fits               about {fit:,} rows per microbatch")
    lines += [
        f"FLOPs per step     {flops:.3e} (analytic; {flops / len(devices):.3e} per device)",
        f"time per step      {1e3 * seconds:.1f} ms at the devices' peak; at 40 % utilisation {2.5e3 * seconds:.1f} ms{hours}",
        f"collectives        {len(traffic)}: " + ("none" if not traffic else ""),
    ]
    for name in sorted({name for name, _ in traffic}):
        sent = [size for each, size in traffic if each == name]
        lines.append(f"  {name:<17}{len(sent)} ×, {mib(sum(sent))} in total, largest {mib(max(sent))}")
    return "\n".join(lines)


COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
WIDTHS = {"64": 8, "32": 4, "16": 2, "8": 1}  # bytes by the bits of a type


def collectives(hlo: str, loops: int = 1) -> list[tuple[str, int]]:
    """(kind, bytes of the result) of every collective that compiled HLO executes on one device. The body of a loop over
    microbatches appears once in the text and is counted `loops` times."""
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
    return traffic


def mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"


def seconds_per_step(config: ConfigDict, directory: str = "") -> float | None:
    """The median time of MEASURED steps of the config's training, run in a temporary workdir below `directory`, without evaluations
    and checkpoints. None after SIGTERM: the few steps done would be the ones that compile. Raises InputError as `train` does."""
    trial = config.copy_and_resolve_references()
    with trial.unlocked():
        trial.steps = trial.checkpoint_every = MEASURED
        trial.log_every, trial.eval_every = 1, 0
        if "select" in trial:
            trial.select = ""
    with tempfile.TemporaryDirectory(prefix=".rate.", dir=directory or None) as parent:
        workdir = os.path.join(parent, "trial")
        if train(trial, workdir).interrupted:
            return None
        return statistics.median(row["seconds_per_step"] for row in read_metrics(workdir) if row["split"] == "train")


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
            wrong = f"--topology={topology}: not a number of GPUs"
            raise InputError(f"{wrong}; use {kind}:1 to {kind}:8 or a multiple of 8")
        # Otherwise JAX would ask the client of a local GPU, which knows no other topology.
        jax.config.update("jax_platforms", "cpu")
        number, target = int(count or 1), target_config(GPUS[kind.lower()])
        shape = f"1x{max(1, number // HOST)}x{min(number, HOST)}"
        return described("HARP_CUDA", "cuda13", platform="cuda", target_config=target, topology=shape)
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # otherwise libtpu queries a metadata server that does not exist
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # otherwise a second dry run on this machine is refused
    devices = described("HARP_LIBTPU", "tpu", topology_name=topology, platform="tpu")
    if devices[0].device_kind.startswith(("TPU v2", "TPU v3")):
        return devices
    # From v4 on, the two cores of a chip are one device; the topology lists both, but JAX cannot use the second in a mesh.
    return [device for device in devices if device.core_on_chip == 0]


def described(variable: str, extra: str, **topology: Any) -> list[Any]:
    """The devices of a topology, described for JAX; `variable` may name a directory with the packages of jax[`extra`]."""
    from jax.experimental import topologies

    try:
        return list(topologies.get_topology_desc(**topology).devices)
    except Exception as error:
        raise InputError(
            f"no such topology ({first_line(error)[:120]}); GPUs are {', '.join(GPUS)}, each with :N; TPUs such as v3:2x2, "
            f"v4:2x2x1 or v5e:2x4. It needs jax[{extra}]: install it here, or elsewhere and name the directory in {variable}"
        ) from error


def target_config(gpu: Gpu) -> str:
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
