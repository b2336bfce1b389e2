"""Checkpoints that restore exactly what was saved, or are refused.

Orbax writes and reads the arrays, but does not notice a flipped bit. A checkpoint therefore has a digest of every leaf, computed
on the device before the next step may overwrite its buffers, and one of everything else. Restoring walks back to the newest
checkpoint that verifies; if the storage fails, it reports that and changes nothing. A save that fails (disk full) ends the run
and leaves earlier checkpoints unchanged.
"""

import contextlib
import errno
import functools
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError, first_line
from harp_jax.checkpoints.recorded import CONFIG, config_digest, recorded_config

log = logging.getLogger(__name__)
T = TypeVar("T")
RETRY_SECONDS = 2.0
# In TensorStore's messages about storage that does not answer.
_TRANSIENT_STATUS = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "PERMISSION_DENIED", "Input/output error")
_MULTIPLIERS = (0x9E3779B1, 0x85EBCA77)  # odd, from the golden ratio and from xxHash's primes


def leaf_digest(x: jax.Array) -> jax.Array:
    """Two words of Σ bits(xᵢ)·odd(i) mod 2³²: [2] uint32. A modular sum does not depend on the order of its terms, so the digest
    does not depend on the mesh, and no device needs another's values. Any change of one element changes both words."""
    bits = jax.lax.bitcast_convert_type(x, {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[x.dtype.itemsize])
    bits = bits.astype(jnp.uint32)
    index = jnp.zeros(x.shape, jnp.uint32)
    for axis, size in enumerate(x.shape):
        index = index * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, x.shape, axis)
    words = []
    for multiplier in _MULTIPLIERS:
        odd = (index * jnp.uint32(multiplier)) << 1 | 1
        words.append(jnp.sum(bits * (odd ^ (odd >> 16) | 1), dtype=jnp.uint32))
    return jnp.stack(words)


@functools.cache
def _digest(out: NamedSharding | None) -> Callable[[jax.Array], jax.Array]:
    return jax.jit(leaf_digest, out_shardings=out)


def digests(state: Any) -> dict[str, list[int]]:
    """`leaf_digest` of every leaf by its path, in every process. One program per shape: a single one for all leaves took seconds to
    compile. One leaf at a time: with many collectives waiting for the same CPU device, XLA assumes a deadlock and aborts."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    sharding = getattr(leaves[0][1], "sharding", None)
    compute = _digest(NamedSharding(sharding.mesh, P()) if isinstance(sharding, NamedSharding) else None)
    return {jax.tree_util.keystr(path): jax.device_get(compute(x)).tolist() for path, x in leaves}


def _meta(manager: Any, step: int, config: str) -> dict[str, Any]:
    """What `Checkpoints.save` stored with the arrays. ValueError for damage, InputError for a run of another `config` (digest)."""
    import orbax.checkpoint as ocp

    sealed = manager.restore(step, args=ocp.args.Composite(meta=ocp.args.JsonRestore()))["meta"]
    if hashlib.sha256(sealed["content"].encode()).hexdigest() != sealed["sha256"]:
        raise ValueError("its description does not match its digest")
    meta = json.loads(sealed["content"])
    if meta["config_sha256"] != config:
        where = f"{manager.directory}/{step}"
        raise InputError(f"{where} and the {CONFIG} next to it are from different runs; restore the right one")
    return meta


class Checkpoints:
    """The checkpoints of a workdir, or in `directory` (of a bucket). Saving is asynchronous; `close` waits for pending saves."""

    def __init__(self, workdir: str, directory: str = "") -> None:
        import orbax.checkpoint as ocp

        # A failed save is raised as one line; without this, a page of traceback per array would hide it.
        for name in ("absl", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._ocp = ocp
        self.directory = directory or os.path.join(os.path.abspath(workdir), "checkpoints")
        self._config = config_digest(workdir)
        # By default each device saves a slice of what all of them hold, which compiles one program per shape and device.
        handler = ocp.type_handlers.ArrayHandler(min_slice_bytes_for_replica_parallel=1 << 20)
        ocp.type_handlers.register_type_handler(jax.Array, handler, override=True)
        self._open()

    def _open(self) -> None:
        options = self._ocp.CheckpointManagerOptions(
            preservation_policy=self._ocp.checkpoint_managers.LatestN(2),
            cleanup_tmp_directories=True,  # of a killed save, so that nothing half-written is ever read
            enable_async_checkpointing=True,
        )
        self._manager = self._ocp.CheckpointManager(self.directory, options=options)

    def steps(self) -> list[int]:
        return sorted(self._manager.all_steps())

    def save(self, step: int, state: Any, meta: Mapping[str, Any]) -> None:
        """Starts saving `state` (a tree of arrays) with `meta` (JSON). InputError if it cannot start or an earlier save failed."""
        everything = {**meta, "step": step, "config_sha256": self._config, "digests": digests(state)}
        text = json.dumps(everything, sort_keys=True)
        sealed = {"content": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        args = self._ocp.args
        with self._writing():
            self._manager.save(step, args=args.Composite(state=args.StandardSave(state), meta=args.JsonSave(sealed)))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turns the error of a save, this one or one in the background, into one line that names the newest checkpoint left."""
        try:
            yield
        except Exception as error:
            # Opening removes the unfinished save, which may be filling the disk.
            for act in (self._manager.close, self._open):
                with contextlib.suppress(Exception):
                    act()
            raise InputError(
                f"cannot write a checkpoint to {self.directory}: {first_line(error)}; make room (or repair the disk) and run "
                f"the same command again: it resumes from step {max(self.steps(), default=0)}"
            ) from error

    def restore(self, abstract: Any) -> tuple[int, Any, dict[str, Any]] | None:
        """(step, state, meta) of the newest checkpoint that verifies, or None if there are no checkpoints. `abstract` has the
        shapes, dtypes and shardings. Newer checkpoints that do not verify are moved to `checkpoints_damaged`, with the reason in
        the log. Raises InputError if checkpoints exist and none verifies, or if they cannot be read at the moment."""
        args = self._ocp.args

        def read(step: int) -> tuple[Any, dict[str, Any]]:
            meta = _meta(self._manager, step, self._config)
            state = self._manager.restore(step, args=args.Composite(state=args.StandardRestore(abstract)))["state"]
            # Orbax silently casts to another dtype, which changes the digests too.
            if digests(state) != meta["digests"]:
                raise ValueError("digest mismatch")
            return state, meta

        newest = _newest(self.steps(), read, self.directory)
        if newest is None:
            return None
        step, (state, meta), damaged = newest
        if damaged:
            from etils import epath

            here, aside = epath.Path(self.directory), epath.Path(f"{self.directory}_damaged")
            for name in map(str, damaged if jax.process_index() == 0 else ()):
                aside.mkdir(parents=True, exist_ok=True)
                if (aside / name).exists():
                    (aside / name).rmtree()
                if (here / name).exists():
                    (here / name).rename(aside / name)
            self._manager.close()
            self._open()
        return step, state, meta

    def wait(self) -> None:
        """Waits until all saves are on disk. Raises InputError if one failed."""
        with self._writing():
            self._manager.wait_until_finished()

    def close(self) -> None:
        with self._writing():
            self._manager.close()


