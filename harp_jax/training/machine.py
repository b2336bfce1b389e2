"""FLOPs of a step and peak rates of devices, for MFU and the dry run; a check of free memory before the first step.

The kernel kills a process that exceeds its memory without any message. Limits come from control groups (containers, Slurm,
systemd), the process (`ulimit -v`, `ulimit -d`) and the machine's memory; only Linux reports them.
"""

import functools
import logging
import math
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.objectives.objective import Objective
from harp_jax.training.stages.stage import Stage

log = logging.getLogger(__name__)


def batch_flops(config: ConfigDict, stage: Stage, encoder: EncoderConfig, objective: Objective) -> float:
    """FLOPs of a step with full rows, over all microbatches and devices."""
    layout = stage.source.layout
    rows = layout.rows * config.lanes * layout.microbatches
    return stage.model.flops(encoder, rows, config.row_length, layout.sequences, objective.predictions)


class Peak(NamedTuple):
    """Peak rates of one JAX device (a core on TPU v2 and v3, a chip on later ones)."""

    flops: float  # FLOP/s of bfloat16 matrix products; multiply and add count as two
    memory: float  # bytes/s of its memory
    links: float  # bytes/s sent to other devices, all links together, one direction
    gib: float  # GiB of memory, as the driver reports it


# Vendors' data sheets; products without sparsity, with float32 sums. Links: ICI of TPUs (v2, v3: four links of 62 GB/s a chip,
# shared by two cores), NVLink of GPUs in a machine, and PCIe of the L4 and the RTX 4090.
PEAKS: dict[str, Peak] = {
    "TPU v2": Peak(22.5e12, 350e9, 124e9, 8),
    "TPU v3": Peak(61.5e12, 450e9, 124e9, 16),
    "TPU v4": Peak(275e12, 1228e9, 300e9, 32),
    "TPU v5 lite": Peak(197e12, 819e9, 200e9, 16),
    "TPU v5": Peak(459e12, 2765e9, 600e9, 95),
    "TPU v6 lite": Peak(918e12, 1640e9, 448e9, 32),
    "NVIDIA A100": Peak(312e12, 2039e9, 300e9, 79),
    "NVIDIA A100-SXM4-40GB": Peak(312e12, 1555e9, 300e9, 39),
    "NVIDIA H100": Peak(989e12, 3350e9, 450e9, 79),
    "NVIDIA H200": Peak(989e12, 4800e9, 450e9, 141),
    "NVIDIA B200": Peak(2250e12, 7672e9, 900e9, 178),
    "NVIDIA L4": Peak(121e12, 300e9, 32e9, 22),
    "NVIDIA GeForce RTX 4090": Peak(165e12, 1008e9, 32e9, 23.5),
}
GPU_SHARE = 0.75  # fraction of a GPU's memory that JAX reserves, unless XLA_PYTHON_CLIENT_MEM_FRACTION is set


def data_sheet(kind: str) -> Peak | None:
    """The entry with the longest name that is a prefix of the device kind, or None."""
    names = [name for name in PEAKS if kind.startswith(name)]
    return PEAKS[max(names, key=len)] if names else None


def usable_memory(kind: str) -> float | None:
    """Bytes of memory that a program may use: all of a TPU's, the part of a GPU's that JAX reserves. None for unknown kinds."""
    peak = data_sheet(kind)
    share = float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", GPU_SHARE)) if kind.startswith("NVIDIA") else 1.0
    return peak.gib * 2**30 * share if peak else None


def peak_flops(devices: list[jax.Device], dtype: str) -> float:
    """FLOP/s of all `devices` together: from the data sheet (16 bits) for known kinds, else measured on one of them. The devices of
    one CPU share its cores, so they count once."""
    known = data_sheet(devices[0].device_kind)
    if known is not None:
        return known.flops * len(devices)
    local = next(device for device in devices if device.process_index == jax.process_index())
    count = len({device.process_index for device in devices}) if local.platform == "cpu" else len(devices)
    return matmul_rate(local, dtype) * count


