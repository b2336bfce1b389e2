"""MS MARCO's document ranking from the files as they are distributed, HARP's Tables 2, 3 and 4 on it, and Table 1 of its pairs.

harp plan msmarco --output=paper --set folder=msmarco
harp plan msmarco --output=paper --dry_run
harp plan table2 --output=paper … --set candidates=ANCE=train.trec --set test_candidates=dev=dev.trec,dl2019=dl.trec

One fine-tuning on the training queries is tested on dev, TREC DL 2019 and 2020. The folder has the files that tables.py names,
compressed (.gz) or not; all missing ones are listed before anything starts. The candidates are the official top 100 (`bm25=given`),
those of BM25 tuned here on training queries (`bm25=tuned`), or the runs that `candidates` and `test_candidates` name, such as
ANCE's. Every difference to HARP is tested on every measure, as in the paper. Experiments with the same output share pairs and
trained systems.

The pairs come from the dump that configs/data/enwiki.py names, in the current folder (`source`), or are given (`pairs`). `table1`
makes them and prints their statistics; the paper's 2.64 tokens an RQP query cannot hold an anchor and other words.

Hardware: configs/tpu_v3.py has the hours of a pre-training (table2: five, table3: one, table4: six),
configs/finetune_msmarco_doc.py those of a fine-tuning. Figures: not run yet; the paper's HARP has MRR@100 .4472 on dev with ANCE's
candidates.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from harp_jax.base.files import replacing
from harp_jax.base.steps import Steps
from harp_jax.config import load_config
from harp_jax.experiments.benchmark import Benchmark
from harp_jax.experiments.pretraining import NONE, NOT_PRETRAINED, SYSTEMS, TASKS, Pretraining
from harp_jax.experiments.tables import tables

# Judged queries; those of training have one document each.
TRAINING, QUERIES = 367_013, {"dev": 5_193, "dl2019": 43, "dl2020": 45}
TOKENS = 24_800  # of 128 pairs, by the paper's Table 1
# Data sheet, devices, assumed dollars an hour.
RENTED = {"TPU v3-8": ("TPU v3", 8, 8.0), "H100": ("NVIDIA H100", 1, 3.0)}
PAIRS_COST = "pairs: 13 h and $20 on 32 cores, 1 h and $3 on an accelerator for the term weights, 250 GB of disk"
PAPER = Pretraining(source=(), source_config="data/enwiki:paper", init="bert-base-uncased", scale="full")
MSMARCO = Benchmark(folder=".", finetune="finetune_msmarco_doc", measures="RR@100 RR@10 nDCG@10 nDCG@100")
DEV = replace(MSMARCO, tests=("dev",))
EVAL = "The paper's Table 3 is of MS MARCO's eval set, whose judgments are not public; this is dev. The ensemble is a mean."


def table1(output: str, pretraining: Pretraining = PAPER, tasks: tuple[str, ...] = TASKS) -> None:
    """HARP's Table 1: pairs, tokens and lengths of its four tasks beside the paper's.

    tasks: tasks of the pairs, HARP's and those of the controls
    """
    from data_pipeline.output.inspection import as_text, inspect

    text = as_text(inspect(pretraining.generated(Steps(output), tasks)))
    with replacing(f"{output}/table1.txt") as file:
        file.write(text + "\n")
    print(text)


# HARP's Table 2: all systems on dev and TREC DL 2019.
table2 = partial(
    tables, pretraining=PAPER, benchmark=replace(MSMARCO, tests=("dev", "dl2019")), lexical=("bm25", "ql"), name="table2"
)  # fmt: skip
# HARP's Table 3: HARP alone, and its ensemble with the encoders `others`.
table3 = partial(
    tables, pretraining=PAPER, benchmark=DEV, lexical=(), neural_rankers=(), transformers=("harp",), blank=(),
    others=("roberta-base", "electra-base-discriminator"), name="table3", remarks=(EVAL,),
)  # fmt: skip
# HARP's Table 4: each pre-training loss left out once.
table4 = partial(
    tables, pretraining=PAPER, benchmark=replace(DEV, measures="RR@100 RR@10"), lexical=(), neural_rankers=(),
    transformers=(NONE, *(system for system in SYSTEMS if system.startswith("no_")), "harp"), blank=(), name="table4",
)  # fmt: skip


def msmarco(
    output: str,
    pretraining: Pretraining = PAPER,
    benchmark: Benchmark = MSMARCO,
    lexical: tuple[str, ...] = ("bm25", "ql"),
    neural_rankers: tuple[str, ...] = (),
    transformers: tuple[str, ...] = (NONE, "mlm", "harp"),
    blank: tuple[str, ...] = ("harp",),
    dry_run: bool = False,
) -> None:
    """From MS MARCO's published files to dev, TREC DL 2019 and 2020.

    lexical: rows without neural networks, which hold an index of all documents in memory
    neural_rankers: rows of neural rankers
    transformers: rows of transformers, see `harp plan tables --help`
    blank: transformers that also rank blank queries
    dry_run: only print hours, GB and dollars, and check that all files are there
    """
    if dry_run:
        print(costs(pretraining, benchmark, transformers, len(blank)))
        benchmark.checked(*pretraining.files(transformers))
    else:
        tables(output, pretraining, benchmark, lexical, neural_rankers, transformers, blank=blank, name="msmarco")


def costs(pretraining: Pretraining, benchmark: Benchmark, transformers: Sequence[str], blank: int) -> str:
    """Hours, GB and dollars of `msmarco` with the config's encoder and the published numbers of queries, from FLOPs. `blank`: the
    number of transformers that also rank blank queries."""
    from harp_jax.model.cross_encoder import step_flops
    from harp_jax.model.encoders.table import encoder_of
    from harp_jax.objectives.masking import max_predictions
    from harp_jax.training.dry_run import FILL
    from harp_jax.training.machine import PEAKS

    pre = load_config(pretraining.config, {}, pretraining.pretrain)
    tune = load_config(benchmark.finetune, {}, benchmark.settings)
    encoder, size = encoder_of(pre.model.model_type, pretraining.config), pre.model
    sizes = size.layers, size.hidden, size.heads, int(encoder.widening * size.hidden)
    shape = encoder(encoder.vocabulary, *sizes, size.max_positions)
    seeds, systems = len(benchmark.seeds), len(set(transformers) - NOT_PRETRAINED.keys())
    rows, scored = TOKENS / FILL / pre.row_length, 2 * pre.batch_pairs
    step = step_flops(shape, rows, pre.row_length, scored / rows, max_predictions(pre.row_length))  # type: ignore[arg-type]
    pair = step_flops(shape, 1, tune.row_length, 1, 0)
    read = TRAINING * (1 + tune.negatives) * tune.epochs
    ranked = sum(QUERIES.get(test, 0) for test in benchmark.tests) * benchmark.depth
    work = {
        f"pre-train {systems} × {seeds}": systems * seeds * pre.steps * step,
        f"fine-tune {len(transformers)} × {seeds}": len(transformers) * seeds * read * pair,
        "rank": ranked * (len(transformers) + blank) * seeds * pair / 3,
    }
    lines = [f"{'at 40 % of the peak':<20}{'FLOPs':>9}" + "".join(f"{name:>22}" for name in RENTED)]
    for what, flops in [*work.items(), ("all", sum(work.values()))]:
        lines.append(f"{what:<20}{flops:>9.1e}")
        for kind, count, price in RENTED.values():
            hours = flops / (0.4 * count * PEAKS[kind].flops) / 3600
            lines[-1] += f"{hours:>11,.1f} h {f'${hours * price:,.0f}':>8}"
    lines += [PAIRS_COST] if systems and not pretraining.pairs else []
    state = 12 * 110e6 * 2 * (systems + len(transformers)) * seeds / 1e9  # parameters and moments, two checkpoints
    memory = "memory of an index of all documents (lexical): about 120 GB"
    return "\n".join([*lines, f"disk: MS MARCO 30 GB, checkpoints {state:.0f} GB; {memory}"])
