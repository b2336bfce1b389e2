"""What a stage passes to `train`, and what several stages share.

A stage is one file: a function `NAME_stage(config, with_data)` that returns a `Stage`, its fields in `harp_jax/config.py`, and an
objective (`objectives/objective.py`) if no other stage has it. Mesh, optimizer, step, loop and checkpoints are the same for all.
"""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
from jax.sharding import PartitionSpec as P
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import as_stored
from harp_jax.input.lanes import Source
from harp_jax.input.packing import Group, Reader
from harp_jax.model import cross_encoder
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.objectives.objective import Objective

if TYPE_CHECKING:
    from harp_jax.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)
Start = Callable[[EncoderConfig, jax.Array], dict]  # parameters from a shape and a key
Trivial = Mapping[str, tuple[str, float]]  # task → (best trivial predictor, its accuracy)
Evaluate = Callable[[dict, int], dict[str, float]]  # parameters, step → held-out metrics
HEAD_DIRECTORY = "mlm_head"  # in a workdir: the run of `Stage.before`


@dataclass(frozen=True)
class Model:
    """The parameters that a stage trains, by default the cross-encoder's with its heads. Functions get the encoder's shape with its
    vocabulary padded."""

    init: Start = cross_encoder.init_params  # draws a new float32 tree, whose shapes are those of the state
    rules: Callable[[EncoderConfig], tuple[tuple[str, P], ...]] = cross_encoder.rules  # its sharding
    flops: Callable[[EncoderConfig, int, int, int, int], float] = cross_encoder.step_flops
    frozen: tuple[str, ...] = ()  # subtrees that the optimizer leaves out; the objective must not differentiate them


class HeldOut(NamedTuple):
    """Groups to evaluate the objective on, and the trivial predictors to compare with, as far as known."""

    reader: Reader
    trivial: Trivial


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What differs between kinds of training."""

    encoder: EncoderConfig
    tokenizer: "Tokenizer"
    model: Model = Model()
    start: Start  # the initial parameters (numpy)
    objective: Objective
    source: Source  # what to train on
    steps: int
    held_out: HeldOut | None = None
    # From shape and workdir: keeps the best parameters there.
    select: Callable[[EncoderConfig, str], Evaluate] | None = None
    spike: float = 8.0  # skip an update whose loss is this many standard deviations above the running mean; 0: never
    check: Callable[[int, Mapping[str, float]], None] | None = None  # of (step, metrics): InputError ends the run
    # Config and stage of the run that must come first, a training of a new MLM head; this stage starts from its parameters.
    before: "Callable[[Stage], tuple[ConfigDict, Stage]] | None" = None


CONSTANT = 1e-3  # standard deviation of a group's scores, whose margin is 1 in most losses


def warn_if_constant(config: ConfigDict, step: int, metrics: Mapping[str, float]) -> None:
    """Warns if a ranker gives all documents of a query nearly the same score after warmup."""
    if metrics.get("score_spread", 1.0) < CONSTANT and step > config.warmup * config.steps:
        log.warning(
            "the scores have collapsed up to step %d: their standard deviation within a group is %.1g, so that the model cannot "
            "rank; start in another --workdir with a lower learning_rate, or check that negatives differ from positives",
            step,
            metrics["score_spread"],
        )


@dataclass
class NoReader:
    """Replaces the data in a dry run: task names but no groups."""

    sizes: Mapping[str, int]

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        return []


OPTIONAL = ("init", "tokenizer", "vectors", "folds", "train_queries", "teacher")  # checked if set


def check_inputs(config: ConfigDict, *required: str) -> None:
    """Raises InputError with all inputs, of the `required` and the optional fields, that are not set or do not exist."""
    from harp_jax.corpus.paths import is_irds

    def exists(path: str) -> bool:
        return not path or os.path.exists(as_stored(path)) or is_irds(path) or "://" in path

    missing, hint = {}, ""
    for name in (*required, *(name for name in OPTIONAL if config.get(name))):
        paths = [config[name]] if isinstance(config[name], str) else list(config[name])
        if not any(paths):
            missing[name] = "is not set"
        elif absent := [path for path in paths if not exists(path)]:
            missing[name] = f"does not exist ({', '.join(absent)})"
            hint = hint or (how_to_fetch(absent[0]) if name in ("init", "tokenizer") else "")
    if "init" in config and not config.init and not config.tokenizer:
        missing["init"] = "and tokenizer are not set"
    if missing:
        said = ", ".join(f"{name} {what}" for name, what in missing.items())
        raise InputError(f"missing inputs: {said}; set each as --config.FIELD=PATH{hint}")
