"""Evaluation of runs against judgments, through ir-measures (trec_eval's numbers).

    python -m harp_jax.evaluation.evaluate --qrels=qrels.txt bm25.trec "HARP=harp_s0.trec,harp_s1.trec" --measures="RR@10 AP" \
        --baseline=bm25

Measures are named as in ir-measures (`measures.py`). A document is relevant from level 1 unless `rel=` says otherwise;
nDCG's gain is the level itself (linear, as in trec_eval). Every query of the qrels counts, also where the run has nothing
for it (zero), as with `trec_eval -c`. NAME=RUN,RUN,… is one system trained with several seeds: its values are averaged per
query. With --baseline every other run is compared with it (`significance.py`).
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from harp_jax.cli import run as run_command
from harp_jax.corpus.folds import components
from harp_jax.corpus.trec import Qrels, Run, read_ids, read_qrels, read_run
from harp_jax.errors import InputError
from harp_jax.evaluation.measures import aggregate, calculate, is_tested, parse_measures
from harp_jax.evaluation.significance import ROUNDS, compare
from harp_jax.evaluation.tables import FORMATS, Table, notes, per_query_lines
from harp_jax.files import replacing

FEWEST_GROUPS = 10  # of queries, of equal size or worth as many, from which drawing whole groups says something
MEASURES = "RR@10 RR@100 nDCG@10 nDCG@100 AP"


def evaluate(
    qrels: Qrels,
    runs: Mapping[str, Run | Sequence[Run]],
    measures: str | list[str] = MEASURES,
    baseline: str = "",
    confirm: str | list[str] = "",
    rounds: int = ROUNDS,
    seed: int = 0,
    runs_per_draw: int = 1,
) -> Table:
    """Every measure of every run, per query and averaged over the queries of the qrels; a list of runs is averaged.

    With `baseline` the others are compared with it by the measures `confirm` (all); `runs_per_draw` as in
    `significance.bootstrap`. Raises InputError for a measure that
    nobody knows, a baseline that is no run, and for qrels without queries.
    """
    if not qrels:
        raise InputError("the qrels hold no query to evaluate; check the files")
    parsed = parse_measures(measures)
    systems = {name: [given] if isinstance(given, dict) else list(given) for name, given in runs.items()}
    for name, seeds in systems.items():
        if len(seeds) > 1 and len(seeds) % runs_per_draw:
            raise InputError(f"{name}: {len(seeds)} runs are no whole number of draws of {runs_per_draw}")
    values: dict[str, dict[str, np.ndarray]] = {}
    missing: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    for name, seeds in systems.items():
        found = [calculate(qrels, run, parsed) for run in seeds]
        values[name] = {m: np.array([list(one[m].values()) for one in found]) for m in map(str, parsed)}
        for number, run in enumerate(seeds, 1):
            label = name if len(seeds) == 1 else f"{name} ({number})"
            missing[label] = [qid for qid in qrels if qid not in run]
            unknown[label] = [qid for qid in run if qid not in qrels]
    per_query = {
        name: {m: dict(zip(qrels, map(float, seeds.mean(0)))) for m, seeds in by_measure.items()}
        for name, by_measure in values.items()
    }
    table = Table(
        measures=[str(measure) for measure in parsed],
        queries=len(qrels),
        mean={name: {str(m): aggregate(m, found[str(m)]) for m in parsed} for name, found in per_query.items()},
        per_query=per_query,
        missing=missing,
        unknown=unknown,
        seeds={name: len(seeds) for name, seeds in systems.items()},
    )
    if not baseline:
        return table
    if baseline not in runs:
        raise InputError(f"no run is named {baseline!r} for the baseline; the runs are {', '.join(runs)}")
    tested = [str(m) for m in parsed if is_tested(m)]
    chosen = [str(m) for m in parse_measures(confirm)] if confirm else tested
    if not set(chosen) <= set(tested):
        raise InputError(f"{min(set(chosen) - set(tested))} is to be confirmed, but is not among the measures; add it")
    groups = groups_of(qrels)
    sizes = np.bincount(groups)
    # One group of most of the queries decides every draw: so many equal groups would vary as much.
    worth = len(groups) ** 2 / float((sizes**2).sum())
    few = worth if worth < FEWEST_GROUPS else 0.0
    compared = compare(values, range(len(groups)) if few else groups, baseline, chosen, rounds, seed, runs_per_draw)
    return replace(table, baseline=baseline, comparisons=compared, few_groups=few)


def groups_of(qrels: Qrels) -> list[int]:
    """For each query the number of its group: queries that share relevant documents are no independent evidence."""
    number = {qid: i for i, group in enumerate(components(qrels)) for qid in group}
    return [number[qid] for qid in qrels]


def read_subset(path: str, qrels: Qrels) -> Qrels:
    """The judgments of the queries that stand first on the lines of `path`; InputError where one has none."""
    wanted = read_ids(path)
    unjudged = [qid for qid in wanted if qid not in qrels]
    if unjudged:
        raise InputError(
            f"{path}: {len(unjudged)} queries have no judgments, {unjudged[0]} first; mend --queries or --qrels"
        )
    return {qid: qrels[qid] for qid in wanted}


def name_runs(arguments: list[str]) -> dict[str, list[str]]:
    """Name → paths, from NAME=PATH,PATH,… or from a path alone.

    A path's name is the file's without its suffix, or the whole path where that would not be unique.
    """
    alone = [a for a in arguments if os.path.exists(a) or "=" not in a]
    short = [os.path.basename(path).removesuffix(".gz").rsplit(".", 1)[0] for path in alone]
    names = {path: path if short.count(name) > 1 else name for name, path in zip(short, alone)}
    named: dict[str, list[str]] = {}
    for argument in arguments:
        name, paths = (names[argument], argument) if argument in names else argument.split("=", 1)
        if name in named:
            raise InputError(f"two runs are named {name!r}; write NAME=PATH to tell them apart")
        if not name or not paths:
            raise InputError(f"{argument!r}: write NAME=PATH, or NAME=PATH,PATH for several seeds")
        named[name] = [paths] if argument in names or os.path.exists(paths) else paths.split(",")
    return named


def main(arguments: argparse.Namespace) -> None:
    parse_measures(arguments.measures)
    if arguments.rounds < 100:
        raise InputError(f"--rounds={arguments.rounds}: give 100 at least")
    if arguments.runs_per_draw < 1:
        raise InputError(f"--runs_per_draw={arguments.runs_per_draw}: give 1 or more")
    named = name_runs(arguments.runs)
    if arguments.baseline and arguments.baseline not in named:
        raise InputError(f"no run is named {arguments.baseline!r} for --baseline; the runs are {', '.join(named)}")
    qrels = read_qrels(arguments.qrels)
    if arguments.queries:
        qrels = read_subset(arguments.queries, qrels)
    runs = {name: [read_run(path) for path in paths] for name, paths in named.items()}
    table = evaluate(
        qrels,
        runs,
        arguments.measures,
        arguments.baseline,
        arguments.confirm,
        arguments.rounds,
        arguments.seed,
        arguments.runs_per_draw,
    )
    for note in notes(table):
        print(f"note: {note}", file=sys.stderr)
    if arguments.per_query:
        with replacing(arguments.per_query) as file:
            file.writelines(line + "\n" for line in per_query_lines(table))
    print(FORMATS[arguments.format](table))


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.evaluation.evaluate", description="Measures of runs against judgments."
    )
    parser.add_argument("runs", nargs="+", help="TREC runs or MS MARCO's three columns; NAME=RUN[,RUN…] names a system")
    parser.add_argument("--qrels", required=True, help="judgments: qid 0 docid level")
    parser.add_argument("--measures", default=MEASURES, help=f'names as in ir-measures ("{MEASURES}")')
    parser.add_argument("--format", default="text", choices=sorted(FORMATS), help="json holds the values per query too")
    parser.add_argument("--per_query", default="", help="a file to write: run, measure, qid, value")
    parser.add_argument("--queries", default="", help="a file whose lines begin with the query ids to evaluate (all)")
    parser.add_argument("--baseline", default="", help="the run that the others are compared with")
    parser.add_argument("--confirm", default="", help="measures to compare by, chosen beforehand (all of --measures)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of randomisation and bootstrap ({ROUNDS})")
    parser.add_argument("--seed", type=int, default=0, help="of both (0)")
    parser.add_argument(
        "--runs_per_draw",
        type=int,
        default=1,
        help="of a system's runs so many in a row were trained on the same draw of queries: intervals draw draws, then runs (1)",
    )
    return parser


if __name__ == "__main__":
    run_command(main, arguments_parser())
