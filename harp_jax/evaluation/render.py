"""Renders a report as one self-contained HTML page (auto-escaped), or its table as Markdown."""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import needs
from harp_jax.base.progress import duration
from harp_jax.evaluation.evaluate import CHANCE
from harp_jax.evaluation.report import Line, Panel, Report, System, ticks

if TYPE_CHECKING:
    from jinja2 import Environment

WIDTH, HEIGHT = 360, 220  # of a drawing of curves; then its margins
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 12, 34
MARKUP = re.compile(r"([\\`*_\[\]<>#|~&])|^([-+])|(?<=^\d)([.)])")  # special in Markdown or inline HTML


def as_html(report: Report) -> str:
    """The HTML page, without external resources."""
    column = report.measures.index(report.measure)
    scale = axis(report.systems, column)
    page = environment().get_template("report.html")
    return page.render(report=report, column=column, top=scale[-1], scale=scale, chance=CHANCE, **FUNCTIONS)


def as_markdown(report: Report) -> str:
    """Headline, table and remarks, for a README or a pull request."""
    measures, against = map(markdown, report.measures), f"against {markdown(report.baseline)}"
    head = ["system", *measures, "95 % interval", against, "p (Holm)", "verdict"]
    rows = []
    for system in report.systems:
        interval, change = system.interval, system.change
        rows.append(
            [
                markdown(system.name),
                *(f"{mean:.4f}" for mean in system.means),
                f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "",
                f"{change.difference:+.3f} ({change.interval[0]:+.3f} to {change.interval[1]:+.3f})" if change else "",
                f"{change.p:.4f}" if change else "",
                markdown(system.verdict),
            ]
        )
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    table = [lines[0], "|---" * len(head) + "|", *lines[1:]]
    said = [f"- {markdown(text)}" for text in (*report.facts, *report.warnings, *report.remarks)]
    lead = f"**{markdown(report.headline)}** {markdown(report.figures)}"
    parts = [[f"# {markdown(report.title)}"], [lead], table, said]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


@cache
def environment() -> "Environment":
    """The templates. Raises InputError if Jinja2 is not installed."""
    with needs("a report", "jinja2", "eval"):
        from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("harp_jax.evaluation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters |= {"signed": signed, "seconds": duration, "count": lambda value: f"{value:,.0f}"}
    return templates


def axis(systems: Sequence[System], column: int) -> list[float]:
    """Ticks of the bar axis, from 0 to above all intervals and all means of a column."""
    highest = max([*(s.interval[1] for s in systems if s.interval), *(s.means[column] for s in systems), 1e-9])
    found = ticks(0.0, highest)
    step = found[1] - found[0] if len(found) > 1 else highest
    return found if found[-1] >= highest - 1e-9 else [*found, round(found[-1] + step, 10)]


def percent(value: float, top: float) -> str:
    """A position on the bar axis, in percent."""
    return f"{100 * min(max(value / top, 0.0), 1.0):.2f}%"


def ranks(hit: Any) -> str:
    """ "rank 3 → 1" of a document; – if a run lacks it."""
    return f"rank {hit.before or '–'} → {hit.after or '–'}"


def markdown(text: object) -> str:
    """Escapes a text for Markdown, on one line."""
    return MARKUP.sub(r"\\\g<0>", " ".join(str(text).split()))


def signed(value: float) -> str:
    """A difference with its sign."""
    return f"{value:+.3f}".replace("-", "−")


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


FUNCTIONS = {
    "percent": percent,
    "ranks": ranks,
    "ticks": ticks,
    "x_of": x_of,
    "y_of": y_of,
    "path_of": path_of,
    "spoken": spoken,
    "drawing": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT,
                "top": TOP, "bottom": BOTTOM},
}  # fmt: skip
