"""HARP's Tables 2 to 4: systems on each run of candidates, with significance marks, chance and blank queries; cross-validation.

harp plan tables --output=tables --jobs=2 --set docs=docs.tsv --set queries=queries.tsv --set qrels=qrels.txt \\
    --set source=pages.jsonl --set encoder=minilm/ --set init=minilm/                                                    Table 2
… --set lexical= --set neural_rankers= --set ensembles=true --set transformers=none,mlm,prop,harp --set seeds=0,1,2        Table 3
… --set lexical= --set neural_rankers= --set transformers=none,mlm,harp,no_mlm,no_rqp,no_qdm,no_rdp,no_acm                 Table 4
… --set candidates=ANCE=ance.trec,BM25=bm25.trec                                                          one table for each run
harp plan tables --output=cv --set lexical= --set neural_rankers= --set transformers=none --set init=runs/harp …   one fine-tuning

Rows: the candidates; BM25 and QL, and what links say without training: BM25F with a field of anchor texts, BM25 over
documents expanded by their anchor texts, and the candidates' score with log in-links or log length added. These are tuned,
weights included, on the other folds; bm25f, expanded and inlinks read `source`. Then the neural rankers, and transformers
without pre-training and after MLM alone, ICT, WLP, PROP and HARP, each pre-trained with the same budget and fine-tuned in
the same way in every fold. `target_pairs` (harp generate, task prop, on the collection itself) adds PROP on the target
collection, as in the paper's PROP (MARCO). no_mlm, no_rqp and so on are HARP without that loss, with the same updates and
real tokens: the other tasks get its share.

`ensembles` adds, for each transformer, the sum with the candidates' score, weighted as is best on the other folds (+), the
mean of its seeds' normalised scores, and last the weighted sum of all transformers and the candidates. A gain of HARP that the
sum with BM25 closes was lexical. Table 3's row HARP (ensemble) is missing: it joins BERT, RoBERTa and ELECTRA on MS MARCO's eval
set, whose judgments are not public. The mean of the seeds is the nearest row; `harp fuse --method=mean` joins any runs.

Fine-tuned only: `sjtf`, which also predicts masked query tokens (configs/baselines/sjtf.py).

† marks values that differ from HARP (with `ensembles`, HARP with the candidates): p < .05 in both tests after Holm's correction.
By the first measure, a system may be flagged "not above chance" or "no better than with its query blanked" (`blank`). The claim
that pre-training from links helps rests on pairs without the judged documents: --set generation=exclude_destinations=judged.txt;
without it popularity explains part of the result. (The rows of anchor texts then lack the same links.)

Hardware: any; `--dry_run` prints the cost. The scale `tiny` (BERT-tiny, 600 updates) checks the pipeline on two cores and is far
too small to rank the systems. Figures: not run yet.
"""

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    BENCHMARK,
    NEURAL,
    NONE,
    NOT_PRETRAINED,
    PRETRAINING,
    Benchmark,
    Pretraining,
    check_known,
    comparison,
    fitted_sum,
    identifier,
    output_of,
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
    ensembles: bool = False,
) -> list[Command]:
    """Options:

    lexical: rows without neural networks
    neural_rankers: rows of neural rankers
    transformers: rows of transformers; none and sjtf are not pre-trained, recommended is the preset for small encoders
    target_pairs: finished PROP pairs from the target collection
    blank: transformers that also rank blank queries
    ensembles: add rows for sums with the candidates, over all seeds, and over all systems
    """
    check_known("lexical", lexical, LEXICAL)
    check_known("neural_rankers", neural_rankers, NEURAL)
    if ensembles and len(benchmark.tested) == 1:
        raise InputError("tested names one fold, but its weights are fitted on other tested folds; name two or more")
    commands = [*benchmark.prepared(), *pretraining.systems(transformers, benchmark.seeds)]
    if target_pairs:
        data = [f"data=('{target_pairs}',)"]
        commands += [pretraining.trained(f"pre_{TARGET}_s{seed}", "prop", seed, data) for seed in benchmark.seeds]
        transformers += (TARGET,)
    if not {"bm25f", "expanded", "inlinks"}.isdisjoint(lexical):
        commands.append(Command("anchors", "anchors", [*pretraining.source_options(), "--output={out}"], suffix=".tsv"))
    if neural_rankers:
        commands += benchmark.words()
    for label, run in benchmark.runs().items():
        tag = identifier(label)
        rows: dict[str, list[str]] = {label: [run]}
        for system in lexical:
            if (made := _lexical(system, tag, run, benchmark)) and system.upper() != label.upper():
                commands += made
                rows[system] = output_of(made[-1].name)
        blanks = {}
        for system in (*neural_rankers, *transformers):
            name = f"{tag}_{system}"
            for seed in benchmark.seeds:
                if system in neural_rankers:
                    commands += benchmark.neural_ranker(f"{name}_s{seed}", system, run, seed)
                else:
                    start = pretraining.start(system if system in NOT_PRETRAINED else f"pre_{system}_s{seed}")
                    commands += benchmark.transformer(f"{name}_s{seed}", run, seed, start, system in blank)
            rows[system] = seeds_of(f"joined_{name}", benchmark.seeds)
            if system in blank:
                blanks[system] = f"{system}_blank"
                rows[blanks[system]] = seeds_of(f"blank_{name}", benchmark.seeds)
            if ensembles and system in transformers:
                commands += _ensembles(label, run, system, rows, benchmark)
        if ensembles and len(transformers) > 1:
            together = [run, *(rows[system][0] for system in transformers)]
            commands.append(_sum(f"all_{tag}", together, benchmark))
            rows["all"] = output_of(f"all_{tag}")
        baseline = f"harp+{label}" if ensembles else "harp"
        table = comparison(
            f"table_{tag}",
            rows,
            qrels=benchmark.qrels,
            measures=benchmark.measures,
            baseline=baseline if "harp" in transformers else label,
            chance=(label, *neural_rankers, *transformers)[-1],
            blank=blanks,
            options=benchmark.evaluation(),
        )
        commands.append(table)
    return commands


