"""The order of training examples: a pure function of (seed, lane, position), split into lanes that are divided among hosts.

A lane is an endless stream of groups, processed in closed windows: the number of records of each task in a window is drawn from
(seed, lane, window), the records are read, shuffled and packed, and the window's batches are returned one by one. The cursor of a
lane is therefore small, and resuming repacks one window; the batches do not depend on the number of hosts.

Worker processes make the batches of some of the lanes each: with threads, Python would pack on one core only. A worker receives its
lanes through a connection and sends (batch, cursors) until it closes, so it never outlives the training. Workers are spawned: a
script that trains with them needs `if __name__ == "__main__":`.
"""

import contextlib
import copy
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.base.steps import SAFE_PATH
from harp_jax.input.packing import Group, PackedLayout, Placement, Reader, fill, make_layout, plan

if TYPE_CHECKING:
    from harp_jax.text.tokenizer import Tokenizer

Item = tuple[dict[str, np.ndarray], dict[str, Any]]  # a batch, and the cursors after it

AHEAD_BYTES = 128 << 20  # maximum size of the batches made ahead


@dataclass(frozen=True)
class Source:
    """What the lanes read, and how: together with a lane's number it determines all of the lane's batches."""

    reader: Reader
    layout: PackedLayout
    shares: Mapping[str, float]  # fraction of each of the reader's tasks in the stream
    window: int  # groups of a lane that are shuffled and packed together
    seed: int


@dataclass
class Cursor:
    """The position of a lane: the next batch is number `batch` of window `window`."""

    window: int = 0
    batch: int = 0
    consumed: dict[str, int] = field(default_factory=dict)  # records of each task before this window


def mixture(sizes: Mapping[str, int], sampling: str) -> dict[str, float]:
    """Fraction of each task in the stream: "uniform" (small tasks repeat) or "proportional" to their record counts."""
    weights = {task: float(size if sampling == "proportional" else 1) for task, size in sizes.items()}
    total = sum(weights.values())
    return {task: weight / total for task, weight in weights.items()}


