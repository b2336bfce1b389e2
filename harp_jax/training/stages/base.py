"""The `Stage` record: the interface between a kind of training and the training loop.

Mesh, state, step, loop and checkpoints belong to `training/` and are the same for every stage.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic

import jax
from ml_collections import ConfigDict

from harp_jax.input.lanes import Layout
from harp_jax.input.packing import Group, Reader
from harp_jax.input.ranking_groups import Judged
from harp_jax.objectives.objective import Objective
from harp_jax.ranking.selection import Selection
from harp_jax.training.stages.families import Family, Shape, Vocabulary


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[Shape]):
    """A stage: its model, objective, data and schedule."""

    family: Family[Shape]
    shape: Shape  # of the model, with the vocabulary's size
    vocabulary: Vocabulary
    tasks: tuple[str, ...]
    objective: Callable[[Shape], Objective]  # from a shape whose vocabulary is padded for the mesh
    reader: Reader
    held_out: Reader | None = None
    layout: Layout
    shares: Mapping[str, float]  # fraction of each of the reader's tasks in the stream
    steps: int
    start: Callable[[Shape, jax.Array], dict]  # initial parameters (numpy) from a padded shape and a key
    selection: Callable[[Shape, str], Selection] | None = None  # from padded shape and workdir
    # Task → its best trivial predictor and that one's accuracy (`objectives/objective.py`); empty where unknown.
    trivial: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    untrained: tuple[str, ...] = ()  # heads that the checkpoint of `config.init` lacks
    spike: float = 8.0  # skip an update whose loss is this many standard deviations above the running mean; 0: never
    window: int = 0  # groups per window of a lane; 0: config.window


class NoReader:
    """Replaces the data in a dry run: it has task names but no groups."""

    def __init__(self, tasks: tuple[str, ...]) -> None:
        self.sizes: Mapping[str, int] = dict.fromkeys(tasks, 1)

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        return []


def selecting(
    config: ConfigDict, family: Family[Shape], vocabulary: Vocabulary, held_out: Judged
) -> Callable[[Shape, str], Selection]:
    """A `Stage.selection` that evaluates on the judgments `held_out` (see `selection.held_out`)."""

    def make(shape: Shape, workdir: str) -> Selection:
        return Selection(
            config,
            held_out,
            workdir,
            lambda params: family.scorer(shape, params, vocabulary, config),
            lambda directory, params: family.save(directory, shape, params, vocabulary, config),
        )

    return make
