"""Describes devices that are not attached, to compile a step for them: TPUs with libtpu, NVIDIA GPUs with JAX's CUDA plugin.

"v3:2x2", "v4:2x2x1", "v5e:2x4": TPU topologies as libtpu names them. "h100", "h100:8", "a100-40:4": GPUs from the table below and
their number; more than eight are spread over machines of eight. An installed libtpu slows every import of jax, so the packages may
be outside the environment: HARP_LIBTPU and HARP_CUDA name their directories (`make .venv/libtpu .venv/cuda`). `harp train` adds
them to the path; elsewhere add them to PYTHONPATH, because JAX looks for cuDNN when it is imported.
"""

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from harp_jax.base.errors import InputError

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
    found = _described("HARP_LIBTPU", "tpu", lambda get: get(topology, platform="tpu"))
    if found[0].device_kind.startswith(("TPU v2", "TPU v3")):
        return found
    # From v4 on, the two cores of a chip are one device; the topology lists both, but JAX cannot use the second in a mesh.
    return [device for device in found if device.core_on_chip == 0]  # type: ignore[attr-defined]


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
