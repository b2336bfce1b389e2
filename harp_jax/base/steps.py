"""The long steps of a command, each in a process of its own and told in one line: "3 of 8 · Train on links · 1:02".

Such a process frees its memory, and JAX's, when it ends; it ends with this one, however this one ends. It is spawned: its function
must be importable, and arguments and result picklable; a script that runs steps needs `if __name__ == "__main__":`.
"""

import functools
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn, ParamSpec, TypeVar

from harp_jax.base.errors import InputError, Terminated
from harp_jax.base.files import locked

SAFE_PATH = "PYTHONSAFEPATH"
P = ParamSpec("P")
T = TypeVar("T")


class Steps:
    """Runs the steps of a command that writes to the folder `output`; `total`: how many there are, if known.

        steps = Steps("demo", 8)
        trained = steps("Train on links", train, config, output="demo/harp")

    A step's own output goes to a log in OUTPUT/logs, which the message of a failed step names. Steps are functions with
    `made.once`, so those that have finished return at once. Raises InputError while another process works in the folder.
    """

    def __init__(self, output: str, total: int = 0) -> None:
        self.output, self.total, self.number = output, total, 0
        busy = f"another process works in {output}; wait for it, or choose another --output"
        self._lock = locked(os.path.join(output, ".lock"), busy)

    def __call__(self, title: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        self.number += 1
        label = f"{self.number} of {self.total} · {title}" if self.total else title
        log = os.path.join(self.output, "logs", re.sub(r"\W+", "_", title.lower()).strip("_") + ".log")
        already = getattr(function, "already", None)
        if already and (made := already(*args, **kwargs)):
            print(f"{label} · already done", flush=True)
            return made.result
        terminal = sys.stdout.isatty()
        print(label, end="\r" if terminal else "\n", flush=True)  # a terminal shows one line per step
        began = time.monotonic()
        try:
            result = in_process(function, log)(*args, **kwargs)
        except (InputError, KeyboardInterrupt) as error:
            if terminal:
                print()
            if isinstance(error, InputError):
                raise type(error)(f"{title}: {error} (log: {log})") from error
            raise
        seconds = int(time.monotonic() - began)
        print(f"{label} · {seconds // 60}:{seconds % 60:02}", flush=True)
        return result

    def close(self) -> None:
        """Lets another process work in the folder."""
        self._lock.close()


def in_process(function: Callable[P, T], log: str) -> Callable[P, T]:
    """The function, run in a new process at each call, which prints to the file `log`. Exceptions of the function are raised here.
    Raises Terminated after SIGTERM, which the process gets, too, and InputError if the process is killed."""

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
        where = f"its last lines are in {log}; run the same command again to resume"
        raise result or InputError(f"{function.__name__} {how}; {where}")

    return call


def _run(sender: Connection, log: str, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
    """The process: runs the function and sends (True, result) or (False, exception)."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        message = True, function(*args, **kwargs)
    except KeyboardInterrupt:
        return
    except BaseException as error:
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
