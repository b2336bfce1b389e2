"""The directory of a run: a lock against a second run, a check of the config, an error for a full disk."""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import jax
from ml_collections import ConfigDict

from harp_jax.base import files
from harp_jax.base.errors import InputError
from harp_jax.base.files import files_below, replacing, write_sums
from harp_jax.checkpoints.checkpoint import Checkpoints, remove_unfinished
from harp_jax.checkpoints.recorded import CONFIG, read_config
from harp_jax.input.records import MANIFEST
from harp_jax.training.stages.base import Stage

WHOLE, END = 256 << 20, 1 << 20  # bytes: larger inputs are told apart by their size and ends
INPUTS = "inputs"  # in config.json: what `inputs_of` returned
# Config fields that may change when a run resumes.
FREE_TO_CHANGE = frozenset(
    (
        "log_every",
        "checkpoint_every",
        "eval_every",
        "eval_batches",
        "wandb",
        "mesh",
    )
)


def claim_workdir(workdir: str, config: ConfigDict, stage: Stage) -> IO | None:
    """Write config.json and the tokenizer to a new workdir; raises InputError for a workdir of another config or in use.

    Returns an open lock (on the first process): two runs in one workdir would overwrite each other's checkpoints.
    """
    if "://" in workdir:
        raise InputError(
            f"--workdir={workdir}: metrics are appended, which buckets do not support; mount the bucket, or use a local path"
        )
    lock = None
    if jax.process_index() == 0:
        lock = locked(workdir)
    own = json.loads(config.to_json_best_effort()) | {stage.family.name: dataclasses.asdict(stage.shape)}
    own[INPUTS] = inputs_of(config)
    path = os.path.join(workdir, CONFIG)
    if os.path.exists(path):
        other = read_config(workdir).to_dict()
        before = dict(other.pop(INPUTS, own[INPUTS]))  # configs of older versions have none
        changed = [name for name, what in own.pop(INPUTS) if before.get(name, what) != what]
        if changed:
            raise InputError(
                f"{workdir} was started on other data: {', '.join(changed)} changed since; restore it, or choose another --workdir"
            )
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
        # Binds the tokenizer to the run; a checkpoint has the digest of config.json.
        write_sums(
            workdir, [CONFIG, *(os.path.join("tokenizer", name) for name in files_below(f"{workdir}/tokenizer"))]
        )
    return lock


def inputs_of(config: ConfigDict) -> list[list[str]]:
    """[path, content] of what a run reads.

    Content is a digest: of a generation job that of its manifest, which has those of the shards; of documents and clicks of
    many gigabytes that of their ends, and the size.
    """
    manifests = [os.path.join(directory, MANIFEST) for directory in config.get("data", ())]
    small = [config.get(name, "") for name in ("queries", "qrels", "candidates", "folds", "train_queries")]
    large = [config.get(name, "") for name in ("docs", "clicks")]
    found = [[path, files.sha256_file(path)] for path in (*manifests, *small) if path and os.path.isfile(path)]
    return found + [[path, large_content(path)] for path in large if path and os.path.isfile(path)]


def large_content(path: str) -> str:
    """The digest of a file up to WHOLE bytes; of a larger one that of its first and last megabyte, and its size."""
    size = os.path.getsize(path)
    if size <= WHOLE:
        return files.sha256_file(path)
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(END))
        file.seek(-END, os.SEEK_END)
        digest.update(file.read(END))
    return f"{size} bytes, ends {digest.hexdigest()}"


def locked(workdir: str) -> IO:
    """The workdir's lock file (`files.locked`)."""
    busy = f"another run is using {workdir}; wait for it, or choose another --workdir"
    return files.locked(os.path.join(workdir, "lock"), busy)


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
def disk_full_as_input_error(workdir: str) -> Iterator[None]:
    """Raise InputError when the disk is full (or a quota or file size limit reached); complete checkpoints are unchanged."""
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) or not (reason := files.disk_full(error)):
            raise
        raise InputError(
            f"cannot write to {workdir}: {reason}; free space and run the same command again: it resumes from step "
            f"{_newest_checkpoint(workdir)}"
        ) from error


def _newest_checkpoint(workdir: str) -> int:
    """Its step, or 0 where there is none."""
    return max(Checkpoints(workdir).steps(), default=0) if os.path.isdir(os.path.join(workdir, "checkpoints")) else 0
