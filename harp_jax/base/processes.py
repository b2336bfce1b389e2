"""A function in a process of its own: its memory is free and its JAX is gone when it ends.

The process is spawned, so the function must be importable, and its arguments and result picklable; a script that calls this needs
`if __name__ == "__main__":`. The process ends with this one, however this one ends.
"""

import functools
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn, ParamSpec, TypeVar

from harp_jax.base.errors import InputError, Terminated

SAFE_PATH = "PYTHONSAFEPATH"
P = ParamSpec("P")
T = TypeVar("T")


def in_process(function: Callable[P, T], log: str = "") -> Callable[P, T]:
    """The function, run in a new process at each call; `log`: file that receives what it prints (default: this terminal).
    Exceptions of the function are raised here. Raises Terminated after SIGTERM, which the process gets, too, and InputError if the
    process is killed."""

    def terminated(_number: int, _frame: object) -> NoReturn:
        raise Terminated("terminated; run the same command again to resume")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(sender, log, function, args, kwargs))
        handles = threading.current_thread() is threading.main_thread()  # no other thread can handle signals
        before = signal.signal(signal.SIGTERM, terminated) if handles else None
        safe = os.environ.get(SAFE_PATH)
        os.environ[SAFE_PATH] = "1"  # the process imports nothing from the working folder
        try:
            process.start()
            sender.close()
            done, result = receiver.recv()
        except EOFError:
            done, result = False, None
        except BaseException:  # this process was interrupted; Ctrl-C in a terminal reaches both
            if process.is_alive():
                process.terminate()
            raise
        finally:
            os.environ.pop(SAFE_PATH) if safe is None else os.environ.update({SAFE_PATH: safe})
            receiver.close()  # else a process that sends more than a pipe holds would never end
            if process.pid:
                process.join()
            if handles:
                signal.signal(signal.SIGTERM, before)
        if done:
            return result
        status = process.exitcode or 0
        how = "was killed, probably for lack of memory" if status == -signal.SIGKILL else f"ended with status {status}"
        where = f"; its last lines are in {log}" if log else ""
        raise result or InputError(f"{function.__name__} {how}{where}; run the same command again to resume")

    return call


def _run(sender: Connection, log: str, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
    """The process: runs the function and sends (True, result) or (False, exception)."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    if log:
        os.makedirs(os.path.dirname(log) or ".", exist_ok=True)
        with open(log, "a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
    try:
        message = True, function(*args, **kwargs)
    except KeyboardInterrupt:
        return
    except BaseException as error:
        if log or not isinstance(error, InputError):
            traceback.print_exc()
        message = False, error
    sys.stdout.flush()
    sender.send(message)


def end_with_parent() -> None:
    """Waits until the parent ends, however it ends, and ends this process; for a thread of a spawned process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
