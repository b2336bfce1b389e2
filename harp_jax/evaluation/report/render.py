"""A report as one self-contained HTML page, and as Markdown. Every text of the data is escaped by the template engine."""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import needs
from harp_jax.evaluation.floors import CHANCE
from harp_jax.evaluation.report import curves
from harp_jax.evaluation.report.content import Panel, Report, System
from harp_jax.evaluation.report.curves import ticks
from harp_jax.evaluation.report.verdict import is_significant

if TYPE_CHECKING:
    from jinja2 import Environment

MARKUP = re.compile(r"([\\`*_\[\]<>#|~&])|^([-+])|(?<=^\d)([.)])")  # what Markdown or the HTML in it would read


def as_html(report: Report) -> str:
    """The page, which loads nothing from elsewhere."""
    return _rendered("report.html", report)


def as_markdown(report: Report) -> str:
    """The same content as Markdown; curves become a table of their first and last values."""
    text = _rendered("report.md", report)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _rendered(name: str, report: Report) -> str:
    column = report.measures.index(report.measure)
    scale = axis(report.systems, column)
    return (
        environment()
        .get_template(name)
        .render(report=report, column=column, top=scale[-1], scale=scale, chance=CHANCE, **FUNCTIONS)
    )


@cache
def environment() -> "Environment":
    """The templates. Raises InputError where Jinja2 is not installed."""
    with needs("a report", "jinja2", "eval"):
        from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(  # nosec B701
        loader=PackageLoader("harp_jax.evaluation.report"),
        # Not for Markdown, which is escaped by the filter `md`: its template applies it to every text.
        autoescape=lambda name: name is None or not name.endswith(".md"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters |= {
        "md": markdown,
        "signed": signed,
        "seconds": seconds,
        "bytes": size,
        "count": lambda value: f"{value:,.0f}",
    }
    return templates


def axis(systems: Sequence[System], column: int) -> list[float]:
    """Ticks of the bars, from 0 to above every interval and every mean of a column."""
    highest = max([*(s.interval[1] for s in systems if s.interval), *(s.means[column] for s in systems), 1e-9])
    found = ticks(0.0, highest)
    step = found[1] - found[0] if len(found) > 1 else highest
    return found if found[-1] >= highest - 1e-9 else [*found, round(found[-1] + step, 10)]


def percent(value: float, top: float) -> str:
    """A place on the bars' axis, in percent."""
    return f"{100 * min(max(value / top, 0.0), 1.0):.2f}%"


def ranks(hit: Any) -> str:
    """ "rank 3 → 1" of a document; – where a run lacks it."""
    return f"rank {hit.before or '–'} → {hit.after or '–'}"


def markdown(text: object) -> str:
    """A text in Markdown, on one line, read as it stands."""
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


def last_values(panel: Panel) -> list[tuple[str, str, str]]:
    """(name, first value, last value) of a panel's lines."""
    return [(line.name, f"{line.points[0][1]:.3g}", f"{line.points[-1][1]:.3g}") for line in panel.lines]


FUNCTIONS = {
    "percent": percent,
    "ranks": ranks,
    "significant": is_significant,
    "ticks": ticks,
    "x_of": curves.x_of,
    "y_of": curves.y_of,
    "path_of": curves.path_of,
    "spoken": curves.spoken,
    "last_values": last_values,
    "drawing": {"width": curves.WIDTH, "height": curves.HEIGHT, "left": curves.LEFT, "right": curves.RIGHT,
                "top": curves.TOP, "bottom": curves.BOTTOM},
}  # fmt: skip
