"""What a stage is: all that the training loop needs to know of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from harp_jax.input.lanes import Reader
from harp_jax.input.packing import Group


@dataclass(frozen=True)
class Stage:
    """All that the loop needs to know of a stage."""

    tokenizer: Any  # Tokenizer, or the words of a neural ranker
    bert: Any  # the model's shape, with the tokenizer's vocabulary: BertConfig, or a neural ranker's NeuralConfig
    tasks: tuple[str, ...]
    objective: Callable[[Any], Any]  # the model's shape (padded vocabulary) → loss function
    reader: Reader
    held_out: Reader | None
    layout: Any  # packing.Layout, or another lanes.Layout
    shares: Mapping[str, float]
    steps: int
    start: Callable[[Any, jax.Array], dict]  # initial parameters
    selection: Callable[[Any, str], Any] | None = None  # encoder shape, workdir → what evaluates (selection.py)
    window: int = 0  # groups of a lane's window; 0: config.window


class NoReader:
    """Stands for the data in a dry run: it knows only the tasks' names."""

    def __init__(self, tasks: tuple[str, ...]) -> None:
        self.sizes: Mapping[str, int] = dict.fromkeys(tasks, 1)

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        return []
