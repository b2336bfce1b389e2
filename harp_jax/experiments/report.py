"""A report: the table of some runs and their training curves as one self-contained HTML page."""

import html
import io
from collections.abc import Mapping, Sequence

from harp_jax.corpus.trec import Qrels, Run
from harp_jax.errors import InputError, needs
from harp_jax.evaluation.evaluate import MEASURES, evaluate
from harp_jax.evaluation.tables import Table
from harp_jax.training import metrics_log

STYLE = """
:root { color-scheme: light dark; --line: #8885; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1.5rem 0; background: #fff; border-radius: 6px; }
svg { width: 100%; height: auto; }
p.note { opacity: .75; }
"""


def curves_svg(workdirs: Mapping[str, str]) -> str:
    """Training curves as inline SVG: one panel a metric, one line a workdir. Raises InputError for one without metrics."""
    with needs("drawing curves", "matplotlib", "plots"):
        import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    rows = {name: metrics_log.read(path) for name, path in workdirs.items()}
    if absent := [name for name, run in rows.items() if not run]:
        raise InputError(f"the curves of {absent[0]}: {workdirs[absent[0]]} has no metrics; name a training workdir")
    panels = (
        ("train", "loss", "training loss"),
        ("train", "pair_accuracy", "pair accuracy, training"),
        ("train", "mlm_loss", "MLM loss, training"),
        ("validation", "mlm_loss", "MLM loss, held out"),
        *(
            ("validation", f"{task}_accuracy", f"{task.upper()} accuracy, held out")
            for task in ("rqp", "qdm", "rdp", "acm")
        ),
    )
    there = [p for p in panels if any(r["split"] == p[0] and p[1] in r for run in rows.values() for r in run)]
    if not there:
        return ""
    figure, axes = pyplot.subplots(-(-len(there) // 2), 2, figsize=(10, 2.8 * -(-len(there) // 2)), squeeze=False)
    for axis, (split, metric, title) in zip(axes.flat, there):
        for number, (name, run_rows) in enumerate(rows.items()):
            points = [(r["step"], r[metric]) for r in run_rows if r["split"] == split and metric in r]
            if points:
                axis.plot(*zip(*points), label=name, color=f"C{number}", marker="." if split == "validation" else "")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("step", fontsize=9)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    for axis in list(axes.flat)[len(there) :]:
        axis.remove()
    figure.tight_layout()
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    pyplot.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def as_html(title: str, table: Table, curves: str, remarks: Sequence[str]) -> str:
    """The page, which loads nothing from elsewhere."""
    head = "".join(f"<th>{html.escape(m)}</th>" for m in table.measures) + ("<th></th>" if table.verdicts else "")
    body = "".join(
        f"<tr><td>{html.escape(name)}</td>"
        + "".join(f"<td>{values[m]:.4f}</td>" for m in table.measures)
        + (f"<td>{html.escape(table.verdict(name))}</td>" if table.verdicts else "")
        + "</tr>"
        for name, values in table.mean.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style><h1>{html.escape(title)}</h1>'
        f"<table><thead><tr><th>run</th>{head}</tr></thead><tbody>{body}</tbody></table>"
        + "".join(f'<p class="note">{html.escape(remark)}</p>' for remark in remarks)
        + (f"<h2>Learning curves</h2><figure>{curves}</figure>" if curves else "")
        + "</html>\n"
    )


def report(
    qrels: Qrels,
    runs: Mapping[str, Run],
    measures: str = MEASURES,
    curves: Mapping[str, str] | None = None,
    title: str = "Re-ranking",
    remarks: Sequence[str] = (),
    chance: str = "",
    blank: Mapping[str, str] | None = None,
) -> tuple[str, Table, list[str]]:
    """(HTML page, table, remarks below it): measures of the runs, and curves of the training workdirs (name → directory).

    `chance` and `blank` as in `evaluate`.
    """
    table = evaluate(qrels, runs, measures, chance=chance, blank=blank)
    said = [f"{len(qrels)} judged queries.", *remarks, *table.notes()]
    return as_html(title, table, curves_svg(curves or {}), said), table, said
