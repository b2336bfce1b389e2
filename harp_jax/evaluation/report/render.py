"""Renders a report as one self-contained HTML page (auto-escaped), or its table and advice as Markdown."""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import needs
from harp_jax.evaluation.floors import CHANCE
from harp_jax.evaluation.report import curves
from harp_jax.evaluation.report.build import Report
from harp_jax.evaluation.report.curves import ticks
from harp_jax.evaluation.report.findings import System, is_significant

if TYPE_CHECKING:
    from jinja2 import Environment

MARKUP = re.compile(r"([\\`*_\[\]<>#|~&])|^([-+])|(?<=^\d)([.)])")  # special in Markdown or inline HTML


def as_html(report: Report) -> str:
    """The HTML page, without external resources."""
    column = report.measures.index(report.measure)
    scale = axis(report.systems, column)
    page = environment().get_template("report.html")
    return page.render(report=report, column=column, top=scale[-1], scale=scale, chance=CHANCE, **FUNCTIONS)


def as_markdown(report: Report) -> str:
    """Headline, table, remarks and advice, for a README or a pull request."""
    measures, against = map(markdown, report.measures), f"against {markdown(report.baseline)}"
    head = ["system", *measures, "95 % interval", against, "p (Holm)", "verdict"]
    rows = []
    for system in report.systems:
        interval, change = system.interval, system.difference_interval
        rows.append(
            [
                markdown(system.name),
                *(f"{mean:.4f}" for mean in system.means),
                f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "",
                f"{system.difference:+.3f} ({change[0]:+.3f} to {change[1]:+.3f})" if change else "",
                f"{system.p:.4f}" if system.p is not None else "",
                markdown(system.verdict),
            ]
        )
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    table = [lines[0], "|---" * len(head) + "|", *lines[1:]]
    said = [f"- {markdown(text)}" for text in (*report.facts, *report.warnings, *report.remarks)]
    todo = [f"- {markdown(one.text)}" + (f"\n\n      {one.command}" if one.command else "") for one in report.advice]
    lead = f"**{markdown(report.headline)}** {markdown(report.figures)}"
    parts = [[f"# {markdown(report.title)}"], [lead], table, said, ["## What to do next"] if todo else [], todo]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


@cache
def environment() -> "Environment":
    """The templates. Raises InputError if Jinja2 is not installed."""
    with needs("a report", "jinja2", "eval"):
        from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("harp_jax.evaluation.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters |= {
        "signed": signed,
        "seconds": seconds,
        "bytes": size,
        "count": lambda value: f"{value:,.0f}",
    }
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


def seconds(value: float) -> str:
    """A duration in words: "40 s", "12 min", "3.5 h"."""
    if value < 100:
        return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 6000 else f"{value / 3600:.1f} h"


def size(value: float) -> str:
    """A memory size: "640 MB", "3.2 GB"."""
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


FUNCTIONS = {
    "percent": percent,
    "ranks": ranks,
    "significant": is_significant,
    "ticks": ticks,
    "x_of": curves.x_of,
    "y_of": curves.y_of,
    "path_of": curves.path_of,
    "spoken": curves.spoken,
    "drawing": {"width": curves.WIDTH, "height": curves.HEIGHT, "left": curves.LEFT, "right": curves.RIGHT,
                "top": curves.TOP, "bottom": curves.BOTTOM},
}  # fmt: skip
