"""Training curves: metrics of workdirs as panels with shared axes, and their SVG coordinates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.recorded import read_metrics

MOST_LINES = 6  # more cannot be told apart
WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 12, 34
GUESSING = 0.5  # pair accuracy by chance
FIXED = (
    ("train", "loss", "Training loss"),
    ("train", "pair_accuracy", "Pair accuracy, training"),
    ("train", "mlm_loss", "MLM loss, training"),
    ("validation", "mlm_loss", "MLM loss, held out"),
)

Rows = Mapping[str, Sequence[Mapping[str, Any]]]  # name → the lines of metrics.jsonl


@dataclass(frozen=True)
class Line:
    """A system's curve: points (step, value); `number` chooses colour and dashes."""

    name: str
    number: int
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """Curves of one metric; panels of one kind share their axes. `chance` is the value of guessing."""

    title: str
    lines: list[Line]
    steps: tuple[float, float]
    values: tuple[float, float]
    chance: float | None = None


def read_curves(workdirs: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The metrics of training workdirs (name → directory). Raises InputError for one without metrics."""
    rows = {name: read_metrics(path) for name, path in workdirs.items()}
    if absent := [name for name, run in rows.items() if not run]:
        raise InputError(f"the curves of {absent[0]}: {workdirs[absent[0]]} has no metrics; name a training workdir")
    return rows


def panels_of(rows: Rows) -> list[Panel]:
    """One panel per metric of the first MOST_LINES runs, pair accuracies first.

    All panels share the step axis; accuracy panels share their value axis, and so do the MLM losses.
    """
    rows = dict(list(rows.items())[:MOST_LINES])
    names = {name for run in rows.values() for row in run if row["split"] == "validation" for name in row}
    tasks = sorted(name for name in names if name.endswith("_accuracy") and not name.startswith("mlm"))
    held_out = [("validation", name, f"{_task(name)} accuracy, held-out pairs") for name in tasks]
    found = {
        (split, metric, title): lines for split, metric, title in (*held_out, *FIXED) if (lines := _lines(rows, split, metric))
    }  # fmt: skip
    if not found:
        return []
    steps = max(x for lines in found.values() for line in lines for x, _ in line.points)
    panels = []
    for (_, metric, title), lines in found.items():
        alike = [other for (_, name, _), other in found.items() if _kind(name) == _kind(metric)]
        values = [y for some in alike for line in some for _, y in line.points]
        chance = GUESSING if _kind(metric) == "accuracy" else None
        low, high = (min([*values, 0.4]), 1.0) if chance else (min([*values, 0.0]), max(values))
        panels.append(Panel(title, lines, (0.0, steps), _rounded(low, high), chance))
    return panels


def _task(metric: str) -> str:
    name = metric.removesuffix("_accuracy")
    return "Pair" if name == "pair" else name.upper()


def _kind(metric: str) -> str:
    return "accuracy" if metric.endswith("_accuracy") else metric


def _lines(rows: Rows, split: str, metric: str) -> list[Line]:
    found = []
    for number, (name, run) in enumerate(rows.items()):
        points = [(float(row["step"]), float(row[metric])) for row in run if row["split"] == split and metric in row]
        points = [point for point in points if math.isfinite(point[1])]
        if points:
            found.append(Line(name, number, points))
    return found


def _rounded(low: float, high: float) -> tuple[float, float]:
    """Axis limits, rounded to ticks."""
    step = _step(low, high)
    return math.floor(low / step + 1e-9) * step, max(math.ceil(high / step - 1e-9), math.floor(low / step) + 1) * step


def _step(low: float, high: float, about: int = 4) -> float:
    """The tick spacing: 1, 2 or 5 times a power of ten."""
    rough = (high - low or abs(high) or 1.0) / about
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if rough <= m * power * 1.0001)


def ticks(low: float, high: float) -> list[float]:
    """Round values from `low` to `high`."""
    step = _step(low, high)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def x_of(panel: Panel, step: float) -> float:
    """SVG x of a step."""
    low, high = panel.steps
    return round(LEFT + (step - low) / ((high - low) or 1.0) * (WIDTH - LEFT - RIGHT), 1)


def y_of(panel: Panel, value: float) -> float:
    """SVG y of a value."""
    low, high = panel.values
    return round(HEIGHT - BOTTOM - (value - low) / ((high - low) or 1.0) * (HEIGHT - TOP - BOTTOM), 1)


def path_of(panel: Panel, line: Line) -> str:
    """The line as SVG `points`."""
    return " ".join(f"{x_of(panel, x)},{y_of(panel, y)}" for x, y in line.points)


def spoken(panel: Panel) -> str:
    """The panel in words, for screen readers: where each line starts and ends."""
    said = [
        f"{line.name} from {line.points[0][1]:.3g} at step {line.points[0][0]:g} "
        f"to {line.points[-1][1]:.3g} at step {line.points[-1][0]:g}"
        for line in panel.lines
    ]
    chance = [f"chance is {panel.chance:g}"] if panel.chance is not None else []
    return f"{panel.title}: {'; '.join([*said, *chance])}."
