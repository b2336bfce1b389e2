"""HARP's Table 3: ensembles of a transformer with the first stage, of its seeds, and of all systems.

harp plan table3 --output=tables --jobs=2 --set docs=docs.tsv --set queries=queries.tsv --set qrels=qrels.txt \\
    --set source=pages.jsonl --set encoder=minilm/ --set init=minilm/ --set seeds=0,1,2

Rows, for each transformer: alone; with the score of the candidates added, in the weight that is best on the other folds (+); the
mean of its seeds' normalised scores (ensemble), where there are several. Then all transformers and the candidates, in fitted
weights. A gain of HARP that the sum with BM25 closes was lexical. The same --output as table2 shares its trainings.

Hardware: any; `--dry_run` prints the cost. Figures: not run yet.
"""

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    BENCHMARK,
    NONE,
    PRETRAINING,
    Benchmark,
    Pretraining,
    comparison,
    fitted_sum,
    identifier,
    output_of,
    seeds_of,
)

TRANSFORMERS = (NONE, "mlm", "prop", "harp")


def get_plan(
    pretraining: Pretraining = PRETRAINING,
    benchmark: Benchmark = BENCHMARK,
    transformers: tuple[str, ...] = TRANSFORMERS,
) -> list[Command]:
    """Options:

    transformers: systems; none is the one without pre-training
    """
    if not transformers:
        raise InputError("transformers is empty; name at least one")
    if len(benchmark.tested) == 1:
        raise InputError(
            "tested names one fold; weights of a fold are fitted on others that are tested, name two or more"
        )
    commands = [*benchmark.prepared(), *pretraining.systems(transformers, benchmark.seeds)]
    for label, run in benchmark.runs().items():
        tag = identifier(label)
        rows = {label: [run]}
        for system in transformers:
            name = f"{tag}_{system}"
            for seed in benchmark.seeds:
                start = pretraining.start(system if system == NONE else f"pre_{system}_s{seed}")
                commands += benchmark.transformer(f"{name}_s{seed}", run, seed, start)
                commands.append(_sum(f"sum_{name}_s{seed}", [run, *output_of(f"joined_{name}_s{seed}")], benchmark))
            joined = seeds_of(f"joined_{name}", benchmark.seeds)
            rows |= {system: joined, f"{system}+{label}": seeds_of(f"sum_{name}", benchmark.seeds)}
            if len(benchmark.seeds) > 1:
                mean = ["--method=mean", *joined, "--output={out}"]
                commands.append(Command(f"ensemble_{name}", "fuse", mean, suffix=".trec"))
                rows[f"{system} ensemble"] = output_of(f"ensemble_{name}")
        if len(transformers) > 1:
            first = benchmark.seeds[0]
            together = [run, *output_of(*(f"joined_{tag}_{system}_s{first}" for system in transformers))]
            commands.append(_sum(f"all_{tag}", together, benchmark))
            rows["all"] = output_of(f"all_{tag}")
        table = comparison(
            f"table_{tag}",
            rows,
            qrels=benchmark.qrels,
            measures=benchmark.measures,
            baseline=f"harp+{label}" if "harp" in transformers else label,
            chance=transformers[-1],
            options=benchmark.evaluation(),
        )
        commands.append(table)
    return commands


def _sum(name: str, runs: list[str], benchmark: Benchmark) -> Command:
    fitting = {"qrels": benchmark.qrels, "folds": benchmark.fold_file, "measure": benchmark.measure}
    return fitted_sum(name, runs, **fitting)
