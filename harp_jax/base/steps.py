"""The long steps of a command, each in a process of its own and told in one line: "3 of 8 · Train on links · 1:02"."""

import os
import re
import sys
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from harp_jax.base.errors import InputError
from harp_jax.base.files import locked
from harp_jax.base.processes import in_process

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
        seconds = time.monotonic() - began
        print(f"{label} · {int(seconds) // 60}:{int(seconds) % 60:02}", flush=True)
        return result

    def close(self) -> None:
        """Lets another process work in the folder."""
        self._lock.close()
