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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.base.steps import Steps
from harp_jax.corpus.query_sets import subset_queries
from harp_jax.corpus.trec import read_qrels, read_run, read_subset
from harp_jax.experiments.benchmark import FOLDED, Benchmark, Prepared
from harp_jax.experiments.curve import as_svg, as_text, points
from harp_jax.experiments.msmarco import MSMARCO, official
from harp_jax.experiments.pretraining import NONE, PAPER, Pretraining

LARGE = ("50000", "100000", "150000", "200000")


def figure4(
    output: str,
    pretraining: Pretraining = PAPER,
    benchmark: Benchmark = MSMARCO,
    folder: str = "",
    transformers: tuple[str, ...] = (NONE, "mlm", "harp"),
    few: tuple[int, ...] = (5, 10, 15, 20),
    draws: int = 5,
    steps: int = 100,
    large: tuple[str, ...] = LARGE,
) -> None:
    """HARP's Figure 4: few training queries, and large numbers of them.

    folder: folder of MS MARCO's official files; empty: docs, queries and so on, in folds
    transformers: systems to draw as lines; none is the one without pre-training
    few: numbers of training queries in (a); empty: skip (a)
    draws: draws per size of (a)
    steps: updates of every model of (a)
    large: numbers of training queries in (b), or shares of all; empty: skip (b)
    """
    if folder:
        benchmark = official(folder, benchmark, ("dev",), pretraining, transformers)
    elif len(benchmark.tested) > 1 or len(benchmark.runs) > 1:
        raise InputError("tested or candidates names several; a curve needs one fold and one run to re-rank")
    if len({size.endswith("%") for size in large}) > 1:
        raise InputError(f"large={','.join(large)}: write numbers of queries, or shares of them, not both")
    benchmark.check(*pretraining.files(True))
    running = Steps(output)
    on = benchmark.prepared(running)
    on = replace(on, given=replace(benchmark, tested=on.tested[:1] if on.folds else ()))
    starts = pretraining.systems(running, transformers, benchmark.seeds)
    if few:
        curve(on, "few", [str(size) for size in few], draws, starts, transformers, [f"steps={steps}"])
    if large:
        # One draw: at 100 % all draws are the same, and elsewhere they differ little.
        curve(on, "large", large, 1, starts, transformers, [])


def curve(
    on: Prepared,
    name: str,
    sizes: Sequence[str],
    draws: int,
    starts: Mapping[tuple[str, int], Mapping[str, Any]],
    transformers: Sequence[str],
    texts: Sequence[str],
) -> None:
    """Draws queries, trains a ranker for each size, draw, seed and system, and writes NAME.svg and NAME.txt."""
    b, output = on.given, on.steps.output
    ((label, run),) = on.candidates.items()
    (tested,) = on.tested
    others = tuple(fold for fold in on.fold_names if fold != tested) if tested else ()
    subsets = f"{output}/{name}_queries"
    subset_queries(b.qrels, subsets, tuple(sizes), draws, folds=on.folds, train_folds=others, run=run, docs=b.docs)

    ((test, one),) = on.tests.items()
    runs: dict[tuple[str, str], list[str]] = {(label, ""): [one.run or run]}
    for system in transformers:
        for size in sizes:
            for draw in range(draws):
                for seed in b.seeds:
                    title = f"{name}/{system}_{size.replace('%', 'percent')}_d{draw}_s{seed}"
                    fields = {**starts[system, seed], "seed": seed}
                    listed = f"{subsets}/draw-{draw:02d}/{size}.txt"
                    found, _ = on.ranker(title, b.finetune, run, fields, [*b.settings, *texts], only=listed)
                    runs.setdefault((system, size), []).append(found[test])

    qrels = read_subset(read_qrels(one.qrels), folds=on.folds if test == FOLDED else "", wanted=b.tested)
    systems = {row: [read_run(path) for path in paths] for row, paths in runs.items()}
    measure = b.measures.split()[0]
    drawn = points(qrels, systems, measure, len(b.seeds) if draws > 1 else 1)
    for suffix, text in ((".svg", as_svg(drawn, measure)), (".txt", as_text(drawn, measure) + "\n")):
        with replacing(f"{output}/{name}{suffix}") as file:
            file.write(text)
    print(f"\n{as_text(drawn, measure)}\n{output}/{name}.svg", flush=True)
