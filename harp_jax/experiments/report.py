"""A small table of runs, and one self-contained HTML page with it and the learning curves.

python -m harp_jax.experiments.report --qrels=qrels.txt --queries=test.tsv --measures="RR@10 nDCG@10" --output=report.html \
    --run "BM25=bm25.trec" --run "HARP=harp.trec" --curves "HARP=harp_workdir"
"""

import argparse
import html
import io

from harp_jax.cli import run
from harp_jax.corpus.folds import read_subset
from harp_jax.corpus.trec import read_qrels, read_run
from harp_jax.errors import InputError
from harp_jax.evaluation.evaluate import MEASURES, evaluate
from harp_jax.evaluation.tables import Table
from harp_jax.files import replacing
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


def named(values: list[str], option: str) -> dict[str, str]:
    """{"HARP": "run.trec"} from ["HARP=run.trec"]."""
    out: dict[str, str] = {}
    for value in values:
        name, separator, path = value.partition("=")
        if not separator or not name or not path:
            raise InputError(f"--{option} {value!r}: write NAME=PATH")
        out[name] = path
    return out


def curves_svg(workdirs: dict[str, str]) -> str:
    """Training curves of the runs as inline SVG: one panel a metric, one line a run. Empty where nothing was logged."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    rows = {name: metrics_log.read(path) for name, path in workdirs.items()}
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


def as_html(title: str, table: Table, curves: str, remarks: list[str]) -> str:
    """The page: nothing in it is fetched from elsewhere."""
    head = "".join(f"<th>{html.escape(m)}</th>" for m in table.measures)
    body = "".join(
        f"<tr><td>{html.escape(name)}</td>" + "".join(f"<td>{values[m]:.4f}</td>" for m in table.measures) + "</tr>"
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


def main(arguments: argparse.Namespace) -> None:
    qrels = read_subset(read_qrels(arguments.qrels), arguments.queries)
    runs = {name: read_run(path) for name, path in named(arguments.run, "run").items()}
    table = evaluate(qrels, runs, arguments.measures)
    curves = curves_svg(named(arguments.curves, "curves"))
    remarks = [f"{len(qrels)} judged queries.", *arguments.remark, *table.notes()]
    with replacing(arguments.output) as file:
        file.write(as_html(arguments.title, table, curves, remarks))
    print(table)
    for remark in remarks:
        print(remark)
    print(f"report: {arguments.output}")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.experiments.report", description="A table and an HTML page of runs."
    )
    parser.add_argument("--qrels", required=True)
    parser.add_argument("--queries", default="", help="a file whose lines begin with the query ids to evaluate (all)")
    parser.add_argument("--measures", default=MEASURES)
    parser.add_argument("--run", action="append", default=[], help="NAME=RUN, several times", metavar="NAME=RUN")
    parser.add_argument("--curves", action="append", default=[], help="NAME=WORKDIR, several times", metavar="NAME=DIR")
    parser.add_argument("--remark", action="append", default=[], help="a line to print below the table")
    parser.add_argument("--title", default="Re-ranking")
    parser.add_argument("--output", required=True, help="the HTML page")
    return parser


if __name__ == "__main__":
    run(main, arguments_parser())
