"""Trainings as steps of experiments and of `harp site`: each writes its workdir once (`base/made.py`)."""

from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from ml_collections import ConfigDict

from harp_jax.base.errors import Terminated
from harp_jax.base.made import InputPath, OnceFunction, once
from harp_jax.base.progress import show_log
from harp_jax.config import FILE_FIELDS, SPEED_FIELDS

P = ParamSpec("P")
T = TypeVar("T")


def named_inputs(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The files that a training config names, by option."""
    config = arguments["config"]
    return {f"config.{name}": config[name] for name in FILE_FIELDS if config.get(name)}


def recorded(function: Callable[P, T]) -> OnceFunction[P, T]:
    """`once` for a function of (config, output)."""
    return once(inputs=named_inputs, speed=[f"config.{name}" for name in SPEED_FIELDS])(function)


@recorded
def train(config: ConfigDict, output: str) -> dict[str, float]:
    """Trains an encoder's stage in the workdir `output`, or resumes it; returns the last metrics. Terminated after SIGTERM."""
    from harp_jax.training.train import train as run

    return last_metrics(run, config, output)


def last_metrics(run: Callable[[ConfigDict, str], Any], config: ConfigDict, output: str) -> dict[str, float]:
    """The metrics of a training that reached its end. Raises Terminated if SIGTERM ended it."""
    show_log()
    done = run(config, output)
    if done.interrupted:
        raise Terminated(f"{output}: terminated; run the same command again to resume")
    return done.metrics


@once
def first_layers(encoder: InputPath, layers: int, output: str, sha256: str = "") -> None:
    """Writes the first layers of a Hugging Face encoder (`export.write_first_layers`)."""
    from harp_jax.checkpoints.export import write_first_layers

    write_first_layers(encoder, layers, output, sha256)
