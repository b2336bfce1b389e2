"""Progress with rate and time left: a bar on a terminal, one line every ten seconds in a log."""

import sys
from typing import Any

from tqdm import tqdm


def progress(
    iterable: Any = None, total: int | None = None, unit: str = "it", desc: str = "", initial: int = 0
) -> tqdm:
    """A tqdm bar on stderr. `total` and `initial` are counted in `unit`s; `update(n)` where there is no iterable."""
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
        # In a log a carriage return would glue all states of the bar into one line.
        ascii=None if terminal else " =",
        bar_format=None if terminal else "{desc}: {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}]\n",
    )
