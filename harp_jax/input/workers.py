"""Makes batches in separate processes, each for some of the lanes: with threads, Python would pack on one core only.

The batches do not depend on the number of processes, since lanes are independent. A worker runs this module as a command. It
receives its lanes through a socket and sends (batch, cursors) until the socket closes, so it never outlives the training.
"""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from harp_jax.base.errors import InputError

LOST = "a process that reads and packs batches has ended (out of memory?); lower config.workers and run the same command again"


@contextlib.contextmanager
def working(parts: Sequence[Iterable[Any]]) -> Iterator[list[Connection]]:
    """Starts a worker for each of `parts` (`lanes.Batches`) and yields connections for `receive`. They end with the block."""
    processes, connections = [], []
    try:
        for _ in parts:
            ours, theirs = multiprocessing.Pipe()
            # Not `multiprocessing.Process`, which would run the caller's script again.
            command = [sys.executable, "-P", "-m", __name__, str(theirs.fileno())]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
            environment |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}
            processes.append(subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()]))
            theirs.close()
            connections.append(ours)
        for connection, part in zip(connections, parts):
            with _lost():
                connection.send(part)
        yield connections
    finally:
        for process, connection in zip(processes, connections):
            process.kill()
            process.wait()
            connection.close()


def receive(connection: Connection) -> Any:
    """The next (batch, cursors) of a worker. Raises what the worker raised, or InputError if it was killed."""
    with _lost():
        item = connection.recv()
    if isinstance(item, BaseException):
        raise item
    return item


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise InputError(LOST) from error


def main() -> None:
    # The training process handles signals that are sent to all processes of a job: it saves, and then ends its workers.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
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


if __name__ == "__main__":
    main()
