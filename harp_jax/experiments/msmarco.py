"""MS MARCO's document ranking from the files as they are distributed, HARP's Tables 2, 3 and 4 on it, and Table 1 of its pairs.

harp plan msmarco --output=paper --set folder=msmarco
harp plan msmarco --output=paper --dry_run
harp plan table2 --output=paper … --set candidates=ANCE=train.trec --set test_candidates=dev=dev.trec,dl2019=dl.trec

One fine-tuning on the training queries is tested on dev, TREC DL 2019 and 2020. The folder has the files named below, compressed
(.gz) or not; all missing ones are listed before anything starts. The candidates are the official top 100 (`bm25=given`), those of
BM25 tuned here on training queries (`bm25=tuned`), or the runs that `candidates` and `test_candidates` name, such as ANCE's. Every
difference to HARP is tested on every measure, as in the paper. Experiments with the same output share pairs and trained systems.

The pairs come from the dump that configs/data/enwiki.py names, in the current folder (`source`), or are given (`pairs`). `table1`
makes them and prints their statistics; the paper's 2.64 tokens an RQP query cannot hold an anchor and other words.

Hardware: configs/tpu_v3.py has the hours of a pre-training (table2: five, table3: one, table4: six),
configs/finetune_msmarco_doc.py those of a fine-tuning. Figures: not run yet; the paper's HARP has MRR@100 .4472 on dev with ANCE's
candidates.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.base.steps import Steps
from harp_jax.config import load_config
from harp_jax.experiments.experiment import check_known
from harp_jax.experiments.tables import (
    NEURAL,
    NONE,
    NOT_PRETRAINED,
    PRETRAINING,
    SYSTEMS,
    TASKS,
    TRANSFORMERS,
    Benchmark,
    Pretraining,
    tables,
)

WITHOUT_A_LOSS = tuple(system for system in SYSTEMS if system.startswith("no_"))

PAPER = replace(PRETRAINING, source=(), source_config="data/enwiki:paper", init="bert-base-uncased", scale="full")
ENSEMBLE = ("roberta-base", "electra-base-discriminator")  # fine-tuned besides HARP in the paper's Table 3
DOCS = "msmarco-docs.tsv"
# Queries, judgments, top 100.
TRAIN = ("msmarco-doctrain-queries.tsv", "msmarco-doctrain-qrels.tsv", "msmarco-doctrain-top100")
TESTS = {
    "dev": ("msmarco-docdev-queries.tsv", "msmarco-docdev-qrels.tsv", "msmarco-docdev-top100"),
    "dl2019": ("msmarco-test2019-queries.tsv", "2019qrels-docs.txt", "msmarco-doctest2019-top100"),
    "dl2020": ("msmarco-test2020-queries.tsv", "2020qrels-docs.txt", "msmarco-doctest2020-top100"),
}
# Judged queries; those of training have one document each.
TRAINING, QUERIES = 367_013, {"dev": 5_193, "dl2019": 43, "dl2020": 45}
TOKENS = 24_800  # of 128 pairs, by the paper's Table 1
# Data sheet, devices, assumed dollars an hour.
RENTED = {"TPU v3-8": ("TPU v3", 8, 8.0), "H100": ("NVIDIA H100", 1, 3.0)}
PAIRS_COST = "pairs: 13 h and $20 on 32 cores, 1 h and $3 on an accelerator for the term weights, 250 GB of disk"
MSMARCO = Benchmark(finetune="finetune_msmarco_doc", measures="RR@100 RR@10 nDCG@10 nDCG@100")
RECIPROCAL = replace(MSMARCO, measures="RR@100 RR@10")
EVAL = "The paper's Table 3 is of MS MARCO's eval set, whose judgments are not public; this is dev. The ensemble is a mean."


def msmarco(
    output: str,
    pretraining: Pretraining = PAPER,
    benchmark: Benchmark = MSMARCO,
    folder: str = ".",
    tests: tuple[str, ...] = tuple(TESTS),
    bm25: str = "given",
    lexical: tuple[str, ...] = ("bm25", "ql"),
    transformers: tuple[str, ...] = (NONE, "mlm", "harp"),
    blank: tuple[str, ...] = ("harp",),
    dry_run: bool = False,
) -> None:
    """From MS MARCO's published files to dev, TREC DL 2019 and 2020.

    folder: folder of the official files
    tests: dev, dl2019, dl2020
    bm25: given: re-rank the official top 100; tuned: BM25's top `depth`, tuned on training queries
    lexical: rows without neural networks, which hold an index of all documents in memory
    transformers: rows of transformers, see `harp plan tables --help`
    blank: transformers that also rank blank queries
    dry_run: only print hours, GB and dollars, and check that all files are there
    """
    check_known("bm25", [bm25], ("given", "tuned"))
    if dry_run:
        print(costs(pretraining, benchmark, tests, transformers, len(blank)))
    benchmark = official(folder, benchmark, tests, pretraining, transformers, given=bm25 == "given")
    if not dry_run:
        tables(output, pretraining, benchmark, lexical, (), transformers, blank=blank, name="msmarco")


def costs(
    pretraining: Pretraining, benchmark: Benchmark, tests: Sequence[str], transformers: Sequence[str], blank: int
) -> str:
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
    sizes = size.layers, size.hidden, size.heads, int(encoder.shape.widening * size.hidden)
    shape = encoder.shape(encoder.vocabulary, *sizes, size.max_positions)
    seeds, systems = len(benchmark.seeds), len(set(transformers) - NOT_PRETRAINED.keys())
    rows, scored = TOKENS / FILL / pre.row_length, 2 * pre.batch_pairs
    step = step_flops(shape, rows, pre.row_length, scored / rows, max_predictions(pre.row_length))  # type: ignore[arg-type]
    pair = step_flops(shape, 1, tune.row_length, 1, 0)
    tuned = len(transformers) * seeds
    read = TRAINING * (1 + tune.negatives) * tune.epochs
    ranked = sum(QUERIES.get(test, 0) for test in tests) * benchmark.depth * (len(transformers) + blank) * seeds
    work = {
        f"pre-train {systems} × {seeds}": systems * seeds * pre.steps * step,
        f"fine-tune {len(transformers)} × {seeds}": tuned * read * pair,
        "rank": ranked * pair / 3,
    }
    lines = [f"{'at 40 % of the peak':<20}{'FLOPs':>9}" + "".join(f"{name:>22}" for name in RENTED)]
    for what, flops in [*work.items(), ("all", sum(work.values()))]:
        lines.append(f"{what:<20}{flops:>9.1e}")
        for kind, count, price in RENTED.values():
            hours = flops / (0.4 * count * PEAKS[kind].flops) / 3600
            lines[-1] += f"{hours:>11,.1f} h {f'${hours * price:,.0f}':>8}"
    state = 12 * 110e6 * 2 * (systems * seeds + tuned) / 1e9  # parameters and moments, two checkpoints
    lines += [PAIRS_COST] if systems and not pretraining.pairs else []
    lines.append(
        f"disk: MS MARCO 30 GB, checkpoints {state:.0f} GB; memory of an index of all documents (lexical): about 120 GB"
    )
    return "\n".join(lines)


def table1(output: str, pretraining: Pretraining = PAPER, tasks: tuple[str, ...] = TASKS) -> None:
    """HARP's Table 1: pairs, tokens and lengths of its four tasks beside the paper's.

    tasks: tasks of the pairs, HARP's and those of the controls
    """
    from data_pipeline.output.inspection import as_text, inspect

    text = as_text(inspect(pretraining.generated(Steps(output), tasks)))
    with replacing(f"{output}/table1.txt") as file:
        file.write(text + "\n")
    print(text)


def table2(
    output: str,
    pretraining: Pretraining = PAPER,
    benchmark: Benchmark = MSMARCO,
    folder: str = ".",
    lexical: tuple[str, ...] = ("bm25", "ql"),
    neural_rankers: tuple[str, ...] = NEURAL,
    transformers: tuple[str, ...] = TRANSFORMERS,
    target_pairs: str = "",
) -> None:
    """HARP's Table 2: all systems on MS MARCO dev and TREC DL 2019.

    folder: folder of the official files
    lexical: rows without neural networks, which hold an index of all documents in memory
    neural_rankers: rows of neural rankers
    transformers: rows of transformers, see `harp plan tables --help`
    target_pairs: finished PROP pairs from MS MARCO's documents, for PROP (MARCO)
    """
    benchmark = official(folder, benchmark, ("dev", "dl2019"), pretraining, transformers)
    rows = lexical, neural_rankers, transformers
    tables(output, pretraining, benchmark, *rows, target_pairs, name="table2")


def table3(
    output: str,
    pretraining: Pretraining = PAPER,
    benchmark: Benchmark = MSMARCO,
    folder: str = ".",
    ensemble: tuple[str, ...] = ENSEMBLE,
) -> None:
    """HARP's Table 3: HARP alone, and its ensemble with other encoders, on MS MARCO dev.

    folder: folder of the official files
    ensemble: encoders (Hugging Face directories, or workdirs of pre-training) that are fine-tuned and added to HARP's score
    """
    benchmark = official(folder, benchmark, ("dev",), pretraining, ("harp",))
    rows = (), (), ("harp",)
    tables(output, pretraining, benchmark, *rows, blank=(), others=ensemble, name="table3", remarks=(EVAL,))


def table4(
    output: str,
    pretraining: Pretraining = PAPER,
    benchmark: Benchmark = RECIPROCAL,
    folder: str = ".",
    transformers: tuple[str, ...] = (NONE, *WITHOUT_A_LOSS, "harp"),
) -> None:
    """HARP's Table 4: each pre-training loss left out once, on MS MARCO dev.

    folder: folder of the official files
    transformers: rows of transformers
    """
    benchmark = official(folder, benchmark, ("dev",), pretraining, transformers)
    tables(output, pretraining, benchmark, (), (), transformers, blank=(), name="table4")


def official(
    folder: str,
    benchmark: Benchmark,
    tests: Sequence[str],
    pretraining: Pretraining,
    transformers: Sequence[str],
    given: bool = True,
) -> Benchmark:
    """The benchmark with the official files of a folder; `given`: and their candidates, unless it names others.

    Raises InputError that lists all missing files, those of the corpus too.
    """
    check_known("tests", tests, tuple(TESTS))
    fixed = ("docs", "queries", "qrels", "folds", "tested", "test_queries", "test_qrels")
    if named := [name for name in fixed if getattr(benchmark, name) != getattr(MSMARCO, name)]:
        raise InputError(f"{named[0]} is read from folder={folder}; for a collection of your own: harp plan tables")
    queries, qrels, top = (os.path.join(folder, file) for file in TRAIN)
    paths = {name: [os.path.join(folder, file) for file in TESTS[name]] for name in tests}
    if bool(benchmark.candidates) != bool(benchmark.test_candidates):
        raise InputError("candidates and test_candidates go together: training needs the one, testing the other")
    if given and not benchmark.candidates:
        runs = tuple(f"{name}={files[2]}" for name, files in paths.items())
        benchmark = replace(benchmark, candidates=(f"official={top}",), test_candidates=runs)
    benchmark = replace(
        benchmark,
        docs=os.path.join(folder, DOCS),
        queries=queries,
        qrels=qrels,
        test_queries=tuple(f"{name}={files[0]}" for name, files in paths.items()),
        test_qrels=tuple(f"{name}={files[1]}" for name, files in paths.items()),
    )
    benchmark.check(*pretraining.files(transformers))
    return benchmark
