"""Evaluation of runs against judgments, through ir-measures (trec_eval's numbers).

    python -m harp_jax.evaluate --qrels=qrels.txt bm25.trec harp.trec --measures="RR@10 nDCG@10 AP"

Measures are named as in ir-measures: `RR@10`, `nDCG@10`, `AP`, `P@5`, `R@100`, `Rprec`, `RR(rel=2)@10`. A document is
relevant from level 1 unless `rel=` says otherwise; nDCG's gain is the level itself (linear, as in trec_eval). Every
query of the qrels counts, also where the run has nothing for it (zero), as with `trec_eval -c`.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Any

from harp_jax.cli import run as run_command
from harp_jax.errors import InputError
from harp_jax.files import lines
from harp_jax.trec import Qrels, Run, read_qrels, read_run

MEASURES = "RR@10 RR@100 nDCG@10 nDCG@100 AP"


@dataclass(frozen=True)
class Table:
    """What several runs score on the same queries.

    `mean` is run → measure → value; `per_query` is run → measure → qid → value; `missing` are queries of the qrels that
    the run lacks (they count as zero), `unknown` those of the run that the qrels lack (they are left out).
    """

    measures: list[str]
    queries: int
    mean: dict[str, dict[str, float]]
    per_query: dict[str, dict[str, dict[str, float]]]
    missing: dict[str, list[str]]
    unknown: dict[str, list[str]]


def evaluate(qrels: Qrels, runs: dict[str, Run], measures: str | list[str] = MEASURES) -> Table:
    """Every measure of every run, per query and averaged over the queries of the qrels.

    Raises InputError for a measure that ir-measures does not know and for qrels without queries.
    """
    if not qrels:
        raise InputError("the qrels hold no query to evaluate; check the files")
    parsed = parse_measures(measures)
    mean: dict[str, dict[str, float]] = {}
    per_query: dict[str, dict[str, dict[str, float]]] = {}
    for name, run in runs.items():
        mean[name], per_query[name] = _one(qrels, run, parsed)
    return Table(
        measures=[str(measure) for measure in parsed],
        queries=len(qrels),
        mean=mean,
        per_query=per_query,
        missing={name: [qid for qid in qrels if qid not in run] for name, run in runs.items()},
        unknown={name: [qid for qid in run if qid not in qrels] for name, run in runs.items()},
    )


def _one(qrels: Qrels, run: Run, measures: list[Any]) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    import ir_measures

    scores = {qid: dict(zip(run[qid].docids, run[qid].scores)) for qid in qrels if qid in run}
    values: dict[str, dict[str, float]] = {str(measure): dict.fromkeys(qrels, 0.0) for measure in measures}
    for metric in ir_measures.iter_calc(measures, qrels, scores):
        values[str(metric.measure)][metric.query_id] = metric.value
    mean = {}
    for measure in measures:
        total = measure.aggregator()
        for value in values[str(measure)].values():
            total.add(value)
        mean[str(measure)] = total.result()
    return mean, values


def parse_measures(measures: str | list[str]) -> list[Any]:
    """ir-measures' objects, each tried out on a toy run: some names parse and cannot be computed."""
    import ir_measures

    names = measures.split() if isinstance(measures, str) else list(measures)
    if not names:
        raise InputError('no measure; name some, as in --measures="RR@10 nDCG@10"')
    parsed = []
    for name in names:
        try:
            measure = ir_measures.parse_measure(name)
            ir_measures.calc_aggregate([measure], {"1": {"d": 1}}, {"1": {"d": 1.0}})
        except Exception as error:  # ir-measures raises whatever its parser or a provider does
            raise InputError(
                f"unknown measure {name!r} ({type(error).__name__}); names are those of ir-measures: "
                "RR@10, nDCG@10, AP, P@5, R@100, Rprec"
            ) from error
        if measure not in parsed:
            parsed.append(measure)
    return parsed


