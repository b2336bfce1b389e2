"""Progress with rate and remaining time: a bar on a terminal, a line every ten seconds in a log."""

import sys
from collections.abc import Callable
from typing import Any, TextIO

from tqdm import tqdm


class Progress(tqdm):
    """A tqdm bar. `initial` and `skip` count work of an earlier run as done, but not in the rate."""

    disable: bool
    bar_format: str

    def skip(self, n: int = 1) -> None:
        """Count `n` units that are done already."""
        if self.disable:
            return
        self.initial += n
        self.n += n
        self.last_print_n += n


class LogProgress(Progress):
    """Prints a line per update, without carriage returns or blank lines, and one at the end if the count has changed."""

    @staticmethod
    def status_printer(file: TextIO) -> Callable[[str], None]:
        def write(text: str) -> None:
            if text:
                file.write(text + "\n")
                file.flush()

        return write

    def moveto(self, n: int) -> None:
        """Does nothing: a log has no rows for nested bars."""

    def close(self) -> None:
        if not self.disable:
            if self.n != self.last_print_n:
                self.display()
            self.disable = True
            self._decr_instances(self)


class Inner(LogProgress):
    """The progress of a stage, which the bar over the stages displays."""

    outer: Progress

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        outer, now = self.outer, self._time()
        outer.postfix = str(self)
        if now - outer.last_print_t >= outer.mininterval:
            outer.refresh()
            outer.last_print_t, outer.last_print_n = now, outer.n

    def close(self) -> None:
        if not self.disable:
            self.bar_format = self.bar_format.replace(", {remaining} left", "")
            self.outer.postfix = str(self)
            self.disable = True
            self._decr_instances(self)


STAGES = "stages"  # the unit of a bar over stages


def shown() -> list[Progress]:
    """The open bars that are displayed."""
    return [bar for bar in list(tqdm._instances) if isinstance(bar, Progress) and not bar.disable]


def progress(
    iterable: Any = None, total: int | None = None, unit: str = "it", desc: str = "", initial: int = 0
) -> Progress:
    """A tqdm bar on stderr. `total` and `initial` are counted in `unit`s; without an iterable call `update(n)`. Within another bar
    it is not displayed: nested work has one bar. A bar over STAGES, which `stage` advances, also displays the progress of the
    stage."""
    options: dict[str, Any] = dict(total=total, initial=initial, unit=f" {unit}", desc=desc, file=sys.stderr)
    outer, log = shown(), not sys.stderr.isatty()
    options["mininterval"] = 10.0 if log else 0.5
    if [bar.unit for bar in outer] == [f" {STAGES}"]:
        done = "{n_fmt}/{total_fmt}{unit}, {remaining} left{postfix}" if total else "{n_fmt}{unit}{postfix}"
        inner = Inner(iterable, **options | {"mininterval": 0.5}, delay=1e-3, bar_format=done)
        inner.outer = outer[0]
        return inner
    options["disable"] = bool(outer)
    text = "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
    if unit == STAGES:  # stages differ too much for a rate
        text = "{desc}: {n_fmt}/{total_fmt}{unit} [{elapsed}{postfix}]"
    if log:
        return LogProgress(iterable, **options, delay=1e-3, bar_format=text)
    if unit == STAGES:
        options["bar_format"] = text
    return Progress(iterable, **options, dynamic_ncols=True)


def stage(name: str) -> None:
    """Advances the bar over STAGES, if there is one, to the stage `name`."""
    for bar in shown():
        if bar.unit == f" {STAGES}":
            bar.desc, bar.postfix = name, ""
            bar.update()
            if type(bar) is Progress:  # a terminal shows every stage, a log one line in ten seconds
                bar.refresh()


def say(text: str) -> None:
    """Prints a line to stderr; on a terminal above the bar."""
    for bar in shown():
        if type(bar) is Progress:
            bar.clear()
    print(text, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Seconds in words: "4.2 s", "40 s", "12 min", "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
