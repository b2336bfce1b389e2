"""Progress with rate and remaining time: a bar on a terminal, a line every ten seconds in a log."""

import sys
from collections.abc import Callable
from typing import Any, TextIO

from tqdm import tqdm


class Progress(tqdm):
    """A tqdm bar. `initial` and `skip` count the work of an earlier run: as done, but not in the rate."""

    disable: bool

    def skip(self, n: int = 1) -> None:
        """Count `n` units that are done already."""
        if self.disable:
            return
        self.initial += n
        self.n += n
        self.last_print_n += n


class LogProgress(Progress):
    """A line for each state, without carriage returns and blank lines, and one at the end if that is new."""

    @staticmethod
    def status_printer(file: TextIO) -> Callable[[str], None]:
        def write(text: str) -> None:
            if text:
                file.write(text + "\n")
                file.flush()

        return write

    def moveto(self, n: int) -> None:
        """Nothing: a log has no rows for nested bars."""

    def close(self) -> None:
        if not self.disable:
            if self.n != self.last_print_n:
                self.display()
            self.disable = True
            self._decr_instances(self)


def progress(
    iterable: Any = None, total: int | None = None, unit: str = "it", desc: str = "", initial: int = 0
) -> Progress:
    """A tqdm bar on stderr. `total` and `initial` are counted in `unit`s; without an iterable call `update(n)`.

    Within another bar it shows nothing: work that consists of parts has one bar.
    """
    options: dict[str, Any] = dict(total=total, initial=initial, unit=f" {unit}", desc=desc, file=sys.stderr)
    options["disable"] = any(isinstance(bar, Progress) and not bar.disable for bar in list(tqdm._instances))
    if sys.stderr.isatty():
        return Progress(iterable, **options, dynamic_ncols=True, mininterval=0.5)
    text = "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
    return LogProgress(iterable, **options, mininterval=10.0, delay=1e-3, bar_format=text)


def duration(seconds: float) -> str:
    """Seconds in words: "4.2 s", "40 s", "12 min", "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