def matmul_rate(device: jax.Device, dtype: str, size: int = 1024, trials: int = 5) -> float:
    """FLOP/s of a square matrix product on a device, the best of `trials`; takes about a tenth of a second. The result is float32,
    as in the products of a step (model/products.py)."""
    x = jax.device_put(jnp.ones((size, size), dtype), device)
    product = jax.jit(functools.partial(jnp.matmul, preferred_element_type=jnp.promote_types(dtype, jnp.float32)))
    jax.block_until_ready(product(x, x))
    best = float("inf")
    for _ in range(trials):
        start = time.perf_counter()
        jax.block_until_ready(product(x, x))
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best


class Limit(NamedTuple):
    """A limit of this process's memory in bytes, and how much of it is free."""

    what: str
    total: int
    free: int

    def __str__(self) -> str:
        return f"{gib(self.free)} of {gib(self.total)} are free ({self.what})"


def gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def tightest(root: Path = Path("/")) -> Limit | None:
    """The limit with the least free memory; None if the system reports none. `root`: directory that holds proc and sys."""
    return min((*_groups(root), *_process(root)), key=lambda limit: limit.free, default=None)


def _groups(root: Path) -> Iterator[Limit]:
    """Limits of this process's control group (version 2) and of its parents."""
    mount = root / "sys/fs/cgroup"
    own = _table(root / "proc/self/cgroup", ":").get("0", ":").removeprefix(":")
    group = mount / own.strip("/")
    for folder in (group, *group.parents):
        if not folder.is_relative_to(mount):
            break
        total, used = (_number(_read(folder / name)) for name in ("memory.max", "memory.current"))
        if total is not None and used is not None:
            # Cached pages of files count as used, but the kernel reclaims them before anything fails.
            kept = _table(folder / "memory.stat", " ")
            files = sum(_number(kept.get(name, "")) or 0 for name in ("inactive_file", "active_file"))
            yield Limit("limit of the control group", total, max(0, total - max(0, used - files)))


def _process(root: Path) -> Iterator[Limit]:
    """The limits of the process itself, and the machine's memory."""
    status, machine = _table(root / "proc/self/status", ":"), _table(root / "proc/meminfo", ":")
    for name, kind, what in (
        ("VmSize", resource.RLIMIT_AS, "ulimit -v"),
        ("VmData", resource.RLIMIT_DATA, "ulimit -d"),
    ):
        allowed, used = resource.getrlimit(kind)[0], _number(status.get(name, ""))
        if allowed != resource.RLIM_INFINITY and used is not None:
            yield Limit(what, allowed, max(0, allowed - 1024 * used))
    total, free = (_number(machine.get(name, "")) for name in ("MemTotal", "MemAvailable"))
    if total is not None and free is not None:
        yield Limit("memory of the machine", 1024 * total, 1024 * free)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _table(path: Path, separator: str) -> dict[str, str]:
    """{name: value} from the lines "NAME, separator, value" of a kernel file; empty if the file does not exist."""
    rows = (line.partition(separator) for line in _read(path).splitlines())
    return {name: value.removesuffix("kB").strip() for name, _, value in rows}


def _number(text: str) -> int | None:
    """The number; None for "max" and anything else that is not a number."""
    return int(text) if text.strip().isascii() and text.strip().isdigit() else None


def check_memory(program: jax.stages.Compiled, state: Any, free: Limit | None = None) -> None:
    """Logs the memory that a step needs and how much is free on this machine. Raises InputError if a single step does not fit. For
    CPUs only: accelerators have their own memory, and XLA reports when it runs out. `state` is already allocated; saving a
    checkpoint copies it. One step runs at a time (`loop.AHEAD_ON_CPU`)."""
    sizes = program.memory_analysis()
    free = free or tightest()
    if sizes is None or free is None:
        return
    step = sizes.temp_size_in_bytes + max(0, sizes.output_size_in_bytes - sizes.alias_size_in_bytes)
    of = lambda x: math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize * len(x.sharding.addressable_devices)  # noqa: E731
    kept = sum(map(of, jax.tree.leaves(state)))  # bytes on this process's devices
    log.info("memory: a step needs %s, with %s of parameters and optimizer allocated; %s", gib(step), gib(kept), free)
    advice = "lower batch_tokens or batch_pairs, raise accumulate, or set model.remat='layer'"
    if step > free.free:
        raise InputError(f"a step needs {gib(step)} of memory, but {free}; {advice}")
    if step + kept > free.free:
        log.warning("memory may run out: a step and a checkpoint need %s, but %s; %s", gib(step + kept), free, advice)
