"""Seconds of a training step, measured on the real data: how many steps fit into a given time."""

import os
import statistics
import tempfile

from ml_collections import ConfigDict

from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.training.train import train

STEPS = 8  # measured; the first ones compile the program, which the median leaves out


def seconds_per_step(config: ConfigDict, directory: str = "", steps: int = STEPS) -> float | None:
    """The median over `steps` steps of the training that a config describes, in a temporary workdir below `directory`.

    Evaluations and checkpoints are not measured. None after SIGTERM: the first steps, which compile, would be the median. Raises
    InputError as `train` does.
    """
    trial = config.copy_and_resolve_references()
    with trial.unlocked():
        trial.steps, trial.log_every, trial.eval_every, trial.probe_every = steps, 1, 0, 0
        trial.checkpoint_every = steps
    with tempfile.TemporaryDirectory(prefix=".rate.", dir=directory or None) as place:
        workdir = os.path.join(place, "trial")
        if "interrupted" in train(trial, workdir):
            return None
        return statistics.median(row["seconds_per_step"] for row in read_metrics(workdir) if row["split"] == "train")
