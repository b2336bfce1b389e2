"""Progress with rate and remaining time: a bar on a terminal, a line every ten seconds in a log."""

import sys
from typing import Any

from tqdm import tqdm


def progress(
    iterable: Any = None, total: int | None = None, unit: str = "it", desc: str = "", initial: int = 0
) -> tqdm:
    """A tqdm bar on stderr. `total` and `initial` are counted in `unit`s; without an iterable call `update(n)`."""
    terminal = sys.stderr.isatty()
    return tqdm(
        iterable,
        total=total,
        initial=initial,
        unit=f" {unit}",
        desc=desc,
        file=sys.stderr,
        dynamic_ncols=terminal,
        mininterval=0.5 if terminal else 10.0,
        # In a log, carriage returns would put all states of the bar on one line.
        ascii=None if terminal else " =",
        bar_format=None if terminal else "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}]\n",
    )
