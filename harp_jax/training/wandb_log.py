"""Metrics to Weights & Biases, beside the JSON lines and TensorBoard; extra [wandb]."""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from typing import Any

from harp_jax.base.errors import InputError, needs


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
