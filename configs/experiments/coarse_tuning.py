"""The six systems of the coarse-tuning paper (its Tables 1 and 2) on one of its four collections, five trials each.

harp plan coarse_tuning --output=coarse --set collection=robust04

A short trial: --set trials=1 --set epochs=1.0. BM25's top 1,000 is re-ranked by the model as pre-trained, coarse-tuned,
fine-tuned, continually pre-trained + fine-tuned, and coarse-tuned + fine-tuned. In the current folder: bert-tiny/ (a Hugging
Face directory), orcas.tsv, msmarco-docs.tsv, and COLLECTION/{docs.jsonl, queries.tsv, qrels.txt, folds.tsv}, the last with the
paper's number of folds (below). Levels above 1 count as 1 (the measures' default). Every system is compared with the
fine-tuned one by a two-sided paired t-test over queries, trials averaged per query.

The paper tuned its epochs and its sample of ORCAS on the queries that it reports; the settings below are those. Hardware: one
GPU; not run yet: the collections and ORCAS are not at hand. A small run on other data is in tests/real.
"""

import os

from harp_jax.errors import InputError
from harp_jax.experiments.cross_validation import cross_validation
from harp_jax.experiments.plan import Command
from harp_jax.experiments.ranking_steps import Collection, comparison, output_of

FINE_TUNING = {"robust04": (3, 4), "gov2": (1, 3), "covid": (5, 5), "dl": (4, 2)}  # epochs, folds
COARSE, TUNE = "configs/coarse_tune_orcas.py", "configs/finetune.py"
MARKS = ["query_mark=[unused0]", "document_mark=[unused1]"]
MEASURES = "RR nDCG@5 nDCG@15 nDCG@30 AP"
CONTINUAL_EPOCHS = 40.0  # of the paper


def get_plan(collection: str = "robust04", trials: int = 5, epochs: float = 0.0) -> list[Command]:
    """Options:

    collection: folder of the collection, one of robust04, gov2, covid, dl
    trials: fine-tunings of each system, with seeds 0, 1, …
    epochs: of every training; 0: the paper's
    """
    if collection not in FINE_TUNING:
        raise InputError(f"collection={collection} has no settings; choose from {', '.join(FINE_TUNING)}")
    fine_tuning_epochs, folds = FINE_TUNING[collection]
    files = Collection(*(os.path.join(collection, file) for file in ("docs.jsonl", "queries.tsv", "qrels.txt")))
    recipe = [
        f"epochs={epochs or float(fine_tuning_epochs)}",
        "batch_pairs=128",
        "row_length=256",
        "learning_rate=1e-3",
    ]
    commands = [
        Command("bm25", "first-stage", [*files.options, "--k=1000", "--output={out}"], suffix=".trec"),
        # A step at rate 0 changes nothing: the pre-trained encoder with a fresh head, ready for export.
        coarse_tuned("pretrained", ["--config.steps=1", "--config.learning_rate=0.0"]),
        coarse_tuned("coarse", [f"--config.epochs={epochs}"] if epochs else []),
        coarse_tuned("continual", ["--config.documents_only=True", f"--config.epochs={epochs or CONTINUAL_EPOCHS}"]),
    ]
    for name in ("pretrained", "coarse"):
        commands += not_fine_tuned(name, files)
    systems = {"BM25": ["{bm25}"], "pretrained": ["{run_pretrained}"], "coarse_tuned": ["{run_coarse}"]}
    for system, start, marks in (
        ("fine_tuned", "bert-tiny", []),
        ("cont_pre_fine", "{continual}", []),
        ("coarse_fine", "{coarse}", MARKS),
    ):
        for trial in range(trials):
            commands += cross_validation(
                f"{system}_t{trial}",
                files,
                folds=os.path.join(collection, "folds.tsv"),
                fold_names=[str(fold) for fold in range(folds)],
                config=TUNE,
                candidates="{bm25}",
                settings=[f"seed={trial}", *marks, f"init={start}", *recipe, "init_head=pretrained"],
                rerank=["max_length=256"],
            )
        systems[system] = output_of(*(f"joined_{system}_t{trial}" for trial in range(trials)))
    table = comparison("table", systems, qrels=files.qrels, measures=MEASURES, baseline="fine_tuned", chance="BM25")
    return [*commands, table]


def coarse_tuned(name: str, arguments: list[str]) -> Command:
    return Command(name, "train", [f"--config={COARSE}", "--workdir={out}", *arguments])


def not_fine_tuned(name: str, files: Collection) -> list[Command]:
    """Re-ranks with a model that was trained on no judged query."""
    ranked = ["--model={model_" + name + "}", *files.options, "--run={bm25}", "--max_length=256", "--output={out}"]
    return [
        Command(f"model_{name}", "export", ["--workdir={" + name + "}", "--output={out}"]),
        Command(f"run_{name}", "rerank", ranked, suffix=".trec"),
    ]
