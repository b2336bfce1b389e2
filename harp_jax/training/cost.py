"""What a step costs and what devices can do: its FLOPs, and the peak rates of accelerators from the vendors' data sheets.

For MFU in the metrics and for the dry run's roofline.
"""

import functools
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from harp_jax.input.packing import PackedLayout
from harp_jax.objectives.objective import Objective
from harp_jax.training.stages.base import Stage
from harp_jax.training.stages.families import Shape


def batch_flops(config: ConfigDict, stage: Stage, shape: Shape, objective: Objective) -> float:
    """FLOPs of a step with full rows, over all microbatches and devices; 0 for models whose FLOPs are not counted."""
    layout = stage.layout
    if stage.family.flops is None or not isinstance(layout, PackedLayout):
        return 0.0
    rows = layout.rows * config.lanes * layout.microbatches
    return stage.family.flops(shape, rows, config.row_length, layout.sequences, objective.predictions)


class Peak(NamedTuple):
    """Peak rates of one JAX device (a core on TPU v2 and v3, a chip on later ones)."""

    flops: float  # FLOP/s of bfloat16 matrix products; multiply and add count as two
    memory: float  # bytes/s of its memory
    links: float  # bytes/s sent to other devices, all links together, one direction
    gib: float  # GiB of memory


# Links: ICI of TPUs (v2, v3: four links of 62 GB/s a chip, shared by two cores), NVLink of GPUs in one machine.
PEAKS: dict[str, Peak] = {
    "TPU v2": Peak(22.5e12, 350e9, 124e9, 8),
    "TPU v3": Peak(61.5e12, 450e9, 124e9, 16),
    "TPU v4": Peak(275e12, 1228e9, 300e9, 32),
    "TPU v5 lite": Peak(197e12, 819e9, 200e9, 16),
    "TPU v5": Peak(459e12, 2765e9, 600e9, 95),
    "TPU v6 lite": Peak(918e12, 1640e9, 448e9, 32),
    "NVIDIA A100": Peak(312e12, 2039e9, 300e9, 80),
    "NVIDIA H100": Peak(989e12, 3350e9, 450e9, 80),
    "NVIDIA H200": Peak(989e12, 4800e9, 450e9, 141),
}


def data_sheet(kind: str) -> Peak | None:
    """The entry with the longest name that is a prefix of the device kind, or None."""
    names = [name for name in PEAKS if kind.startswith(name)]
    return PEAKS[max(names, key=len)] if names else None


def matmul_rate(device: jax.Device, dtype: str, size: int = 1024, trials: int = 5) -> float:
    """FLOP/s of a square matrix product on a device, the best of `trials`; takes about a tenth of a second.

    The result is float32, as in the products of a step (model/products.py).
    """
    x = jax.device_put(jnp.ones((size, size), dtype), device)
    product = jax.jit(functools.partial(jnp.matmul, preferred_element_type=jnp.promote_types(dtype, jnp.float32)))
    jax.block_until_ready(product(x, x))
    best = float("inf")
    for _ in range(trials):
        start = time.perf_counter()
        jax.block_until_ready(product(x, x))
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best


def peak_flops(devices: list[jax.Device], dtype: str) -> float:
    """FLOP/s of all `devices` together: from the data sheet (16 bits) for known kinds, else measured on one of them.

    The devices of one CPU share its cores, so they count once.
    """
    known = data_sheet(devices[0].device_kind)
    if known is not None:
        return known.flops * len(devices)
    local = next(device for device in devices if device.process_index == jax.process_index())
    count = len({device.process_index for device in devices}) if local.platform == "cpu" else len(devices)
    return matmul_rate(local, dtype) * count
