"""The order of training examples: a pure function of (seed, lane, position), cut into lanes that hosts share out.

A lane is an endless stream of groups. It goes by closed windows: how many records each task gives to a window is drawn
from (seed, lane, window), the records are read, shuffled and packed, and the window's batches are served one by one. The
cursor of a lane is therefore three small things: the window, the batch within it, and how many records of each task came
before. Resuming repacks one window; another number of hosts gets the same batches.
"""

import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from harp_jax.input.packing import Group, Placement
from harp_jax.randomness import generator


class Reader(Protocol):
    """Where groups come from. `sizes` counts the records of each task; streams repeat without end."""

    sizes: Mapping[str, int]

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        """The records `start` … `start + count - 1` of the lane's endless stream of a task."""


class Layout(Protocol):
    """How the groups of a window become batches of static shapes: packed rows, or padded pairs."""

    @property
    def microbatches(self) -> int:
        """That a step takes of each lane and accumulates."""

    def single(self) -> "Layout":
        """The same without microbatches, for evaluation."""

    def plan(self, lengths: list[tuple[int, ...]]) -> Iterator[list[Placement]]:
        """The batches of a window, given the lengths of each group's sequences."""

    def fill(self, groups: list[Group], placements: list[Placement], lane: int) -> dict[str, np.ndarray]:
        """The arrays of one lane's batch; lanes are concatenated along the first axis."""


@dataclass
class Cursor:
    """Where a lane stands: the next batch is number `batch` of window `window`."""

    window: int = 0
    batch: int = 0
    consumed: dict[str, int] = field(default_factory=dict)  # records of each task before this window

    def to_json(self) -> dict[str, Any]:
        return {"window": self.window, "batch": self.batch, "consumed": dict(self.consumed)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Cursor":
        return Cursor(int(data["window"]), int(data["batch"]), {k: int(v) for k, v in data["consumed"].items()})


def mixture(sizes: Mapping[str, int], sampling: str) -> dict[str, float]:
    """The share of each task in the stream: "uniform" over the tasks (small ones repeat) or "proportional" to records."""
    weights = {task: float(size if sampling == "proportional" else 1) for task, size in sizes.items()}
    total = sum(weights.values())
    return {task: weight / total for task, weight in weights.items()}


def epoch_window(window: int, size: int, lanes: int, whole: int = 1) -> int:
    """Groups of a lane's window where epochs count: `window`, or a lane's share of the `size` units if that is less, in
    multiples of `whole`.

    A longer window would shuffle several epochs as one: a training that ends within it has seen some units several times
    and others never.
    """
    share = size // lanes if size >= lanes else size
    return min(window, max(whole, share - share % whole))


class Lane:
    """One lane's stream of packed batches."""

    def __init__(
        self,
        reader: Reader,
        index: int,
        layout: Layout,
        shares: Mapping[str, float],
        window: int,
        seed: int,
        cursor: Cursor,
    ) -> None:
        self.reader, self.index, self.layout, self.shares = reader, index, layout, dict(shares)
        self.window, self.seed, self.cursor = window, seed, cursor
        self._loaded = -1
        self._groups: list[Group] = []
        self._plans: list[list[Placement]] = []

    def counts(self, window: int) -> dict[str, int]:
        """How many records each task gives to a window."""
        draw = generator(self.seed, "mixture", self.index, window).multinomial(self.window, list(self.shares.values()))
        return {task: int(n) for task, n in zip(self.shares, draw)}

    def _load(self) -> None:
        cursor = self.cursor
        groups: list[Group] = []
        for task, count in self.counts(cursor.window).items():
            groups.extend(self.reader.read(self.index, task, cursor.consumed.get(task, 0), count))
        order = generator(self.seed, "window", self.index, cursor.window).permutation(len(groups))
        self._groups = [groups[i] for i in order]
        lengths = [tuple(len(s) for s in group.sequences) for group in self._groups]
        self._plans = list(self.layout.plan(lengths))
        self._loaded = cursor.window

    def next(self, microbatch: int = 0) -> dict[str, np.ndarray]:
        """The lane's next (micro)batch (`packing.fill`); moves the cursor. Texts are numbered apart in each microbatch."""
        if self._loaded != self.cursor.window:
            self._load()
        number = self.index * self.layout.microbatches + microbatch
        batch = self.layout.fill(self._groups, self._plans[self.cursor.batch], number)
        self.cursor.batch += 1
        if self.cursor.batch == len(self._plans):
            for task, count in self.counts(self.cursor.window).items():
                self.cursor.consumed[task] = self.cursor.consumed.get(task, 0) + count
            self.cursor.window += 1
            self.cursor.batch = 0
        return batch


class Batches:
    """Batches of several lanes, stacked lane by lane (and microbatch by microbatch), made ahead of time in a thread.

    Iterating gives (batch, cursors after it); `cursors` of an earlier run continues where that batch ended. Errors of the
    thread come out of the iteration.
    """

    def __init__(
        self,
        reader: Reader,
        layout: Layout,
        lanes: range,
        shares: Mapping[str, float],
        window: int,
        seed: int,
        cursors: Mapping[str, Any] | None = None,
        ahead: int = 4,
    ) -> None:
        cursors = cursors or {}
        self._lanes = [
            Lane(reader, i, layout, shares, window, seed, Cursor.from_json(cursors[str(i)]) if cursors else Cursor())
            for i in lanes
        ]
        self._ahead = ahead

    def make(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The next batch at once, in the calling thread."""
        micro = []
        for number in range(self._lanes[0].layout.microbatches):
            parts = [lane.next(number) for lane in self._lanes]
            micro.append({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        batch = micro[0] if len(micro) == 1 else {name: np.stack([m[name] for m in micro]) for name in micro[0]}
        return batch, {str(lane.index): lane.cursor.to_json() for lane in self._lanes}

    def __iter__(self) -> Iterator[tuple[dict[str, np.ndarray], dict[str, Any]]]:
        ready: queue.Queue = queue.Queue(self._ahead)
        stop = threading.Event()

        def work() -> None:
            try:
                while not stop.is_set():
                    item: Any = self.make()
                    while not stop.is_set():
                        try:
                            ready.put(item, timeout=0.2)
                            break
                        except queue.Full:
                            continue
            except BaseException as error:
                ready.put(error)

        thread = threading.Thread(target=work, name="input", daemon=True)
        thread.start()
        try:
            while True:
                item = ready.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()
            thread.join(timeout=5)