def _ensembles(label: str, run: str, system: str, rows: dict[str, list[str]], benchmark: Benchmark) -> list[Command]:
    """The steps of a transformer's sums with the candidates and of the mean of its seeds; adds their rows."""
    name = f"{identifier(label)}_{system}"
    joined = rows[system]
    commands = [_sum(f"sum_{name}_s{seed}", [run, one], benchmark) for seed, one in zip(benchmark.seeds, joined)]
    rows[f"{system}+{label}"] = output_of(*(command.name for command in commands))
    if len(joined) > 1:
        mean = ["--method=mean", *joined, "--output={out}"]
        commands.append(Command(f"ensemble_{name}", "fuse", mean, suffix=".trec"))
        rows[f"{system} ensemble"] = output_of(f"ensemble_{name}")
    return commands


def _sum(name: str, runs: list[str], benchmark: Benchmark, options: tuple[str, ...] = ()) -> Command:
    fitting = {"qrels": benchmark.qrels, "folds": benchmark.fold_file, "measure": benchmark.measure}
    return fitted_sum(name, runs, **fitting, options=options)


def _lexical(system: str, tag: str, run: str, benchmark: Benchmark) -> list[Command]:
    """The steps of a row without neural networks; its run is the last one."""
    name, candidates = f"{tag}_{system}", [f"--run={run}"]
    if system in ("bm25", "ql"):
        return benchmark.lexical(system, name, candidates)
    if system in ("bm25f", "expanded"):
        model = "bm25" if system == "expanded" else system
        return benchmark.lexical(model, name, [*candidates, "--anchors={anchors}"])
    source = ["--anchors={anchors}"] if system == "inlinks" else [f"--docs={benchmark.docs}", "--fields=body"]
    prior = [*candidates, f"--feature={system}", *source, "--output={out}"]
    return [
        Command(f"prior_{name}", "priors", prior, suffix=".trec"),
        _sum(name, [run, *output_of(f"prior_{name}")], benchmark, ("--normalise=none",)),
    ]
