"""Where arrays live: one mesh with the axes data, fsdp and model, and one table of rules for the parameters.

The step is `jax.jit` with these shardings, which is what pjit has become: the compiler partitions the program and puts the
collectives in. Batches are cut by rows over data and fsdp together.
"""

import math
import re
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from ml_collections import ConfigDict

from harp_jax.errors import InputError

AXES = ("data", "fsdp", "model")
BATCH = P(("data", "fsdp"))

# (regex on the parameter's path, how its axes lie on the mesh). The first match counts; Adam's moments follow their
# parameter because their paths end alike.
RULES: tuple[tuple[str, P], ...] = (
    (r"embeddings/word/embedding$", P("model", "fsdp")),
    (r"embeddings/(position|token_type)/embedding$", P(None, "fsdp")),
    (r"attention/(query|key|value)/kernel$", P("fsdp", "model", None)),
    (r"attention/(query|key|value)/bias$", P("model", None)),
    (r"attention/output/kernel$", P("model", None, "fsdp")),
    (r"mlp/up/kernel$", P("fsdp", "model")),
    (r"mlp/up/bias$", P("model")),
    (r"mlp/down/kernel$", P("model", "fsdp")),
    (r"(pooler|transform)/kernel$", P("fsdp", "model")),
    (r"mlm/bias$", P("model")),
    (r"score/kernel$", P()),
    (r"(norm/(scale|bias)|output/bias|down/bias|(pooler|transform|score)/bias)$", P()),
)


def make_mesh(config: ConfigDict, devices: list | None = None) -> Mesh:
    """The mesh of `config.mesh`; -1 stands for all devices that are left. InputError where the numbers do not work out."""
    devices = jax.devices() if devices is None else devices
    sizes = {axis: int(config.mesh[axis]) for axis in AXES}
    known = math.prod(size for size in sizes.values() if size > 0)
    for axis in AXES:
        if sizes[axis] < 0:
            sizes[axis] = max(1, len(devices) // known)
    needed = math.prod(sizes.values())
    if needed != len(devices):
        raise InputError(
            f"mesh {sizes} needs {needed} devices, there are {len(devices)}; change mesh.data, fsdp or model"
        )
    if config.lanes % (sizes["data"] * sizes["fsdp"]):
        raise InputError(
            f"lanes={config.lanes} is not a multiple of mesh.data × mesh.fsdp = {sizes['data'] * sizes['fsdp']}; change lanes"
        )
    types = (AxisType.Auto,) * len(AXES)  # make_mesh would default to Explicit axes
    return jax.make_mesh(tuple(sizes[a] for a in AXES), AXES, axis_types=types, devices=devices)


def padded_vocab(vocab_size: int, mesh: Mesh) -> int:
    """Vocabulary rows that the model axis divides; export strips the difference.

    A multiple of 128 whatever the mesh (which tiles well, too), so that checkpoints fit every mesh.
    """
    parts = math.lcm(128, mesh.shape["model"])
    return -(-vocab_size // parts) * parts


def param_shardings(mesh: Mesh, tree: Any, rules: tuple[tuple[str, P], ...] | None = None) -> Any:
    """A sharding for every leaf of a state (parameters and whatever carries their paths), by `rules` (RULES).

    Scalars are replicated. A leaf without a rule, a rule without a leaf, or an axis that does not divide is an error.
    """
    rules = RULES if rules is None else rules
    used: set[str] = set()

    def of(path: tuple, leaf: Any) -> NamedSharding:
        name = "/".join(str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path)
        if leaf.ndim == 0:
            return NamedSharding(mesh, P())
        for pattern, spec in rules:
            if re.search(pattern, name):
                used.add(pattern)
                _check(name, leaf.shape, spec, mesh)
                return NamedSharding(mesh, spec)
        raise InputError(
            f"no sharding rule for parameter {name} {leaf.shape}; add one to RULES in harp_jax/sharding.py"
        )

    shardings = jax.tree_util.tree_map_with_path(of, tree)
    unused = [pattern for pattern, _ in rules if pattern not in used]
    if unused:
        raise InputError(f"sharding rules that match no parameter: {unused}; mend RULES in harp_jax/sharding.py")
    return shardings


def _check(name: str, shape: tuple[int, ...], spec: P, mesh: Mesh) -> None:
    for size, axis in zip(shape, spec):
        if axis is not None and size % mesh.shape[axis]:
            raise InputError(
                f"{name} has {size} along an axis that mesh.{axis}={mesh.shape[axis]} cuts; it must divide: "
                f"change mesh.{axis} or the model's shape"
            )


def batch_sharding(mesh: Mesh, microbatches: int = 1) -> NamedSharding:
    """Rows (or lanes) cut over data and fsdp; where there are several microbatches, they are the first axis, uncut."""
    return NamedSharding(mesh, BATCH if microbatches == 1 else P(None, *BATCH))


def host_lanes(mesh: Mesh, lanes: int) -> range:
    """The lanes whose rows lie on this process's devices, as one range."""
    sharding = batch_sharding(mesh)
    index = sharding.addressable_devices_indices_map((lanes,))
    spans = [s[0].indices(lanes) for s in index.values() if s is not None]
    return range(min(s[0] for s in spans), max(s[1] for s in spans))


def put(batch: dict, mesh: Mesh) -> dict:
    """Global arrays from this process's rows."""
    sharding = batch_sharding(mesh, len(batch["tokens"]) if batch["tokens"].ndim == 3 else 1)
    return {name: jax.make_array_from_process_local_data(sharding, array) for name, array in batch.items()}


def replicated(mesh: Mesh) -> NamedSharding:
    """The same value on every device."""
    return NamedSharding(mesh, P())
