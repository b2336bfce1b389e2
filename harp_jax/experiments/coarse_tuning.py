"""The six systems of the coarse-tuning paper on a collection, five trials each (its Tables 1 and 2), and the query probe (Table 3).

harp plan coarse_tuning --output=coarse --set collection=robust04

A short trial: --set trials=1 --set epochs=1.0. BM25's top 1,000 is re-ranked by the model as pre-trained, coarse-tuned,
fine-tuned, continually pre-trained + fine-tuned, and coarse-tuned + fine-tuned. In the current folder: bert-tiny/ (a Hugging
Face directory), orcas.tsv, msmarco-docs.tsv, and COLLECTION/{docs.jsonl, queries.tsv, qrels.txt, folds.tsv}, the last with the
paper's number of folds (below); any other collection needs --set folds and fine_epochs. Levels above 1 count as 1 (the measures'
default). Every system is compared with the fine-tuned one by a two-sided paired t-test over queries, trials averaged per query,
robust to queries that share relevant documents (harp_jax/evaluation/significance.py).

The files probe_….jsonl have, and the terminal counts, which words the models expect in a document's query: the four columns of
Table 3, over many documents instead of one, and continual pre-training. Fine-tuned models are probed in their first trial and
fold; fine-tuning leaves the MLM head unchanged. The settings below are the paper's.

Hardware: one GPU; not run yet: the collections and ORCAS are not available here. A small run on other data is in tests/real.
"""

import os
from collections.abc import Mapping
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.steps import Steps
from harp_jax.experiments.benchmark import FOLDED, Benchmark, Runs
from harp_jax.experiments.calls import configured, probe_queries, train
from harp_jax.ranking.first_stage import Candidates, first_stage_files
from harp_jax.ranking.rerank import rerank_files

FINE_TUNING = {"robust04": (3, 4), "gov2": (1, 3), "covid": (5, 5), "dl": (4, 2)}  # epochs, folds
COARSE, MARKS = "coarse_tune_orcas", ("[unused0]", "[unused1]")
MEASURES = "RR nDCG@5 nDCG@15 nDCG@30 AP"
SAMPLE, COARSE_EPOCHS, CONTINUAL_EPOCHS = 0.08, 4.0, 40.0  # the paper's


def coarse_tuning(
    output: str,
    collection: str = "robust04",
    bert: str = "bert-tiny",
    clicks: str = "orcas.tsv",
    click_docs: str = "msmarco-docs.tsv",
    trials: int = 5,
    epochs: float = 0.0,
    folds: int = 0,
    fine_epochs: float = 0.0,
    probe: int = 1000,
) -> None:
    """The six systems of the coarse-tuning paper on a collection, and its query probe.

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
    docs, queries, qrels, division = (
        os.path.join(collection, name) for name in ("docs.jsonl", "queries.tsv", "qrels.txt", "folds.tsv")
    )
    benchmark = Benchmark(docs, queries, qrels, folds=division, measures=MEASURES, rerank=("max_length=256",))
    benchmark.check(bert, clicks, click_docs)
    steps = Steps(output)
    on = benchmark.divided(steps)
    bm25 = f"{output}/bm25.trec"
    steps("Rank with BM25", first_stage_files, Candidates(docs, k=1000), queries=queries, output=bm25)

    # Pre-trained, continually pre-trained on documents, coarse-tuned on queries and documents. A step at rate 0 changes nothing.
    source = {"init": bert, "clicks": clicks, "docs": click_docs}
    starts: dict[str, Mapping[str, Any]] = {
        "pretrained": {"steps": 1, "learning_rate": 0.0},
        "continual": {"documents_only": True, "epochs": epochs or CONTINUAL_EPOCHS},
        "coarse": {"sample": SAMPLE, "epochs": epochs or COARSE_EPOCHS},
    }
    for name, fields in starts.items():
        steps(f"Train {name}", train, configured(COARSE, source | dict(fields)), f"{output}/{name}")
    rows: dict[str, list[Runs]] = {"BM25": [{FOLDED: bm25}]}
    for row, name in (("pretrained", "pretrained"), ("coarse_tuned", "coarse")):
        rows[row] = [{FOLDED: f"{output}/{name}.trec"}]
        steps(
            f"Rank with {name}",
            rerank_files,
            f"{output}/{name}",
            docs,
            queries,
            bm25,
            rows[row][0][FOLDED],
            benchmark.ranking,
        )

    # Each of them fine-tuned in the collection's folds, several times.
    recipe = {
        "epochs": tuned_for,
        "batch_pairs": 128,
        "row_length": 256,
        "learning_rate": 1e-3,
        "init_head": "pretrained",
    }
    begins: dict[str, dict[str, object]] = {
        "fine_tuned": {"init": bert},
        "cont_pre_fine": {"init": f"{output}/continual"},
        "coarse_fine": {"init": f"{output}/coarse", "marks": MARKS},
    }
    for system, begin in begins.items():
        rows[system] = [
            on.transformer(f"{system}_t{trial}", bm25, trial, {**begin, **recipe})[0] for trial in range(trials)
        ]

    # Which words the models expect in a query; fine-tuning leaves the MLM head unchanged.
    for name in ("pretrained", "continual", "coarse", "fine_tuned_t0_f0", "coarse_fine_t0_f0") if probe else ():
        counts = steps(
            f"Probe {name}",
            probe_queries,
            f"{output}/{name}",
            clicks,
            click_docs,
            probe,
            f"{output}/probe_{name}.jsonl",
        )
        print("\n".join(f"  {what}: {number}" for what, number in counts.items()))
    on.table("table", rows, "fine_tuned", chance="BM25")
