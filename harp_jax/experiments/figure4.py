"""HARP's Figure 4 as two pictures: few training queries (a), and large numbers of them (b).

harp plan figure4 --output=paper --set folder=msmarco --set seeds=0,1,2
harp plan figure4 --output=few --set docs=docs.tsv --set queries=queries.tsv --set qrels=qrels.txt --set source=pages.jsonl \\
    --set source_config=data/linked_jsonl:paper --set encoder=minilm/ --set init=minilm/ --set scale=small --set large=25%,50%,100%

With `folder`, MS MARCO's files (`harp plan msmarco`): trained on its training queries, tested on dev. Else one fold is tested, and
training queries are drawn from all others. (a): for each number of queries several draws, nested, so that sizes differ in nothing
else; every model gets the same number of updates (`steps`). (b): larger numbers, or shares such as 25%, trained for the epochs of
the fine-tuning config. Each point is the mean over draws and seeds with a 95 % bootstrap interval over queries, draws and seeds;
the dashed line is the run that is re-ranked.

Hardware: configs/tpu_v3.py has the hours of a pre-training, of which this has two per seed. Figures:
docs/lab/links.md for a small collection. With 300 test queries the standard error of a difference in RR is about
.02: read the intervals before the lines.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import replacing
from harp_jax.corpus.query_sets import subset_queries
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.evaluation.measures import one_measure
from harp_jax.evaluation.report import Evaluation
from harp_jax.experiments.benchmark import FOLDED, Bench, Benchmark
from harp_jax.experiments.msmarco import DEV, PAPER
from harp_jax.experiments.pretraining import NONE, Pretraining

COLLECTION = replace(DEV, folder="")
LARGE = ("50000", "100000", "150000", "200000")


def figure4(
    output: str,
    pretraining: Pretraining = PAPER,
    benchmark: Benchmark = COLLECTION,
    transformers: tuple[str, ...] = (NONE, "mlm", "harp"),
    few: tuple[int, ...] = (5, 10, 15, 20),
    draws: int = 5,
    steps: int = 100,
    large: tuple[str, ...] = LARGE,
) -> None:
    """HARP's Figure 4: few training queries, and large numbers of them.

    transformers: systems to draw as lines; none is the one without pre-training
    few: numbers of training queries in (a); empty: skip (a)
    draws: draws per size of (a)
    steps: updates of every model of (a)
    large: numbers of training queries in (b), or shares of all; empty: skip (b)
    """
    if len(benchmark.tests if benchmark.folder else benchmark.tested) > 1 or len(benchmark.candidates) > 1:
        raise InputError("tests, tested or candidates names several; a curve needs one fold and one run to re-rank")
    if len({size.endswith("%") for size in large}) > 1:
        raise InputError(f"large={','.join(large)}: write numbers of queries, or shares of them, not both")
    bench = Bench(output, benchmark, pretraining.files(transformers))
    bench.tested = bench.tested[:1]
    starts = pretraining.starts(bench.steps, transformers, benchmark.seeds)
    if few:
        few_starts = {one: start | {"steps": steps} for one, start in starts.items()}
        curve(bench, "few", [str(size) for size in few], draws, few_starts, transformers)
    if large:
        # One draw: at 100 % all draws are the same, and elsewhere they differ little.
        curve(bench, "large", large, 1, starts, transformers)


def curve(
    bench: Bench,
    name: str,
    sizes: Sequence[str],
    draws: int,
    starts: Mapping[tuple[str, int], Mapping[str, Any]],
    transformers: Sequence[str],
) -> None:
    """Draws queries, trains a ranker for each size, draw, seed and system, and writes NAME.svg and NAME.txt."""
    b, output = bench.options, bench.output
    ((label, run),) = bench.candidates.items()
    ((test, one),) = bench.tests.items()
    others = tuple(fold for fold in bench.fold_names if fold not in bench.tested)
    subsets = f"{output}/{name}_queries"
    subset_queries(b.qrels, subsets, tuple(sizes), draws, folds=bench.folds, train_folds=others, run=run, docs=b.docs)

    # Line and size → its runs; the line of the candidates has no size.
    runs: dict[tuple[str, str], list[str]] = {(label, ""): [one.run or run]}
    for system, size, draw, seed in itertools.product(transformers, sizes, range(draws), b.seeds):
        title = f"{name}/{system}_{size.replace('%', 'percent')}_d{draw}_s{seed}"
        listed = {"train_queries": f"{subsets}/draw-{draw:02d}/{size}.txt"}
        ranked, _ = bench.ranker(title, {**starts[system, seed], **listed, "seed": seed}, run)
        runs.setdefault((system, size), []).append(ranked[test])

    # A point for each line and size, with an interval over queries, draws and seeds.
    measure, fold = str(one_measure(b.measures.split()[0])), bench.tested if test == FOLDED else ()
    named = {"@".join(line): paths for line, paths in runs.items()}
    files = Evaluation(one.qrels, named, folds=bench.folds, fold=fold, measures=measure)
    per_draw = len(b.seeds) if draws > 1 else 1
    table = evaluate(**files.read(), runs_per_draw=per_draw, intervals=True)
    points = {line: (table.mean[row][measure], *table.intervals[row]) for row, line in zip(files.runs, runs)}
    lines = [
        "\t".join([system, size or "-", str(len(runs[system, size])), *(f"{value:.4f}" for value in values)])
        for (system, size), values in points.items()
    ]
    text = "\n".join([f"system\tsize\truns\t{measure}\tlow\thigh", *lines])
    with replacing(f"{output}/{name}.txt") as file:
        file.write(text + "\n")
    draw_curves(points, measure, f"{output}/{name}.svg")
    print(f"\n{text}\n{output}/{name}.svg", flush=True)


def draw_curves(points: Mapping[tuple[str, str], tuple[float, float, float]], measure: str, output: str) -> None:
    """Draws (system, size) → mean and 95 % interval as SVG. A size is a number of queries, or a share such as "25%"; without one,
    the system is a horizontal line. The axis is logarithmic for numbers, linear for shares."""
    with needs("drawing curves", "matplotlib", "plots"):
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

    # No date, and ids from the content: the same data give the same bytes. Names may contain $.
    with rc_context({"svg.hashsalt": "harp_jax", "text.parse_math": False}), replacing(output) as file:
        figure = FigureCanvasSVG(Figure(figsize=(6, 4))).figure
        axis = figure.subplots()
        sized = {(system, size): float(size.removesuffix("%")) for system, size in points if size}
        shares = any(size.endswith("%") for _, size in sized)
        for colour, system in enumerate(dict.fromkeys(system for system, _ in sized)):
            line = sorted((number, *points[one]) for one, number in sized.items() if one[0] == system)
            sizes, values, low, high = zip(*line)
            # The legend leaves out names that begin with _.
            axis.plot(sizes, values, marker="o", label=f" {system}", color=f"C{colour}")
            axis.fill_between(sizes, low, high, color=f"C{colour}", alpha=0.15, linewidth=0)
        for (system, size), (value, _, _) in points.items():
            if not size:
                axis.axhline(value, linestyle="--", color="0.4")
                start = (0.01, value)
                axis.annotate(system, start, xycoords=("axes fraction", "data"), ha="left", va="bottom", fontsize=8)
        if not shares:
            axis.set_xscale("log")
        ticks = sorted({*sized.values()})
        axis.set_xticks(ticks, [f"{tick:g}{'%' if shares else ''}" for tick in ticks])
        axis.minorticks_off()
        axis.set_xlabel("training queries")
        axis.set_ylabel(measure)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
        figure.tight_layout()
        figure.savefig(file, format="svg", metadata={"Date": None})
