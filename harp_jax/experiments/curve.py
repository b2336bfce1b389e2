"""Learning curves: a measure against the number of training queries, one line per system, as SVG and as a table."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.corpus.trec import Qrels, Run
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.measures import one_measure


@dataclass(frozen=True)
class Point:
    """A system's mean at one size with its 95 % bootstrap interval, over queries, draws and seeds."""

    system: str
    size: str
    runs: int
    value: float
    interval: tuple[float, float]


def points(
    qrels: Qrels, systems: Mapping[tuple[str, str], Sequence[Run]], measure: str, runs_per_draw: int = 1
) -> list[Point]:
    """A point for each (system, size); size is a number of queries, a share such as "25%", or "" for a line without sizes.

    `runs_per_draw`: consecutive runs sharing one draw of training queries (see `significance.bootstrap`).
    """
    name, runs = str(one_measure(measure)), {f"{system}@{size}": some for (system, size), some in systems.items()}
    table = evaluate(qrels, runs, name, runs_per_draw=runs_per_draw, intervals=True)
    return [
        Point(system, size, table.seeds[row], table.mean[row][name], table.intervals[row])
        for row, (system, size) in zip(runs, systems)
    ]


def number(size: str) -> float:
    """The place of a size on the axis. Raises InputError for a text that is neither a positive number nor a share."""
    try:
        value = float(size.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{size!r} is not a number of queries; write SYSTEM@SIZE=RUN")
    return value


def as_text(found: Sequence[Point], measure: str) -> str:
    """Tab-separated rows under a header: system, size, runs, mean, interval."""
    rows = ["\t".join(("system", "size", "runs", measure, "low", "high"))]
    rows += [
        f"{p.system}\t{p.size or '-'}\t{p.runs}\t{p.value:.4f}\t{p.interval[0]:.4f}\t{p.interval[1]:.4f}" for p in found
    ]
    return "\n".join(rows)


def as_svg(found: Sequence[Point], measure: str) -> str:
    """The curves as SVG. Systems without sizes are horizontal lines; the axis is logarithmic for numbers, linear for shares."""
    with needs("drawing curves", "matplotlib", "plots"):
        import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["text.parse_math"] = False  # names may contain $
    from matplotlib import pyplot

    sized = [p for p in found if p.size]
    shares = [p.size.endswith("%") for p in sized]
    if len(set(shares)) != 1:
        raise InputError("write the runs of one curve as SYSTEM@SIZE=RUN, all sizes numbers of queries, or all shares")
    figure, axis = pyplot.subplots(figsize=(6, 4))
    for colour, system in enumerate(dict.fromkeys(p.system for p in sized)):
        line = sorted((number(p.size), p.value, *p.interval) for p in sized if p.system == system)
        sizes, values, low, high = map(np.array, zip(*line))
        label = f" {system}"  # the legend leaves out names that begin with _
        axis.plot(sizes, values, marker="o", label=label, color=f"C{colour}")
        axis.fill_between(sizes, low, high, color=f"C{colour}", alpha=0.15, linewidth=0)
    for p in found:
        if not p.size:
            axis.axhline(p.value, linestyle="--", color="0.4")
            axis.annotate(
                p.system, (0.01, p.value), xycoords=("axes fraction", "data"), ha="left", va="bottom", fontsize=8
            )
    if not all(shares):
        axis.set_xscale("log")
    ticks = sorted({number(p.size) for p in sized})
    axis.set_xticks(ticks, [f"{tick:g}{'%' if all(shares) else ''}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("training queries")
    axis.set_ylabel(measure)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.tight_layout()
    buffer = io.StringIO()
    # No date, and ids from the content: the same data give the same bytes.
    with pyplot.rc_context({"svg.hashsalt": "harp_jax"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return buffer.getvalue()
