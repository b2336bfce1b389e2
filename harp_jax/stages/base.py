"""What a stage is: all that the training loop needs to know of it.

Mesh, state, step, loop and checkpoints are the loop's (`training/`), the same for every stage.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic

import jax
from ml_collections import ConfigDict

from harp_jax.corpus.trec import Qrels
from harp_jax.input.lanes import Layout, Reader
from harp_jax.input.packing import Group
from harp_jax.objectives.objective import Objective
from harp_jax.ranking.selection import Selection
from harp_jax.stages.families import Family, Shape, Vocabulary


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[Shape]):
    """A stage: its model, objective, data and schedule."""

    family: Family[Shape]
    shape: Shape  # of the model, with the vocabulary's size
    vocabulary: Vocabulary
    tasks: tuple[str, ...]
    objective: Callable[[Shape], Objective]  # of a shape whose vocabulary is padded for the mesh
    reader: Reader
    held_out: Reader | None = None
    layout: Layout
    shares: Mapping[str, float]  # of each of the reader's tasks in the stream
    steps: int
    start: Callable[[Shape, jax.Array], dict]  # initial parameters (numpy) from a padded shape and a key
    selection: Callable[[Shape, str], Selection] | None = None  # padded shape, workdir → evaluation that selects
    window: int = 0  # groups of a lane's window; 0: config.window


class NoReader:
    """Stands for the data in a dry run: it knows the tasks' names only."""

    def __init__(self, tasks: tuple[str, ...]) -> None:
        self.sizes: Mapping[str, int] = dict.fromkeys(tasks, 1)

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        return []


def selecting(
    config: ConfigDict, family: Family[Shape], vocabulary: Vocabulary, kept_back: Qrels
) -> Callable[[Shape, str], Selection]:
    """What makes a `Selection` by the held-out judgments `kept_back` (`selection.held_out`) once the shape is padded."""

    def make(shape: Shape, workdir: str) -> Selection:
        return Selection(
            config,
            kept_back,
            workdir,
            lambda params: family.scorer(shape, params, vocabulary, config),
            lambda directory, params: family.save(directory, shape, params, vocabulary, config),
        )

    return make
