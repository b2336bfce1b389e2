"""The directory of a run: one run at a time, of one config, on a disk that may be full."""

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import jax
from ml_collections import ConfigDict

from harp_jax.checkpoints.checkpoint import remove_unfinished
from harp_jax.errors import InputError
from harp_jax.files import replacing
from harp_jax.stages.base import Stage

# What a resumed run may change without becoming another run.
FREE_TO_CHANGE = frozenset(
    (
        "log_every",
        "checkpoint_every",
        "keep_checkpoints",
        "eval_every",
        "eval_batches",
        "max_skipped",
        "spike",
        "compilation_cache",
        "mesh",
    )
)


def claim_workdir(workdir: str, config: ConfigDict, stage: Stage) -> IO | None:
    """Writes config.json and the tokenizer into a new workdir; refuses one that belongs to another config, naming the keys.

    Returns an open lock (on the first process): two runs in one workdir would overwrite each other's checkpoints.
    """
    if "://" in workdir:
        raise InputError(
            f"--workdir={workdir}: metrics are appended, which buckets cannot do; mount it, or name a local path"
        )
    lock = None
    if jax.process_index() == 0:
        lock = locked(workdir)
    own = json.loads(config.to_json_best_effort()) | {stage.family.name: dataclasses.asdict(stage.shape)}
    path = os.path.join(workdir, "config.json")
    if os.path.exists(path):
        try:
            with open(path, encoding="utf-8") as file:
                other = json.load(file)
        except ValueError as error:
            raise InputError(f"{path} is not JSON: {error}; restore it or start again in an empty workdir") from error
        keys = sorted(
            k for k in flatten(own).keys() | flatten(other).keys() if flatten(own).get(k) != flatten(other).get(k)
        )
        keys = [k for k in keys if k.split(".")[0] not in FREE_TO_CHANGE]
        if keys:
            raise InputError(
                f"{workdir} belongs to another config: {', '.join(f'{k} was {flatten(other).get(k)!r}' for k in keys[:5])}"
                f"{' …' if len(keys) > 5 else ''}; choose another --workdir, or set these back"
            )
        if lock is not None:
            remove_unfinished(workdir)
    elif lock is not None:
        stage.vocabulary.save(os.path.join(workdir, "tokenizer"))
        with replacing(path) as file:
            json.dump(own, file, indent=2)
    return lock


def locked(workdir: str) -> IO:
    """The workdir's lock file, held as long as it is open (the kernel lets go of it however the process ends)."""
    try:
        os.makedirs(workdir, exist_ok=True)
        lock = open(os.path.join(workdir, "lock"), "w")
    except OSError as error:
        raise InputError(f"cannot write to {workdir}: {error.strerror}; choose another --workdir") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InputError(f"another run is using {workdir}; wait for it, or choose another --workdir") from error
    return lock


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} → {"a.b": 1}."""
    out: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            out |= flatten(value, f"{prefix}{key}.")
        else:
            out[prefix + key] = value
    return out


@contextlib.contextmanager
def room_on_disk(workdir: str) -> Iterator[None]:
    """A full disk ends the run with one line; the checkpoints that are complete stay as they are."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise InputError(
            f"cannot write to {workdir}: {error.strerror}; make room and run the same command again, it goes on from the "
            "last checkpoint"
        ) from error
