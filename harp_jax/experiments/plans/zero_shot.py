"""What links alone teach: a re-ranker after each variant of pre-training, without a labelled query.

harp plan zero_shot --output=zero_shot --set docs=collection.jsonl --set queries=queries.tsv --set qrels=qrels.txt \\
    --set folds=folds.tsv --set fields=title,body --set train_folds=1,2,3,4 --set pairs=pairs --set init=start --set scale=small

Every variant starts from the same encoder (`init`) and gets the same updates and real tokens; its own score head ranks the
candidates of a sample of the training queries of `train_folds`, so that the queries of the other folds stay untouched for the
final comparison. Rows: the candidates, the same in random order (chance), the start's own cosine, each variant, and the first
variant with its queries blanked (first seed). The recipe `recommended` was chosen with this plan (docs/experiments/recommended.md).

Hardware: any; `--dry_run` prints the cost.
"""

from ast import literal_eval
from collections.abc import Sequence

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    BENCHMARK,
    PRETRAINING,
    RECOMMENDED_TASKS,
    Benchmark,
    Pretraining,
    blanked,
    check_known,
    comparison,
    output_of,
)

# Differences from configs/baselines/recommended.py.
VARIANTS: dict[str, list[str]] = {
    "adp": [],
    "adp_qdm": ["tasks=('adp','qdm')"],
    "four": ["tasks=('rqp','qdm','rdp','acm')"],
    "five": ["tasks=('rqp','qdm','rdp','acm','adp')"],
    "paper": ["tasks=('rqp','qdm','rdp','acm')", "mlm_weight=1.0", "model.dropout=0.1"],
    "slower": ["learning_rate=1e-4"],
    "dropout": ["model.dropout=0.1"],
    "four_mlm": ["tasks=('rqp','qdm','rdp','acm')", "mlm_weight=1.0"],
    "adp_qdm_rdp": ["tasks=('adp','qdm','rdp')"],
    "adp_qdm_acm": ["tasks=('adp','qdm','acm')"],
    "adp_qdm_rqp": ["tasks=('adp','qdm','rqp')"],
    "logistic": ["pair_loss=logistic"],
    "mlm_tenth": ["mlm_weight=0.1"],
    "qdm": ["tasks=('qdm',)"],
    "rqp": ["tasks=('rqp',)"],
    "rdp": ["tasks=('rdp',)"],
    "acm": ["tasks=('acm',)"],
    "ict": ["tasks=('ict',)"],
    "wlp": ["tasks=('wlp',)"],
    "prop": ["tasks=('prop',)"],
}


def tasks_of(variants: Sequence[str]) -> list[str]:
    """The tasks whose pairs the variants read."""
    found: list[str] = []
    for name in variants:
        given = [field.removeprefix("tasks=") for field in VARIANTS[name] if field.startswith("tasks=")]
        found += literal_eval(given[0]) if given else RECOMMENDED_TASKS
    return list(dict.fromkeys(found))


def get_plan(
    pretraining: Pretraining = PRETRAINING,
    benchmark: Benchmark = BENCHMARK,
    variants: tuple[str, ...] = tuple(VARIANTS),
    train_folds: tuple[str, ...] = ("1", "2", "3", "4"),
    sample: int = 400,
) -> list[Command]:
    """Options:

    variants: rows; the first one also ranks blank queries
    train_folds: folds whose queries are sampled
    sample: number of them; 0: no sample, but all queries of the fold `tested` (or of all folds)
    """
    check_known("variants", variants, tuple(VARIANTS))
    if not variants or not pretraining.init or (not sample and len(benchmark.tested) > 1):
        raise InputError(
            "give variants, the encoder that they start from (init), and without a sample at most one tested fold"
        )
    ((_, run),) = benchmark.runs().items()
    sampled, chosen, evaluated = [], [], benchmark.evaluation()
    if sample:
        folds = [f"--folds={benchmark.fold_file}", f"--train_folds={','.join(train_folds)}"]
        drawn = [f"--qrels={benchmark.qrels}", *folds, f"--run={run}", f"--docs={benchmark.docs}"]
        sampled = [
            Command("sample", "queries", ["subsets", *drawn, f"--sizes={sample}", "--draws=1", "--output={out}"])
        ]
        queries = "{sample}/draw-00/" + f"{sample}.txt"
        chosen, evaluated = [f"--only={queries}"], [f"--queries={queries}", f"--confirm={benchmark.measure}"]
    elif benchmark.tested:
        chosen = [f"--folds={benchmark.fold_file}", f"--fold={benchmark.tested[0]}"]
    ranking = [*benchmark.collection.options, f"--run={run}", *chosen]
    ranking += [*(f"--{option}" for option in benchmark.rerank), "--output={out}"]
    commands = [
        *benchmark.prepared(),
        *pretraining.generated(tasks_of(variants)),
        *sampled,
        Command("cosine", "rerank", [f"--model={pretraining.init}", "--cosine", *ranking], suffix=".trec"),
    ]
    rows = {"BM25": [run], "cosine": output_of("cosine")}
    for name in variants:
        for seed in benchmark.seeds:
            commands.append(pretraining.trained(f"pre_{name}_s{seed}", "recommended", seed, VARIANTS[name]))
            ranked = Command(
                f"{name}_s{seed}", "rerank", ["--model={pre_" + f"{name}_s{seed}" + "}", *ranking], suffix=".trec"
            )
            commands.append(ranked)
            rows.setdefault(name, []).extend(output_of(ranked.name))
            if name == variants[0] and seed == benchmark.seeds[0]:
                commands.append(blanked(ranked, f"blank_{name}_s{seed}"))
                rows.setdefault("blank", []).extend(output_of(f"blank_{name}_s{seed}"))
    table = comparison(
        "table",
        rows,
        qrels=benchmark.qrels,
        measures=benchmark.measures,
        baseline="BM25",
        chance="cosine",  # the candidates that are re-ranked; the run may have more
        blank={variants[0]: "blank"},
        options=evaluated,
    )
    return [*commands, table]
