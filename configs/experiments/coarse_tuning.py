"""The six systems of the coarse-tuning paper (its Tables 1 and 2) on one of its four collections, five trials each.

HARP_COLLECTION=robust04 python -m harp_jax.experiments.plan --plan=configs/experiments/coarse_tuning.py --output=coarse

HARP_TRIALS=1 and HARP_EPOCHS=1.0 try the road out.

BM25's top 1,000 is re-ranked by the model as it is pre-trained, coarse-tuned, fine-tuned, continually pre-trained + fine-tuned,
and coarse-tuned + fine-tuned. In the current folder: bert-tiny/ (a Hugging Face directory), orcas.tsv, msmarco-docs.tsv, and
COLLECTION/{docs.jsonl, queries.tsv, qrels.txt, folds.tsv}, the last with the paper's number of folds (below). Levels above
1 count as 1 (the measures' default). Every system is compared with the fine-tuned one by a two-sided paired t-test over queries,
trials averaged per query.

The paper tuned its epochs and its sample of ORCAS on the queries that it reports; the settings below are those. Hardware: one
GPU; not yet run as it stands: the collections and ORCAS are not at hand. A small run on other data is in tests/real.
"""

import os
from argparse import Namespace

from harp_jax.experiments.plan import Command
from harp_jax.experiments.protocols import training

FINE_TUNING = {"robust04": (3, 4), "gov2": (1, 3), "covid": (5, 5), "dl": (4, 2)}  # epochs, folds
TRIALS = int(os.environ.get("HARP_TRIALS", "5"))
EPOCHS = os.environ.get("HARP_EPOCHS", "")  # of everything; empty: the paper's
COARSE, TUNE = "configs/coarse_tune_orcas.py", "configs/finetune.py"
MARKS = ["--config.query_mark=[unused0]", "--config.document_mark=[unused1]"]
MEASURES = "RR nDCG@5 nDCG@15 nDCG@30 AP"


def get_plan() -> list[Command]:
    collection = os.environ.get("HARP_COLLECTION", "robust04")
    epochs, folds = FINE_TUNING[collection]
    place = {
        name: os.path.join(collection, file) for name, file in (("docs", "docs.jsonl"), ("queries", "queries.tsv"))
    }
    place |= {"qrels": os.path.join(collection, "qrels.txt"), "folds": os.path.join(collection, "folds.tsv")}
    common = [f"--docs={place['docs']}", f"--queries={place['queries']}"]
    recipe = [
        f"epochs={EPOCHS or float(epochs)}",
        "batch_pairs=128",
        "row_length=256",
        "learning_rate=1e-3",
        "init_head=pretrained",
    ]
    arguments = Namespace(config=TUNE, run="{bm25}", rerank=["max_length=256"], **place)
    commands = [
        Command("bm25", "first-stage", [*common, "--k=1000", "--output={out}"], suffix=".trec"),
        # A step at rate 0 changes nothing: the pre-trained encoder with a fresh head, as an export.
        learned("pretrained", ["--config.steps=1", "--config.learning_rate=0.0"]),
        learned("coarse", [f"--config.epochs={EPOCHS}"] if EPOCHS else []),
        learned("continual", ["--config.documents_only=True", f"--config.epochs={EPOCHS or 40.0}"]),
    ]
    for name in ("pretrained", "coarse"):
        commands += as_it_is(name, common)
    systems = {"BM25": ["bm25"], "pretrained": ["run_pretrained"], "coarse_tuned": ["run_coarse"]}
    for system, start, marks in (
        ("fine_tuned", "bert-tiny", []),
        ("cont_pre_fine", "{continual}", []),
        ("coarse_fine", "{coarse}", MARKS),
    ):
        systems[system] = []
        for trial in range(TRIALS):
            runs = []
            arguments.set = [f"init={start}", *recipe]
            for fold in range(folds):
                others = tuple(str(other) for other in range(folds) if other != fold)
                extra = [f"--config.folds={place['folds']}", f"--config.train_folds={others!r}", *marks]
                only = [f"--folds={place['folds']}", f"--fold={fold}"]
                commands += training(f"{system}_t{trial}_f{fold}", arguments, trial, extra, only)
                runs.append("{run_" + f"{system}_t{trial}_f{fold}" + "}")
            joined = ["--method=join", *runs, "--output={out}"]
            commands.append(Command(f"joined_{system}_t{trial}", "fuse", joined, suffix=".trec"))
            systems[system].append(f"joined_{system}_t{trial}")
    shown = [f"{name}=" + ",".join("{" + run + "}" for run in runs) for name, runs in systems.items()]
    table = [
        *shown,
        f"--qrels={place['qrels']}",
        f"--measures={MEASURES}",
        "--baseline=fine_tuned",
        "--per_query={out}",
    ]
    return [*commands, Command("table", "evaluate", table, [place["qrels"]], ".tsv")]


def learned(name: str, arguments: list[str]) -> Command:
    return Command(name, "harp_jax.main", [f"--config={COARSE}", "--workdir={out}", *arguments], [COARSE])


def as_it_is(name: str, common: list[str]) -> list[Command]:
    """Re-ranks with a model that never saw a judged query."""
    ranked = ["--model={model_" + name + "}", *common, "--run={bm25}", "--max_length=256", "--output={out}"]
    return [
        Command(f"model_{name}", "harp_jax.export", ["--workdir={" + name + "}", "--output={out}"]),
        Command(f"run_{name}", "rerank", ranked, suffix=".trec"),
    ]
