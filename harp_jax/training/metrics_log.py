"""Metrics as JSON lines and TensorBoard events, and to Weights & Biases on request.

The JSON lines are authoritative: one object per line, `step` first.
"""

import contextlib
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from harp_jax.base.files import replacing
from harp_jax.checkpoints.recorded import METRICS
from harp_jax.checkpoints.recorded import read_metrics as read
from harp_jax.training.wandb_log import WandbLog


class MetricsLog:
    """Appends to workdir/metrics.jsonl and workdir/tensorboard. Opening removes the lines after the restored step."""

    def __init__(self, workdir: str, restored_step: int, enabled: bool = True) -> None:
        self._file = self._board = None
        self.wandb: WandbLog | None = None
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
