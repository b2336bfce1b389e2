"""Metrics as JSON lines and TensorBoard events, and to Weights & Biases on request.

The JSON lines are authoritative: one object per line, `step` first.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import replacing
from harp_jax.checkpoints.recorded import METRICS
from harp_jax.checkpoints.recorded import read_metrics as read


class MetricsLog:
    """Appends to workdir/metrics.jsonl and workdir/tensorboard. Opening removes the lines after the restored step."""

    def __init__(self, workdir: str, restored_step: int, enabled: bool = True, wandb: "WandbLog | None" = None) -> None:
        self._file = self._board = None
        self.wandb = wandb
        if not enabled:
            return
        # Not SummaryWriter: it writes in a thread, which dies when the disk is full, and the run would wait for it forever.
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        self.path = os.path.join(workdir, METRICS)
        cut_after(self.path, restored_step)
        self._file = open(self.path, "a", encoding="utf-8")
        directory = os.path.join(workdir, "tensorboard")
        os.makedirs(directory, exist_ok=True)
        self._board = EventsWriter(os.path.join(directory, "events"), f".{os.getpid()}")
        # Makes TensorBoard discard what a killed run wrote after its last checkpoint.
        start = SessionLog(status=SessionLog.START)
        self._board.write_event(Event(wall_time=time.time(), step=restored_step + 1, session_log=start))

    def write(self, step: int, metrics: Mapping[str, float], prefix: str = "train") -> None:
        """Append one line, {"step", "split", then the metrics as floats}, with `prefix` as the split."""
        if self._file is None or self._board is None:
            return
        line: dict[str, Any] = {
            "step": step,
            "split": prefix,
            **{k: float(f"{float(v):.6g}") for k, v in metrics.items()},
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=f"{prefix}/{name}", simple_value=float(value)) for name, value in metrics.items()]
        self._board.write_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._board.flush()
        if self.wandb is not None:
            self.wandb.write(step, metrics, prefix)

    def close(self) -> None:
        if self.wandb is not None:
            self.wandb.close()
        if self._file is not None and self._board is not None:
            # Each line is already on disk; an error here was reported by `write`.
            with contextlib.suppress(OSError):
                self._file.close()
            with contextlib.suppress(OSError):
                self._board.close()


def cut_after(path: str, step: int) -> None:
    """Remove the lines after `step`: a resumed run writes them again."""
    if os.path.exists(path):
        rows = [row for row in read(os.path.dirname(path)) if row["step"] <= step]
        with replacing(path) as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


class WandbLog:
    """A run of the project `project`, named after the workdir; a resumed training continues the same run.

    Follows wandb's own settings, such as WANDB_MODE=offline, which needs no account. Raises InputError without the package and
    where wandb refuses. What it cannot send later is wandb's to report: training never waits for it.
    """

    def __init__(self, project: str, workdir: str, config: Mapping[str, Any]) -> None:
        with needs("config.wandb", "wandb", "wandb"):
            import wandb
        place = os.path.abspath(workdir)
        try:
            self._run = wandb.init(
                project=project,
                name=os.path.basename(place),
                id=hashlib.sha256(place.encode()).hexdigest()[:16],
                resume="allow",
                dir=place,
                config=dict(config),
            )
        except (wandb.Error, OSError) as error:
            raise InputError(
                f"wandb does not start: {error}; log in with `wandb login`, set WANDB_MODE=offline, or set --config.wandb="
            ) from error
        # A resumed training repeats the steps after its last checkpoint, which wandb's own counter refuses.
        self._run.define_metric("*", step_metric="trained_step")

    def write(self, step: int, metrics: Mapping[str, float], prefix: str) -> None:
        """Sends one line of metrics as PREFIX/NAME."""
        self._run.log({"trained_step": step, **{f"{prefix}/{name}": float(value) for name, value in metrics.items()}})

    def close(self) -> None:
        """Ends the run; an error here is no error of the training."""
        with contextlib.suppress(Exception):
            self._run.finish()