def as_text(table: Table) -> str:
    """A table for people: a run a line, four digits."""
    width = max(len(name) for name in ("run", *table.mean))
    columns = [max(len(measure), 6) for measure in table.measures]
    head = "  ".join([f"{'run':<{width}}", *(f"{m:>{c}}" for m, c in zip(table.measures, columns))])
    rows = [
        "  ".join([f"{name:<{width}}", *(f"{mean[m]:>{c}.4f}" for m, c in zip(table.measures, columns))])
        for name, mean in table.mean.items()
    ]
    return "\n".join([head, *rows])


def as_latex(table: Table) -> str:
    """A tabular (booktabs) in which the best value of each measure is bold."""
    best = {m: max(round(mean[m], 4) for mean in table.mean.values()) for m in table.measures}
    rows = []
    for name, mean in table.mean.items():
        cells = [
            rf"\textbf{{{mean[m]:.4f}}}" if round(mean[m], 4) == best[m] else f"{mean[m]:.4f}" for m in table.measures
        ]
        rows.append(" & ".join([_escaped(name), *cells]) + r" \\")
    head = " & ".join(["Run", *map(_escaped, table.measures)]) + r" \\"
    columns = "l" + "r" * len(table.measures)
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "#$%&_{}" else c for c in text)


def as_json(table: Table) -> str:
    """All of the table, the values of every query included."""
    return json.dumps(asdict(table), indent=1, ensure_ascii=False)


FORMATS = {"text": as_text, "latex": as_latex, "json": as_json}


def notes(table: Table) -> list[str]:
    """What a reader of the table must know: queries that count as zero, and queries left out."""
    found = []
    for name in table.mean:
        for qids, what in (
            (table.missing[name], "of the qrels are missing and count as zero"),
            (table.unknown[name], "are not in the qrels and are left out"),
        ):
            if qids:
                shown = ", ".join(qids[:5]) + (", …" if len(qids) > 5 else "")
                found.append(f"{name}: {len(qids)} queries {what}: {shown}")
    return found


def read_subset(path: str, qrels: Qrels) -> Qrels:
    """The judgments of the queries that stand first on the lines of `path`; InputError where one has none."""
    wanted = dict.fromkeys(line.split()[0] for _, line in lines(path) if line.strip())
    unjudged = [qid for qid in wanted if qid not in qrels]
    if unjudged:
        raise InputError(
            f"{path}: {len(unjudged)} queries have no judgments, {unjudged[0]} first; mend --queries or --qrels"
        )
    return {qid: qrels[qid] for qid in wanted}


def name_runs(paths: list[str]) -> dict[str, str]:
    """Short names for runs: the file's name without its suffix, or the whole path where that would not be unique."""
    short = [os.path.basename(path).removesuffix(".gz").rsplit(".", 1)[0] for path in paths]
    return {path if short.count(name) > 1 else name: path for name, path in zip(short, paths)}


def main(arguments: argparse.Namespace) -> None:
    parse_measures(arguments.measures)
    qrels = read_qrels(arguments.qrels)
    if arguments.queries:
        qrels = read_subset(arguments.queries, qrels)
    runs = {name: read_run(path) for name, path in name_runs(arguments.runs).items()}
    table = evaluate(qrels, runs, arguments.measures)
    for note in notes(table):
        print(f"note: {note}", file=sys.stderr)
    print(FORMATS[arguments.format](table))


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.evaluate", description="Measures of runs against judgments."
    )
    parser.add_argument("runs", nargs="+", help="TREC runs, or MS MARCO's three columns; may be compressed")
    parser.add_argument("--qrels", required=True, help="judgments: qid 0 docid level")
    parser.add_argument("--measures", default=MEASURES, help=f'names as in ir-measures ("{MEASURES}")')
    parser.add_argument("--format", default="text", choices=sorted(FORMATS), help="json holds the values per query too")
    parser.add_argument("--queries", default="", help="a file whose lines begin with the query ids to evaluate (all)")
    return parser


if __name__ == "__main__":
    run_command(main, arguments_parser())
