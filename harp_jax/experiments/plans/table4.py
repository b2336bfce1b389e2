"""HARP's Table 4: HARP without MLM, and without each of its four tasks.

harp plan table4 --output=tables --jobs=2 --set docs=docs.tsv --set queries=queries.tsv --set qrels=qrels.txt \\
    --set source=pages.jsonl --set encoder=minilm/ --set init=minilm/

Every variant gets HARP's updates and real tokens: what a task leaves free goes to the others. Rows without pre-training and with
MLM alone show how much there is to lose. † marks what differs from HARP in both tests after Holm's correction. The same
--output as table2 shares the trainings of HARP, MLM and none.

Hardware: any; `--dry_run` prints the cost. Figures: not run yet.
"""

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    BENCHMARK,
    HARP_TASKS,
    NONE,
    PRETRAINING,
    TASKS,
    Benchmark,
    Pretraining,
    check_known,
    comparison,
    identifier,
    seeds_of,
)

VARIANTS: dict[str, list[str]] = {
    "harp": [],
    "no_mlm": ["mlm_weight=0.0"],
    **{f"no_{task}": [f"tasks={tuple(t for t in HARP_TASKS if t != task)!r}"] for task in HARP_TASKS},
}
CONTROLS = (NONE, "mlm")


def get_plan(
    pretraining: Pretraining = PRETRAINING,
    benchmark: Benchmark = BENCHMARK,
    variants: tuple[str, ...] = (*CONTROLS, *VARIANTS),
) -> list[Command]:
    """Options:

    variants: rows; harp is what the others are compared with
    """
    check_known("variants", variants, (*CONTROLS, *VARIANTS))
    if "harp" not in variants:
        raise InputError("variants lacks harp, which the others are compared with; add it")
    commands = [*benchmark.prepared(), *pretraining.generated(TASKS)]
    for variant in variants:
        for seed in benchmark.seeds if variant != NONE else ():
            system = "mlm" if variant == "mlm" else "harp"
            settings = VARIANTS.get(variant, [])
            commands.append(pretraining.trained(f"pre_{variant}_s{seed}", system, seed, settings))
    for label, run in benchmark.runs().items():
        tag = identifier(label)
        rows = {label: [run]}
        for variant in variants:
            for seed in benchmark.seeds:
                start = pretraining.start(variant if variant == NONE else f"pre_{variant}_s{seed}")
                commands += benchmark.transformer(f"{tag}_{variant}_s{seed}", run, seed, start)
            rows[variant] = seeds_of(f"joined_{tag}_{variant}", benchmark.seeds)
        table = comparison(
            f"table_{tag}",
            rows,
            qrels=benchmark.qrels,
            measures=benchmark.measures,
            baseline="harp",
            chance="harp",
            options=benchmark.evaluation(),
        )
        commands.append(table)
    return commands
