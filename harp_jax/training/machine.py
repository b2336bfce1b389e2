"""FLOPs of a step and peak rates of devices, for MFU and the dry run; a check of free memory before the first step."""

import contextlib
import functools
import logging
import math
import os
import re
import resource
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.training.stages.stage import Stage

log = logging.getLogger(__name__)


class Peak(NamedTuple):
    """One JAX device (a core on TPU v2 and v3, a chip on later ones)."""

    flops: float  # FLOP/s of bfloat16 matrix products; multiply and add count as two
    gib: float  # GiB of memory, as the driver reports it


# Vendors' data sheets; products without sparsity, with float32 sums.
PEAKS: dict[str, Peak] = {
    "TPU v2": Peak(22.5e12, 8),
    "TPU v3": Peak(61.5e12, 16),
    "TPU v4": Peak(275e12, 32),
    "TPU v5 lite": Peak(197e12, 16),
    "TPU v5": Peak(459e12, 95),
    "TPU v6 lite": Peak(918e12, 32),
    "NVIDIA A100": Peak(312e12, 79),
    "NVIDIA A100-SXM4-40GB": Peak(312e12, 39),
    "NVIDIA H100": Peak(989e12, 79),
    "NVIDIA H200": Peak(989e12, 141),
    "NVIDIA B200": Peak(2250e12, 178),
    "NVIDIA L4": Peak(121e12, 22),
    "NVIDIA GeForce RTX 4090": Peak(165e12, 23.5),
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
    """FLOP/s of all `devices` together: from the data sheet (16 bits) for known kinds, else the best of five square matrix products
    on one of them (a tenth of a second). The devices of one CPU share its cores, so they count once."""
    known = data_sheet(devices[0].device_kind)
    if known is not None:
        return known.flops * len(devices)
    local = next(device for device in devices if device.process_index == jax.process_index())
    count = len({device.process_index for device in devices}) if local.platform == "cpu" else len(devices)
    size, best = 1024, float("inf")
    x = jax.device_put(jnp.ones((size, size), dtype), local)
    # The result is float32, as in the products of a step (model/products.py).
    product = jax.jit(functools.partial(jnp.matmul, preferred_element_type=jnp.promote_types(dtype, jnp.float32)))
    jax.block_until_ready(product(x, x))
    for _ in range(5):
        start = time.perf_counter()
        jax.block_until_ready(product(x, x))
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best * count


def batch_flops(config: ConfigDict, stage: Stage) -> float:
    """FLOPs of a step with full rows, over all microbatches and devices."""
    layout = stage.source.layout
    rows = layout.rows * config.lanes * layout.microbatches
    shape, predictions = stage.encoder.padded, stage.objective.predictions
    return stage.model.flops(shape, rows, config.row_length, layout.sequences, predictions)


class Free(NamedTuple):
    """Free memory in bytes, and the limit that leaves no more."""

    size: int
    limit: str


def free_memory(root: Path = Path("/")) -> Free | None:
    """What this process may still allocate under the tightest limit: the machine's memory, `ulimit`, a control group (version 2;
    containers, Slurm, systemd) or one of its parents. None where the system reports none (only Linux does). `root`: directory that
    holds proc and sys."""
    machine, status = kernel_sizes(root / "proc/meminfo"), kernel_sizes(root / "proc/self/status")
    found = [Free(machine["MemAvailable"], "memory of the machine")] if "MemAvailable" in machine else []
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and "VmSize" in status:
        found.append(Free(max(0, allowed - status["VmSize"]), "ulimit -v"))
    mount = root / "sys/fs/cgroup"
    with contextlib.suppress(OSError):
        own = re.search(r"^0::/(.*)$", (root / "proc/self/cgroup").read_text(), re.MULTILINE)
        folder = mount / (own[1] if own else "")
        for group in (folder, *folder.parents):
            total, used = (group / name for name in ("memory.max", "memory.current"))
            if not total.exists() or not total.read_text().strip().isdigit():
                continue
            # Cached pages of files count as used, but the kernel reclaims them before anything fails.
            cached = kernel_sizes(group / "memory.stat")
            files = cached.get("inactive_file", 0) + cached.get("active_file", 0)
            taken = max(0, int(used.read_text()) - files)
            found.append(Free(max(0, int(total.read_text()) - taken), "limit of the control group"))
    return min(found, default=None)


def kernel_sizes(path: Path) -> dict[str, int]:
    """{name: bytes} from the lines "NAME: NUMBER kB" or "NAME NUMBER" of a kernel file; empty if there is none."""
    text = path.read_text(errors="replace") if path.exists() else ""
    rows = re.findall(r"^(\w+):?\s+(\d+)( kB)?$", text, re.MULTILINE)
    return {name: int(number) * (1024 if unit else 1) for name, number, unit in rows}


def bytes_per_device(tree: Any) -> int:
    """The memory that arrays, or descriptions of them, take on each device of their mesh."""
    return sum(math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(tree))


def check_memory(program: jax.stages.Compiled, state: Any) -> None:
    """Logs the memory that a step needs and how much is free on this machine. Raises InputError if a single step does not fit: the
    kernel would kill the process without any message. For CPUs only: accelerators have their own memory, and XLA reports when it
    runs out. `state` is already allocated; saving a checkpoint copies it. One step runs at a time (`train.AHEAD_ON_CPU`)."""
    sizes, free = program.memory_analysis(), free_memory()
    if sizes is None or free is None:
        return
    step = sizes.temp_size_in_bytes + max(0, sizes.output_size_in_bytes - sizes.alias_size_in_bytes)
    kept = bytes_per_device(state) * len(state["step"].sharding.addressable_devices)
    needed, both, known = (f"{size / 2**30:.2f} GiB" for size in (step, step + kept, free.size))
    left = f"{known} are free ({free.limit})"
    advice = "lower batch_tokens or batch_pairs, raise accumulate, or set model.remat='layer'"
    log.info("memory: a step needs %s, with the parameters, optimizer and a checkpoint %s; %s", needed, both, left)
    if step > free.size:
        raise InputError(f"a step needs {needed} of memory, but {left}; {advice}")
    if step + kept > free.size:
        log.warning("memory may run out: a step and a checkpoint need %s, but %s; %s", both, left, advice)
