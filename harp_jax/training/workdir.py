"""The directory of a run: a lock against a second run, a check of its config and data, its metrics."""

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

import jax
from ml_collections import ConfigDict

from harp_jax.base import bucket
from harp_jax.base.errors import InputError
from harp_jax.base.files import files_below, listed_sums, locked, replacing, sha256_file, write_sums
from harp_jax.checkpoints.recorded import CONFIG, METRICS, read_metrics, recorded_config
from harp_jax.config import FILE_FIELDS, SPEED_FIELDS, flattened
from harp_jax.text.tokenizer import Vocabulary

WHOLE, END = 256 << 20, 1 << 20  # bytes: for files above WHOLE, only the size and END bytes at both ends are compared
INPUTS = "inputs"  # in config.json: what `inputs_of` returned, and the tokenizer's digest
FREE_TO_CHANGE = {*SPEED_FIELDS, "eval_every", "eval_batches"}  # config fields that may differ when a run resumes


def claim_workdir(workdir: str, config: ConfigDict, model: Mapping[str, Any], tokenizer: Vocabulary) -> IO | None:
    """Write config.json and the tokenizer to a new workdir; raises InputError for a workdir of another config or in use. `model`:
    what config.json says of the model besides the config, {"encoder": its shape}. Returns an open lock (on the first process): two
    runs in one workdir would overwrite each other's checkpoints."""
    lock = None
    if jax.process_index() == 0:
        busy = f"another run is using {workdir}; wait for it, or choose another --workdir"
        lock = locked(os.path.join(workdir, "lock"), busy)
    own = json.loads(config.to_json_best_effort()) | dict(model)
    own[INPUTS] = [*inputs_of(config), ["tokenizer", tokenizer.sha256]]
    path = os.path.join(workdir, CONFIG)
    if os.path.exists(path):
        other = recorded_config(workdir).to_dict()
        if INPUTS not in other:
            raise InputError(f"{path} does not belong to a training run; choose another --workdir")
        before = dict(other.pop(INPUTS))
        if changed := [name for name, content in own.pop(INPUTS) if before.get(name, content) != content]:
            wrong = f"{workdir} was started on other data: {', '.join(changed)} changed since then"
            raise InputError(f"{wrong}; restore it, or choose another --workdir")
        old, new = dict(flattened(other)), dict(flattened(own))
        names = [name for name in sorted({*old, *new}) if name not in FREE_TO_CHANGE]
        if differences := [f"{name} was {old.get(name)!r}" for name in names if old.get(name) != new.get(name)]:
            wrong = f"{workdir} belongs to another config: {', '.join(differences[:5])}{' …' * (len(differences) > 5)}"
            raise InputError(f"{wrong}; choose another --workdir, or set these back")
    elif lock is not None:
        tokenizer.save(os.path.join(workdir, "tokenizer"))
        with replacing(path) as file:
            json.dump(own, file, indent=2)
    if lock is not None and not listed_sums(workdir):  # a new run, or one that was killed before this line
        # Binds the tokenizer to the run; a checkpoint has the digest of config.json.
        own_files = (os.path.join("tokenizer", name) for name in files_below(f"{workdir}/tokenizer"))
        write_sums(workdir, [CONFIG, *own_files])
    return lock


def inputs_of(config: ConfigDict) -> list[list[str]]:
    """[path, digest] of every input of a run. For a generation job it is the manifest's, which has those of the shards; for files
    above WHOLE bytes it is the size and the digest of the first and last megabyte. A model is only read at the start."""
    manifests = [os.path.join(directory, "manifest.json") for directory in config.get("data", ())]
    digests = [[path, hashlib.sha256(bucket.read(path)).hexdigest()] for path in manifests if bucket.is_bucket(path)]
    names = (name for name in FILE_FIELDS if name not in ("data", "init", "tokenizer"))
    for path in filter(os.path.isfile, (*manifests, *(config.get(name, "") for name in names))):
        size = os.path.getsize(path)
        if size <= WHOLE:
            digests.append([path, sha256_file(path)])
            continue
        with open(path, "rb") as file:
            ends = hashlib.sha256(file.read(END))
            file.seek(-END, os.SEEK_END)
            ends.update(file.read(END))
        digests.append([path, f"{size} bytes, ends {ends.hexdigest()}"])
    return digests


class MetricsLog:
    """Appends to workdir/metrics.jsonl, which is authoritative, and to workdir/tensorboard. Opening removes the lines after the
    restored step, which a resumed run writes again. Not `enabled`: writes nothing."""

    def __init__(self, workdir: str, restored_step: int, enabled: bool = True) -> None:
        self._file = self._board = None
        if not enabled:
            return
        # tensorboardX imports torch if it can, which takes three seconds, for tensors that are never logged here.
        torch = sys.modules.setdefault("torch", None)  # type: ignore[arg-type]
        # Not SummaryWriter: it writes in a thread, which dies when the disk is full, and the run would wait for it forever.
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        if torch is None:
            del sys.modules["torch"]
        path, directory = os.path.join(workdir, METRICS), os.path.join(workdir, "tensorboard")
        if os.path.exists(path):
            rows = [row for row in read_metrics(workdir) if row["step"] <= restored_step]
            with replacing(path) as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        self._file = open(path, "a", encoding="utf-8")
        os.makedirs(directory, exist_ok=True)
        self._board = EventsWriter(os.path.join(directory, "events"), f".{os.getpid()}")
        # Makes TensorBoard discard what a killed run wrote after its last checkpoint.
        start = SessionLog(status=SessionLog.START)
        self._board.write_event(Event(wall_time=time.time(), step=restored_step + 1, session_log=start))

    def write(self, step: int, metrics: Mapping[str, float], split: str = "train") -> None:
        """Append one line, {"step", "split", then the metrics as floats}."""
        if self._file is None or self._board is None:
            return
        rounded = {name: float(f"{float(value):.6g}") for name, value in metrics.items()}
        self._file.write(json.dumps({"step": step, "split": split, **rounded}) + "\n")
        self._file.flush()
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=f"{split}/{name}", simple_value=float(value)) for name, value in metrics.items()]
        self._board.write_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._board.flush()

    def close(self) -> None:
        for file in (self._file, self._board):
            # Each line is already on disk; an error here was reported by `write`.
            with contextlib.suppress(OSError):
                if file is not None:
                    file.close()
