"""A function in a process of its own: its memory is free and its JAX is gone when it ends.

The process is spawned, so the function must be importable, and its arguments and result picklable; a script that calls this needs
`if __name__ == "__main__":`. The process ends with this one, however this one ends.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, ParamSpec, TypeVar

from harp_jax.base.errors import InputError, Terminated

SAFE_PATH = "PYTHONSAFEPATH"
P = ParamSpec("P")
T = TypeVar("T")


def in_process(function: Callable[P, T], log: str = "") -> Callable[P, T]:
    """The function, run in a new process at each call; `log`: file that receives what it prints (default: this terminal).

    Exceptions of the function are raised here. Raises Terminated after SIGTERM, which is passed on, and InputError if the process
    is killed.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(sender, log, function, args, kwargs))
        with _passing_on_sigterm(process):
            with _safe_path():
                process.start()
            sender.close()
            try:
                done, found = receiver.recv()
            except EOFError:
                done, found = False, None
            process.join()
        if done:
            return found
        status = process.exitcode or 0
        how = "was killed, probably for lack of memory" if status == -signal.SIGKILL else f"ended with status {status}"
        where = f"; its last lines are in {log}" if log else ""
        raise found or InputError(f"{function.__name__} {how}{where}; run the same command again to resume")

    return call


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that start within the block import nothing from the working folder."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def _run(sender: Connection, log: str, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
    """The process: runs the function and sends (True, result) or (False, exception)."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    if log:
        os.makedirs(os.path.dirname(log) or ".", exist_ok=True)
        with open(log, "a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
    from harp_jax.base.allocator import keep_pages

    keep_pages()
    try:
        message = True, function(*args, **kwargs)
    except KeyboardInterrupt:
        return
    except BaseException as error:
        if log or not isinstance(error, InputError):
            traceback.print_exc()
        message = False, error
    sys.stdout.flush()
    try:
        sender.send(message)
    except Exception as error:  # the result cannot be pickled
        sender.send((False, InputError(f"{function.__name__}: {error}")))


def end_with_parent() -> None:
    """Waits until the parent ends, however it ends, and ends this process; for a thread of a spawned process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _passing_on_sigterm(process: BaseProcess) -> Iterator[None]:
    """Within the block SIGTERM ends the process instead of this one, and Terminated is raised at the end. Only the main thread can
    handle signals; in another thread the block changes nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    terminated = False

    def end(_number: int, _frame: object) -> None:
        nonlocal terminated
        terminated = True
        if process.is_alive():
            process.terminate()

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except BaseException:  # this process alone was interrupted; Ctrl-C in a terminal reaches both
        if process.is_alive():
            process.terminate()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        if terminated:
            process.join()
            raise Terminated("terminated; run the same command again to resume")