def packed_source(
    config: ConfigDict, tokenizer: "Tokenizer", reader: Reader, group_size: int, sequences: int, by_epochs: bool = False
) -> Source:
    """What a stage trains on: about `sequences` per step, in groups of at most `group_size`. `by_epochs`: a window is at most a
    lane's share of an epoch; one of several epochs would train on some units several times and on others never if the run ends."""
    shares, window = mixture(reader.sizes, config.get("task_sampling", "uniform")), config.window
    if by_epochs:
        units = sum(reader.sizes.values())
        window = min(window, units // config.lanes if units >= config.lanes else units)
    layout = make_layout(config, tokenizer, reader, shares, group_size, sequences, window)
    return Source(reader, layout, shares, window, config.seed)


class Lane:
    """One lane's stream of packed batches."""

    def __init__(self, source: Source, index: int, cursor: Cursor) -> None:
        self.source, self.index, self.cursor = source, index, cursor
        self.groups: list[Group] = []
        self.plans: list[list[Placement]] = []  # of the current window, one per (micro)batch; empty: not loaded

    def counts(self, window: int) -> dict[str, int]:
        """Number of records of each task in a window."""
        shares = self.source.shares
        rng = generator(self.source.seed, "mixture", self.index, window)
        return {task: int(n) for task, n in zip(shares, rng.multinomial(self.source.window, list(shares.values())))}

    def next(self, microbatch: int = 0) -> dict[str, np.ndarray]:
        """Return the lane's next (micro)batch (`packing.fill`) and advance the cursor. Each microbatch numbers its texts
        differently, so that their masks are independent."""
        cursor, source = self.cursor, self.source
        if not self.plans:
            groups: list[Group] = []
            for task, count in self.counts(cursor.window).items():
                groups.extend(source.reader.read(self.index, task, cursor.consumed.get(task, 0), count))
            order = generator(source.seed, "window", self.index, cursor.window).permutation(len(groups))
            self.groups = [groups[i] for i in order]
            self.plans = list(plan([tuple(len(s) for s in group.sequences) for group in self.groups], source.layout))
        number = self.index * source.layout.microbatches + microbatch
        batch = fill(self.groups, self.plans[cursor.batch], source.layout, number)
        cursor.batch += 1
        if cursor.batch == len(self.plans):
            for task, count in self.counts(cursor.window).items():
                cursor.consumed[task] = cursor.consumed.get(task, 0) + count
            cursor.window, cursor.batch, self.plans = cursor.window + 1, 0, []
        return batch


class Batches:
    """Batches of several lanes, concatenated along rows (microbatches are stacked), made ahead in a thread or in processes.
    Iterating yields (batch, cursors after it); pass such `cursors` to resume after that batch. The iteration raises the errors of
    the thread or the processes. The batches do not depend on `workers`."""

    def __init__(
        self, source: Source, lanes: Sequence[int], cursors: Mapping[str, Any] | None = None, workers: int = 0
    ) -> None:
        start = {i: Cursor(**copy.deepcopy(cursors[str(i)])) if cursors else Cursor() for i in lanes}
        self._lanes = [Lane(source, i, cursor) for i, cursor in start.items()]
        self._microbatches = source.layout.microbatches
        self._workers = min(workers, len(lanes))

    def make(self) -> Item:
        """The next batch and the cursors after it, computed in the calling thread."""
        micro = []
        for number in range(self._microbatches):
            parts = [lane.next(number) for lane in self._lanes]
            micro.append({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        batch = micro[0] if len(micro) == 1 else {name: np.stack([m[name] for m in micro]) for name in micro[0]}
        return batch, {str(lane.index): asdict(lane.cursor) for lane in self._lanes}

    def __iter__(self) -> Iterator[Item]:
        if not self._workers:
            yield from prefetched(self.make, self._room)
            return
        # Each worker has consecutive lanes, so that the batches of all workers only have to be concatenated.
        parts = [copy.copy(self) for _ in range(self._workers)]
        for number, part in enumerate(parts):
            bounds = [len(self._lanes) * n // self._workers for n in (number, number + 1)]
            part._lanes, part._workers = self._lanes[slice(*bounds)], 0
        axis = 1 if self._microbatches > 1 else 0
        with working(parts) as received:

            def make() -> Item:
                items = received()
                batch = {name: np.concatenate([part[name] for part, _ in items], axis) for name in items[0][0]}
                return batch, {lane: cursor for _, cursors in items for lane, cursor in cursors.items()}

            yield from prefetched(make, lambda _: 2)

    def _room(self, item: Item) -> int:
        """How many batches like `item` to make ahead: a window, since all lanes load theirs at the same time, which is slow."""
        window = max(len(lane.plans) for lane in self._lanes) // self._microbatches
        return max(4, min(window, AHEAD_BYTES // sum(array.nbytes for array in item[0].values())))


def prefetched(make: Callable[[], Item], room: Callable[[Item], int]) -> Iterator[Item]:
    """Yields what `make` returns and raises what it raises; a thread calls it up to `room(first result)` times ahead."""
    thread = ThreadPoolExecutor(1, "input")
    ahead = deque([thread.submit(make)])
    try:
        ahead.extend(thread.submit(make) for _ in range(room(ahead[0].result())))
        while True:
            item = ahead.popleft().result()
            ahead.append(thread.submit(make))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)


LOST = "a process that reads and packs batches has ended (out of memory?); lower config.workers and run the same command again"


@contextlib.contextmanager
def working(parts: Sequence[Iterable[Item]]) -> Iterator[Callable[[], list[Item]]]:
    """Starts a worker for each of `parts` (`Batches`), which ends with the block, and yields a function that returns the next item
    of each. It raises what a worker raised, or InputError if one was killed."""
    context = multiprocessing.get_context("spawn")
    workers, connections = [], []
    try:
        # They leave the accelerator alone, and import nothing from the working folder.
        theirs = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false", SAFE_PATH: "1"}
        before = {name: os.environ.get(name) for name in theirs}
        os.environ.update(theirs)
        try:
            for _ in parts:
                ours, other = context.Pipe()
                worker = context.Process(target=work, args=(other,), daemon=True)
                worker.start()
                workers.append(worker)
                connections.append(ours)
                other.close()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

        def received() -> list[Item]:
            items: list[Item] = []
            for connection in connections:
                try:
                    item = connection.recv()
                except (EOFError, OSError) as error:
                    raise InputError(LOST) from error
                if isinstance(item, BaseException):
                    raise item
                items.append(item)
            return items

        for connection, part in zip(connections, parts):
            with contextlib.suppress(OSError):  # it has ended, which `received` reports
                connection.send(part)
        yield received
    finally:
        for worker, connection in zip(workers, connections):
            worker.kill()
            worker.join()
            connection.close()


def work(connection: Connection) -> None:
    """A worker: receives its part and sends the items of it, until the connection closes."""
    # The training process handles signals that are sent to all processes of a job: it saves, and then ends its workers.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    item = None
    with contextlib.suppress(EOFError, OSError):  # the training has ended
        stream = iter(connection.recv())
        while not isinstance(item, Exception):
            try:
                item = next(stream)
            except (InputError, OSError) as error:
                item = error
            except Exception:
                item = RuntimeError(f"in a process that reads batches:\n{traceback.format_exc()}")
            connection.send(item)
