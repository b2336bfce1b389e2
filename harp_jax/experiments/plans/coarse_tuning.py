"""The six systems of the coarse-tuning paper on a collection, five trials each (its Tables 1 and 2), and the query probe (Table 3).

harp plan coarse_tuning --output=coarse --set collection=robust04

A short trial: --set trials=1 --set epochs=1.0. BM25's top 1,000 is re-ranked by the model as pre-trained, coarse-tuned,
fine-tuned, continually pre-trained + fine-tuned, and coarse-tuned + fine-tuned. In the current folder: bert-tiny/ (a Hugging
Face directory), orcas.tsv, msmarco-docs.tsv, and COLLECTION/{docs.jsonl, queries.tsv, qrels.txt, folds.tsv}, the last with the
paper's number of folds (below); any other collection needs --set folds and fine_epochs. Levels above 1 count as 1 (the measures'
default). Every system is compared with the fine-tuned one by a two-sided paired t-test over queries, trials averaged per query,
robust to queries that share relevant documents (harp_jax/evaluation/significance.py).

The steps probe_… print which words the models expect in a document's query: the four columns of Table 3, over many documents
instead of one, and continual pre-training. Fine-tuned models are probed in their first trial and fold; fine-tuning leaves the
MLM head unchanged. The settings below are the paper's.

Hardware: one GPU; not run yet: the collections and ORCAS are not available here. A small run on other data is in tests/real.
"""

import os

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import Collection, comparison, cross_validation, output_of

FINE_TUNING = {"robust04": (3, 4), "gov2": (1, 3), "covid": (5, 5), "dl": (4, 2)}  # epochs, folds
COARSE, TUNE = "configs/coarse_tune_orcas.py", "configs/finetune.py"
MARKS = ["marks=('[unused0]','[unused1]')"]
MEASURES = "RR nDCG@5 nDCG@15 nDCG@30 AP"
SAMPLE, COARSE_EPOCHS, CONTINUAL_EPOCHS = 0.08, 4.0, 40.0  # the paper's


def get_plan(
    collection: str = "robust04",
    bert: str = "bert-tiny",
    clicks: str = "orcas.tsv",
    click_docs: str = "msmarco-docs.tsv",
    trials: int = 5,
    epochs: float = 0.0,
    folds: int = 0,
    fine_epochs: float = 0.0,
    probe: int = 1000,
) -> list[Command]:
    """Options:

    collection: folder of the collection; robust04, gov2, covid and dl use the paper's folds and epochs
    bert: Hugging Face directory that all systems start from
    clicks: click log with the four columns of ORCAS
    click_docs: documents of the click log
    trials: fine-tuning runs per system, with seeds 0, 1, …
    epochs: epochs of every training; 0: the paper's
    folds: number of folds of the collection, named 0, 1, …; 0: the paper's
    fine_epochs: epochs of fine-tuning; 0: the paper's
    probe: number of documents to probe; 0: no query probe
    """
    known = FINE_TUNING.get(os.path.basename(os.path.normpath(collection)), (0, 0))
    tuned_for, count = epochs or fine_epochs or float(known[0]), folds or known[1]
    if not tuned_for or not count:
        raise InputError(
            f"collection={collection} has no settings; give --set folds=… and --set fine_epochs=…, or one of "
            f"{', '.join(FINE_TUNING)}"
        )
    files = Collection(f"{collection}/docs.jsonl", f"{collection}/queries.tsv", f"{collection}/qrels.txt")
    recipe = [f"epochs={tuned_for}", "batch_pairs=128", "row_length=256", "learning_rate=1e-3"]
    source = [f"--config.init={bert}", f"--config.clicks={clicks}", f"--config.docs={click_docs}"]
    commands = [
        Command("bm25", "first-stage", [*files.options, "--k=1000", "--output={out}"], suffix=".trec"),
        # A step at rate 0 changes nothing: the pre-trained encoder with a fresh head, ready for export.
        coarse_tuned("pretrained", [*source, "--config.steps=1", "--config.learning_rate=0.0"]),
        coarse_tuned(
            "continual",
            [*source, "--config.documents_only=True", f"--config.epochs={epochs or CONTINUAL_EPOCHS}"],
        ),
        coarse_tuned("coarse", [*source, f"--config.sample={SAMPLE}", f"--config.epochs={epochs or COARSE_EPOCHS}"]),
    ]
    for name in ("pretrained", "coarse"):
        commands += not_fine_tuned(name, files)
    systems = {"BM25": ["{bm25}"], "pretrained": ["{run_pretrained}"], "coarse_tuned": ["{run_coarse}"]}
    starts = [("fine_tuned", bert, []), ("cont_pre_fine", "{continual}", []), ("coarse_fine", "{coarse}", MARKS)]
    for system, start, marks in starts:
        for trial in range(trials):
            commands += cross_validation(
                f"{system}_t{trial}",
                files,
                folds=os.path.join(collection, "folds.tsv"),
                fold_names=[str(fold) for fold in range(count)],
                config=TUNE,
                candidates="{bm25}",
                settings=[f"seed={trial}", *marks, f"init={start}", *recipe, "init_head=pretrained"],
                rerank=["max_length=256"],
            )
        systems[system] = output_of(*(f"joined_{system}_t{trial}" for trial in range(trials)))
    trained = {"fine_tuned": "train_fine_tuned_t0_f0", "coarse_fine": "train_coarse_fine_t0_f0"}
    for name in ("pretrained", "continual", "coarse", *trained) if probe else ():
        known_queries = [f"--clicks={clicks}", f"--docs={click_docs}", f"--documents={probe}", "--output={out}"]
        model = "--model={" + trained.get(name, name) + "}"
        commands.append(Command(f"probe_{name}", "query-probe", [model, *known_queries], suffix=".jsonl"))
    table = comparison("table", systems, qrels=files.qrels, measures=MEASURES, baseline="fine_tuned", chance="BM25")
    return [*commands, table]


def coarse_tuned(name: str, arguments: list[str]) -> Command:
    return Command(name, "train", [f"--config={COARSE}", "--workdir={out}", *arguments])


def not_fine_tuned(name: str, files: Collection) -> list[Command]:
    """Re-ranks with a model trained without judged queries."""
    ranked = ["--model={model_" + name + "}", *files.options, "--run={bm25}", "--max_length=256", "--output={out}"]
    return [
        Command(f"model_{name}", "export", ["--workdir={" + name + "}", "--output={out}"]),
        Command(f"run_{name}", "rerank", ranked, suffix=".trec"),
    ]
