"""Progress with rate and remaining time: a bar on a terminal, a line every ten seconds in a log; and the package's messages."""

import logging
import sys
from typing import Any

from tqdm import tqdm

STAGES = "stages"  # the unit of a bar over stages
_jobs: list["Progress"] = []  # the open bars over STAGES


class Progress(tqdm):
    """A tqdm bar. `initial` and `skip` count work of an earlier run as done, but not in the rate."""

    disable: bool

    def skip(self, n: int = 1) -> None:
        """Count `n` units that are done already."""
        if self.disable:
            return
        self.initial += n
        self.n += n
        self.last_print_n += n

    def close(self) -> None:
        _jobs[:] = [job for job in _jobs if job is not self]
        super().close()


class _Log:
    """What tqdm writes to if stderr is no terminal: a line per update instead of a carriage return."""

    def write(self, text: str) -> None:
        if text.strip():
            print(text.strip(), file=sys.stderr, flush=True)

    def flush(self) -> None:
        sys.stderr.flush()


def progress(
    iterable: Any = None, total: int | None = None, unit: str = "it", desc: str = "", initial: int = 0
) -> Progress:
    """A tqdm bar on stderr. `total` and `initial` are counted in `unit`s; without an iterable call `update(n)`. Within another bar
    it is not displayed: nested work has one bar. STAGES have no bar of their own: `stage` prints a line for each."""
    if unit == STAGES:
        _jobs.append(Progress(total=total, disable=True))
        return _jobs[-1]
    nested = any(isinstance(bar, Progress) and not bar.disable for bar in list(tqdm._instances))
    options: dict[str, Any] = dict(total=total, initial=initial, unit=f" {unit}", desc=desc, disable=nested)
    if sys.stderr.isatty():
        return Progress(iterable, **options, mininterval=0.5, dynamic_ncols=True)
    text = "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
    return Progress(iterable, **options, file=_Log(), mininterval=10, delay=1e-3, bar_format=text)


def stage(name: str) -> None:
    """Begins the next stage of the open bar over STAGES, if there is one."""
    for job in _jobs[-1:]:
        job.n += 1
        say(f"{job.n}/{job.total} {name}" if job.total else f"{job.n} {name}")


def say(text: str) -> None:
    """Prints a line to stderr; on a terminal above the bar."""
    tqdm.write(text, file=sys.stderr)


def duration(seconds: float) -> str:
    """Seconds in words: "4.2 s", "40 s", "12 min", "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def show_log() -> None:
    """Prints the package's log to stderr, and the warnings of others."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("harp_jax").setLevel(logging.INFO)
