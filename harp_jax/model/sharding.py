"""Sharding: one mesh with the axes data, fsdp and model; the encoder and the heads define the rules for their parameters.

The step is `jax.jit` with these shardings: the compiler partitions the program and inserts the collectives.
The rows of a batch are sharded over data and fsdp together.
"""

import logging
import math
import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError

log = logging.getLogger(__name__)

AXES = ("data", "fsdp", "model")
BATCH = P(("data", "fsdp"))


def make_mesh(config: ConfigDict, devices: list | None = None) -> Mesh:
    """The mesh of `config.mesh`; -1 means all remaining devices, on the data axis only as many as the lanes can be divided among.
    Raises InputError if sizes, devices and lanes do not match."""
    devices = jax.devices() if devices is None else devices
    sizes = {axis: int(config.mesh[axis]) for axis in AXES}
    known = math.prod(size for size in sizes.values() if size > 0)
    for axis in AXES:
        if sizes[axis] < 0:
            sizes[axis] = max(1, len(devices) // known)
    if config.mesh.data < 0 and jax.process_count() == 1:
        # Leaves devices out where the lanes cannot be divided among all, so that a small config runs anywhere.
        every = sizes["data"]
        sizes["data"] = max((n for n in range(1, every + 1) if config.lanes % (n * sizes["fsdp"]) == 0), default=every)
        if sizes["data"] < every:
            used, lanes = math.prod(sizes.values()), every * sizes["fsdp"]
            said = "lanes=%d: training on %d of %d devices; lanes=%d uses all"
            log.warning(said, config.lanes, used, len(devices), lanes)
            devices = devices[:used]
    needed, shards = math.prod(sizes.values()), sizes["data"] * sizes["fsdp"]
    if needed != len(devices):
        wrong = f"mesh {sizes} needs {needed} devices, but there are {len(devices)}"
        raise InputError(f"{wrong}; change mesh.data, mesh.fsdp or mesh.model")
    if config.lanes % shards:
        wrong = f"lanes={config.lanes} is not a multiple of mesh.data × mesh.fsdp = {shards}"
        raise InputError(f"{wrong}; change lanes")
    types = (AxisType.Auto,) * len(AXES)  # make_mesh would default to Explicit axes
    return jax.make_mesh(tuple(sizes[a] for a in AXES), AXES, axis_types=types, devices=devices)


def param_shardings(mesh: Mesh, tree: Any, rules: tuple[tuple[str, P], ...]) -> Any:
    """A sharding for every leaf of a state: parameters, and Adam's moments, whose paths end in the same way. `rules` are (regex on
    the parameter's path, PartitionSpec of its axes); the first match applies. Scalars are replicated. Raises InputError for an
    indivisible axis, LookupError for a leaf without a rule or a rule without a leaf: an encoder's bug."""
    used: set[str] = set()

    def of(path: tuple, leaf: Any) -> NamedSharding:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if leaf.ndim == 0:
            return NamedSharding(mesh, P())
        pattern, spec = next((rule for rule in rules if re.search(rule[0], name)), ("", P()))
        if not pattern:
            raise LookupError(
                f"no sharding rule for parameter {name} {leaf.shape}; add one to the rules of its encoder"
            )
        used.add(pattern)
        for size, axis in zip(leaf.shape, spec):
            if axis is not None and size % mesh.shape[axis]:
                wrong = f"{name} has an axis of size {size}, which mesh.{axis}={mesh.shape[axis]} does not divide"
                raise InputError(f"{wrong}; change mesh.{axis} or the model's shape")
        return NamedSharding(mesh, spec)

    shardings = jax.tree_util.tree_map_with_path(of, tree)
    if unused := [pattern for pattern, _ in rules if pattern not in used]:
        raise LookupError(f"sharding rules that match no parameter: {unused}; fix the rules of the encoder")
    return shardings


def batch_sharding(mesh: Mesh, microbatches: int = 1) -> NamedSharding:
    """Rows (or lanes) sharded over data and fsdp. Several microbatches are the first axis, which is not sharded."""
    return NamedSharding(mesh, BATCH if microbatches == 1 else P(None, *BATCH))


def host_lanes(mesh: Mesh, lanes: int) -> list[int]:
    """The lanes whose rows this process's devices hold, ascending, as `put` expects them. They have gaps if JAX orders the devices
    of a mesh in rings over the hosts, as on TPU v4 and later."""
    index = batch_sharding(mesh).addressable_devices_indices_map((lanes,))
    return sorted({lane for s in index.values() if s is not None for lane in range(*s[0].indices(lanes))})


def put(batch: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """Global sharded arrays from this process's rows."""
    sharding = batch_sharding(mesh, len(batch["tokens"]) if batch["tokens"].ndim == 3 else 1)
    return {name: jax.make_array_from_process_local_data(sharding, array) for name, array in batch.items()}


def replicated(mesh: Mesh) -> NamedSharding:
    """The same value on every device."""
    return NamedSharding(mesh, P())


def barrier(mesh: Mesh) -> None:
    """Wait for the processes of a mesh and connect their devices, with a sum over all of them. Call it before any work. On CPU a
    process waits only 30 s for the others when they first exchange data. If that were the first step, the run would fail when one
    process takes longer to compile it. Connected processes wait as long as it takes."""
    ones = jax.make_array_from_callback((mesh.size,), NamedSharding(mesh, P(AXES)), lambda _: np.ones(1, np.float32))
    jax.block_until_ready(jax.jit(jnp.sum, out_shardings=replicated(mesh))(ones))