def _newest(steps: Iterable[int], read: Callable[[int], T], where: str) -> tuple[int, T, list[int]] | None:
    """(step, result of `read`, newer damaged steps) for the newest checkpoint that verifies; None if `steps` is empty. A failed
    read is retried once: corruption fails twice, an outage may pass. InputError if none verifies or the storage does not answer."""
    damaged: list[int] = []
    for step in sorted(steps, reverse=True):
        for last in (False, True):
            try:
                return step, read(step), damaged
            except InputError:
                raise
            except Exception as error:
                if last and _transient(error):
                    raise InputError(
                        f"cannot read checkpoint {step} in {where}: {first_line(error)}; nothing was changed, run the same "
                        "command again when the storage is back"
                    ) from error
                then = "it is damaged and is skipped" if last else "trying again"
                log.warning("checkpoint %d in %s cannot be read (%s); %s", step, where, first_line(error), then)
            if not last:
                time.sleep(RETRY_SECONDS)
        damaged.append(step)
    if damaged:
        wrong = f"none of the checkpoints {damaged[::-1]} in {where} verifies"
        raise InputError(f"{wrong}; restore a backup, or train again")
    return None


def _transient(error: BaseException | None) -> bool:
    """Whether an error, or its cause, is a temporary failure of the storage and not a missing or damaged file."""
    while error is not None:
        system = isinstance(error, OSError) and error.errno not in (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
        if system or any(word in str(error) for word in _TRANSIENT_STATUS):
            return True
        error = error.__cause__ or error.__context__
    return False


def load_params(workdir: str) -> tuple[dict, ConfigDict, int]:
    """(parameters, config, step) of a training workdir's newest checkpoint that verifies; parameters are numpy float32. Reads on
    one host, whatever mesh wrote it; logs newer checkpoints that do not verify. Raises InputError if there is nothing to read, or
    if the storage does not answer."""
    import orbax.checkpoint as ocp

    config, digest = recorded_config(workdir), config_digest(workdir)
    directory = os.path.join(os.path.abspath(workdir), "checkpoints")
    device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])

    def read(step: int) -> dict:
        """The parameters only: Adam's moments are twice their size and stay on disk."""
        meta = _meta(manager, step, digest)
        stored = manager.item_metadata(step)["state"].tree["params"]
        wanted = {"params": jax.tree.map(lambda m: jax.ShapeDtypeStruct(m.shape, m.dtype, sharding=device), stored)}
        how = ocp.args.PyTreeRestore(
            item=wanted, restore_args=ocp.checkpoint_utils.construct_restore_args(wanted), partial_restore=True
        )
        restored = manager.restore(step, args=ocp.args.Composite(state=how))["state"]
        params = {"params": restored["params"]}
        if digests(params) != {name: d for name, d in meta["digests"].items() if name.startswith("['params']")}:
            raise ValueError("digest mismatch in the parameters")
        return jax.tree.map(np.asarray, params["params"])

    registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
    registry.add("state", ocp.args.PyTreeRestore, ocp.PyTreeCheckpointHandler())
    registry.add("meta", ocp.args.JsonRestore, ocp.JsonCheckpointHandler())
    newest = None
    if os.path.isdir(directory):
        with ocp.CheckpointManager(directory, handler_registry=registry) as manager:
            newest = _newest(manager.all_steps(), read, directory)
    if newest is None:
        raise InputError(f"{workdir} holds no checkpoint yet; train first")
    step, params, _ = newest
    return params, config, step
