"""HARP's Table 2: all systems on each run of candidates, with significance marks, chance and blank queries.

harp plan table2 --output=tables --jobs=2 --set docs=docs.tsv --set queries=queries.tsv --set qrels=qrels.txt \\
    --set source=pages.jsonl --set encoder=minilm/ --set init=minilm/
harp plan table2 --output=tables --set candidates=ANCE=ance.trec,BM25=bm25.trec …    one table for each run

Rows: the candidates; BM25 and QL, and what links say without training: BM25F with a field of anchor texts, BM25 over
documents expanded by their anchor texts, and the candidates' score with log in-links or log length added. These are tuned,
weights included, on the other folds; bm25f, expanded and inlinks read `source`. Then the neural rankers, and transformers
without pre-training and after MLM alone, ICT, WLP, PROP and HARP, each pre-trained with the same budget and fine-tuned in
the same way in every fold. `target_pairs` (harp generate, task prop, on the collection itself) adds PROP on the target
collection, as in the paper's PROP (MARCO).

† marks what differs from HARP: p < .05 in both tests after Holm's correction. By the first measure a system is called "not
above chance" or "no better than with its query blanked" (`blank`). The claim that pre-training from links helps rests on
pairs without the judged documents: --set generation=exclude_destinations=judged.txt; without it popularity explains part of
the result. (The rows of anchor texts then lack the same links.)

Hardware: any; `--dry_run` prints the cost. The scale `tiny` (BERT-tiny, 600 updates) checks the pipeline on two cores and is far
too small to rank the systems. Figures: not run yet.
"""

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    BENCHMARK,
    CONFIGS,
    NEURAL,
    NONE,
    PRETRAINING,
    Benchmark,
    Pretraining,
    check_known,
    comparison,
    fitted_sum,
    identifier,
    seeds_of,
)

LEXICAL = ("bm25", "ql", "bm25f", "expanded", "inlinks", "length")
TRANSFORMERS = (NONE, "mlm", "ict", "wlp", "prop", "harp")
TARGET = "prop_target"


def get_plan(
    pretraining: Pretraining = PRETRAINING,
    benchmark: Benchmark = BENCHMARK,
    lexical: tuple[str, ...] = LEXICAL,
    neural_rankers: tuple[str, ...] = NEURAL,
    transformers: tuple[str, ...] = TRANSFORMERS,
    target_pairs: str = "",
    blank: tuple[str, ...] = ("harp",),
) -> list[Command]:
    """Options:

    lexical: rows without neural networks
    neural_rankers: rows of neural rankers
    transformers: rows of transformers; none is the one without pre-training, recommended the preset of small encoders
    target_pairs: finished pairs of PROP on the target collection
    blank: transformers that also rank blank queries
    """
    rows = transformers + ((TARGET,) if target_pairs else ())
    for option, given, known in (
        ("lexical", lexical, LEXICAL),
        ("neural_rankers", neural_rankers, NEURAL),
        ("transformers", transformers, (NONE, *CONFIGS)),
        ("blank", blank, rows),
    ):
        check_known(option, given, known)
    if not rows and not neural_rankers:
        raise InputError("transformers and neural_rankers are both empty; a table needs a ranker that re-ranks")
    commands = [*benchmark.prepared(), *pretraining.systems(transformers, benchmark.seeds)]
    if target_pairs:
        data = [f"data=('{target_pairs}',)"]
        commands += [pretraining.trained(f"pre_{TARGET}_s{seed}", "prop", seed, data) for seed in benchmark.seeds]
    if not {"bm25f", "expanded", "inlinks"}.isdisjoint(lexical):
        commands.append(Command("anchors", "anchors", [*pretraining.source_options(), "--output={out}"], suffix=".tsv"))
    if neural_rankers:
        commands += benchmark.words()
    for label, run in benchmark.runs().items():
        commands += _table(label, run, pretraining, benchmark, lexical, neural_rankers, rows, blank)
    return commands


def _table(
    label: str,
    run: str,
    pretraining: Pretraining,
    benchmark: Benchmark,
    lexical: tuple[str, ...],
    neural_rankers: tuple[str, ...],
    transformers: tuple[str, ...],
    blank: tuple[str, ...],
) -> list[Command]:
    """The steps of one run of candidates; the step table_LABEL compares all systems on it."""
    tag = identifier(label)
    commands: list[Command] = []
    rows: dict[str, list[str]] = {label: [run]}
    for system in lexical:
        if (made := _lexical(system, tag, run, benchmark)) and system.upper() != label.upper():
            commands += made
            rows[system] = ["{" + made[-1].name + "}"]
    ranked: list[str] = []
    for system in neural_rankers:
        for seed in benchmark.seeds:
            commands += benchmark.neural_ranker(f"{tag}_{system}_s{seed}", system, run, seed)
        rows[system] = seeds_of(f"joined_{tag}_{system}", benchmark.seeds)
        ranked.append(system)
    blanks = {}
    for system in transformers:
        for seed in benchmark.seeds:
            start = pretraining.start(system if system == NONE else f"pre_{system}_s{seed}")
            commands += benchmark.transformer(f"{tag}_{system}_s{seed}", run, seed, start, system in blank)
        rows[system] = seeds_of(f"joined_{tag}_{system}", benchmark.seeds)
        if system in blank:
            blanks[system] = f"{system}_blank"
            rows[blanks[system]] = seeds_of(f"blank_{tag}_{system}", benchmark.seeds)
        ranked.append(system)
    baseline = "harp" if "harp" in transformers else label
    table = comparison(
        f"table_{tag}",
        rows,
        qrels=benchmark.qrels,
        measures=benchmark.measures,
        baseline=baseline,
        chance=ranked[-1],
        blank=blanks,
        options=benchmark.evaluation(),
    )
    return [*commands, table]


def _lexical(system: str, tag: str, run: str, benchmark: Benchmark) -> list[Command]:
    """The steps of a row without neural networks; its run is the last one."""
    name, candidates = f"{tag}_{system}", [f"--run={run}"]
    if system in ("bm25", "ql"):
        return benchmark.lexical(system, name, candidates)
    if system == "bm25f":
        return benchmark.lexical(system, name, [*candidates, "--anchors={anchors}"])
    if system == "expanded":
        return benchmark.lexical("bm25", name, [*candidates, "--anchors={anchors}"])
    source = ["--anchors={anchors}"] if system == "inlinks" else [f"--docs={benchmark.docs}", "--fields=body"]
    prior = [*candidates, f"--feature={system}", *source, "--output={out}"]
    both = [run, "{prior_" + name + "}"]
    fitting = {"qrels": benchmark.qrels, "folds": benchmark.fold_file, "measure": benchmark.measure}
    return [
        Command(f"prior_{name}", "priors", prior, suffix=".trec"),
        fitted_sum(name, both, **fitting, options=["--normalise=none"]),
    ]
