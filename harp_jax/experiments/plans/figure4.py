"""HARP's Figure 4 as two pictures: few training queries (a), and growing shares of all of them (b).

harp plan figure4 --output=figure4 --jobs=2 --set docs=docs.tsv --set queries=queries.tsv --set qrels=qrels.txt \\
    --set source=pages.jsonl --set encoder=minilm/ --set init=minilm/ --set seeds=0,1,2 --set steps=40

One fold is tested, training queries are drawn from all others. (a): for each number of queries several draws, nested, so that
sizes differ in nothing else; every model gets the same number of updates (`steps`), chosen on other queries. (b): shares of all
training queries, trained for the epochs of the fine-tuning config. Each point is the mean over draws and seeds with a 95 %
bootstrap interval over queries, draws and seeds; the dashed line is the run that is re-ranked.

Hardware: any; `--dry_run` prints the cost. Figures: docs/experiments/recommended.md. With 300 test queries the standard error of a
difference in RR is about .02: read the intervals before the lines.
"""

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    BENCHMARK,
    NONE,
    NOT_PRETRAINED,
    PRETRAINING,
    Benchmark,
    Pretraining,
    identifier,
    output_of,
    trained_ranker,
)


def get_plan(
    pretraining: Pretraining = PRETRAINING,
    benchmark: Benchmark = BENCHMARK,
    transformers: tuple[str, ...] = (NONE, "mlm", "harp"),
    sizes: tuple[int, ...] = (10, 50, 200),
    draws: int = 5,
    steps: int = 100,
    shares: tuple[int, ...] = (25, 50, 100),
) -> list[Command]:
    """Options:

    transformers: systems to draw as lines; none is the one without pre-training
    sizes: numbers of training queries in (a); empty: skip (a)
    draws: draws per size
    steps: updates of every model of (a)
    shares: percentages of all training queries in (b); empty: skip (b)
    """
    if len(benchmark.tested) > 1 or len(benchmark.runs()) > 1:
        raise InputError("tested or candidates names several; a curve needs one fold and one run to re-rank")
    commands = [*benchmark.prepared(), *pretraining.systems(transformers, benchmark.seeds)]
    few = [str(size) for size in sizes]
    large = [f"{share}%" for share in shares]
    if few:
        commands += _curve("few", few, draws, transformers, pretraining, benchmark, [f"steps={steps}"])
    if large:
        # One draw: at 100 % all draws are the same, and elsewhere they differ little.
        commands += _curve("large", large, 1, transformers, pretraining, benchmark, [])
    return commands


def _curve(
    name: str,
    sizes: list[str],
    draws: int,
    transformers: tuple[str, ...],
    pretraining: Pretraining,
    benchmark: Benchmark,
    settings: list[str],
) -> list[Command]:
    """The draws, a ranker for each size, draw, seed and system, and the picture (step NAME)."""
    ((label, run),) = benchmark.runs().items()
    tested = (benchmark.tested or benchmark.fold_names())[0]
    others = [fold for fold in benchmark.fold_names() if fold != tested]
    folds = [f"--folds={benchmark.fold_file}", f"--train_folds={','.join(others)}"]
    drawn = [f"--qrels={benchmark.qrels}", *folds, f"--run={run}", f"--docs={benchmark.docs}"]
    drawn += [f"--sizes={','.join(sizes)}", f"--draws={draws}", "--output={out}"]
    commands = [Command(f"subsets_{name}", "queries", ["subsets", *drawn])]
    lines = [f"{label}={run}"]
    for system in transformers:
        for size in sizes:
            runs = []
            for draw in range(draws):
                for seed in benchmark.seeds:
                    start = pretraining.start(system if system in NOT_PRETRAINED else f"pre_{system}_s{seed}")
                    queries = "train_queries={subsets_" + name + "}/" + f"draw-{draw:02d}/{size}.txt"
                    commands += trained_ranker(
                        f"{name}_{system}_{identifier(size)}_d{draw}_s{seed}",
                        benchmark.collection,
                        config=benchmark.finetune,
                        candidates=run,
                        settings=[*start, queries, f"seed={seed}", *benchmark.settings, *settings],
                        rerank=[f"folds={benchmark.fold_file}", f"fold={tested}", *benchmark.rerank],
                    )
                    runs += output_of(commands[-1].name)
            lines.append(f"{system}@{size}={','.join(runs)}")
    together = [f"--runs_per_draw={len(benchmark.seeds)}"] if draws > 1 else []
    judged = [f"--qrels={benchmark.qrels}", f"--folds={benchmark.fold_file}", f"--fold={tested}"]
    picture = [*lines, *judged, f"--measures={benchmark.measure}", *together, "--curve={out}"]
    return [*commands, Command(name, "evaluate", picture, suffix=".svg")]
