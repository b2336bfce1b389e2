"""The six systems of the coarse-tuning paper on a collection, five trials each (its Tables 1 and 2), and the query probe (Table 3).

harp plan coarse_tuning --output=coarse --set collection=robust04

Tables 4 to 6, one row a setting, all else 1: --set samples=0.01,0.02,…,0.1 --set coarse_epochs=1 --set fine_epochs=1, then
coarse_epochs=1,2,3,4,5 and fine_epochs=1,2,3,4,5 in the same way. The paper chose its settings from these tables, on the queries
that it reports. A short trial: --set trials=1 --set continual_epochs=1.

BM25's top 1,000 is re-ranked by the model as pre-trained, coarse-tuned, fine-tuned, continually pre-trained + fine-tuned, and
coarse-tuned + fine-tuned. In the current folder: bert-tiny/ (a Hugging Face directory), orcas.tsv, msmarco-docs.tsv, and
COLLECTION/{docs.jsonl, queries.tsv, qrels.txt, folds.tsv}, the last with the paper's number of folds (below); any other collection
needs --set folds and fine_epochs. Fine-tuning classifies the judged pairs of the other folds; levels above 1 count as 1. Every
system is compared with the fine-tuned one by a two-sided paired t-test over queries, trials averaged per query, robust to queries
that share relevant documents (harp_jax/evaluation/significance.py).

The files probe_….jsonl have, and the terminal counts, which words the models expect in a document's query: the four columns of
Table 3, over many documents instead of one, and continual pre-training. Fine-tuned models are probed in their first trial and
fold; fine-tuning leaves the MLM head unchanged. The settings below are the paper's, warmup and its linear decay ours.

Hardware: one GPU; not run yet: the collections and ORCAS are not available here. A small run on other data is in tests/experiments.
"""

import itertools
import os
from collections.abc import Mapping
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.config import load_config
from harp_jax.experiments.benchmark import FOLDED, Bench, Benchmark, Runs
from harp_jax.ranking.first_stage import Candidates, first_stage_files
from harp_jax.ranking.rerank import rerank_files
from harp_jax.training.recorded import train

FINE_TUNING = {"robust04": (3, 4), "gov2": (1, 3), "covid": (5, 5), "dl": (4, 2)}  # epochs, folds
COARSE, MARKS = "coarse_tune_orcas", ("[unused0]", "[unused1]")
MEASURES = "RR nDCG@5 nDCG@15 nDCG@30 AP"
RECIPE: dict[str, Any] = {
    "rank_loss": "judged", "batch_pairs": 128, "row_length": 256, "learning_rate": 1e-3, "weight_decay": 0.01,
    "init_head": "pretrained",
}  # fmt: skip


def coarse_tuning(
    output: str,
    collection: str = "robust04",
    bert: str = "bert-tiny",
    clicks: str = "orcas.tsv",
    click_docs: str = "msmarco-docs.tsv",
    trials: int = 5,
    samples: tuple[float, ...] = (0.08,),
    coarse_epochs: tuple[float, ...] = (4.0,),
    continual_epochs: float = 40.0,
    fine_epochs: tuple[float, ...] = (0.0,),
    folds: int = 0,
    probe: int = 1000,
) -> None:
    """The six systems of the coarse-tuning paper on a collection, its grids, and its query probe.

    collection: folder of the collection; robust04, gov2, covid and dl use the paper's folds and epochs
    bert: Hugging Face directory that all systems start from
    clicks: click log with the four columns of ORCAS
    click_docs: documents of the click log
    trials: fine-tuning runs per system, with seeds 0, 1, …
    samples: shares of the click log; several: a row for each, as in Table 4
    coarse_epochs: epochs of coarse-tuning; several: a row for each, as in Table 5
    continual_epochs: epochs of continual pre-training
    fine_epochs: epochs of fine-tuning; several: a row for each, as in Table 6; 0: the paper's
    folds: number of folds of the collection, named 0, 1, …; 0: the paper's
    probe: number of documents to probe; 0: no query probe
    """
    from harp_jax.baselines.query_probe import probe_files

    known = FINE_TUNING.get(os.path.basename(os.path.normpath(collection)), (0, 0))
    tuned_for = {"" if len(fine_epochs) == 1 else f"_f{n:g}": n or float(known[0]) for n in fine_epochs}
    if not all(tuned_for.values()) or not (folds or known[1]):
        raise InputError(
            f"collection={collection} has no settings; give --set folds=… and --set fine_epochs=…, or one of "
            f"{', '.join(FINE_TUNING)}"
        )
    paths = (os.path.join(collection, name) for name in ("docs.jsonl", "queries.tsv", "qrels.txt", "folds.tsv"))
    docs, queries, qrels, division = paths
    benchmark = Benchmark(docs, queries, qrels, folds=division, measures=MEASURES, rerank=("max_length=256",))
    bench = Bench(output, benchmark, (bert, clicks, click_docs), first_stage=False)
    steps = bench.steps
    if (count := len(bench.fold_names)) != (folds or known[1]):
        raise InputError(f"{division} has {count} folds, not {folds or known[1]}; divide the queries again")
    bm25 = f"{output}/bm25.trec"
    steps("Rank with BM25", first_stage_files, Candidates(docs, k=1000), queries=queries, output=bm25)

    # Pre-trained, continually pre-trained on documents, coarse-tuned on queries and documents. A step at rate 0 changes nothing.
    starts: dict[str, dict[str, Any]] = {
        "pretrained": {"steps": 1, "learning_rate": 0.0},
        "continual": {"documents_only": True, "epochs": continual_epochs},
    }
    for sample, epochs in itertools.product(samples, coarse_epochs):
        name = "coarse" + f"_s{sample:g}" * (len(samples) > 1) + f"_e{epochs:g}" * (len(coarse_epochs) > 1)
        starts[name] = {"sample": sample, "epochs": epochs}
    source = {"init": bert, "clicks": clicks, "docs": click_docs}
    rows: dict[str, list[Runs]] = {"BM25": [{FOLDED: bm25}]}
    for name, fields in starts.items():
        steps(f"Train {name}", train, load_config(COARSE, source | fields), f"{output}/{name}")
        if name != "continual":
            run = f"{output}/{name}.trec"
            steps(f"Rank with {name}", rerank_files, f"{output}/{name}", docs, queries, bm25, run, bench.reranking)
            rows[name.replace("coarse", "coarse_tuned")] = [{FOLDED: run}]

    # Each of them fine-tuned in the collection's folds, several times.
    begins: dict[str, Mapping[str, Any]] = {
        "fine_tuned": {"init": bert},
        "cont_pre_fine": {"init": f"{output}/continual"},
    }
    for name in starts:
        if name.startswith("coarse"):
            begins[name.replace("coarse", "coarse_fine")] = {"init": f"{output}/{name}", "marks": MARKS}
    for (system, begin), (tag, epochs) in itertools.product(begins.items(), tuned_for.items()):
        for trial in range(trials):
            fields = {**begin, **RECIPE, "epochs": epochs, "seed": trial}
            ranked, _ = bench.ranker(f"{system}{tag}_t{trial}", fields, bm25)
            rows.setdefault(system + tag, []).append(ranked)

    # Which words the models expect in a query; fine-tuning leaves the MLM head unchanged.
    first = next(iter(tuned_for))
    models = (*starts, *(f"{system}{first}_t0_f{bench.tested[0]}" for system in begins if system != "cont_pre_fine"))
    for name in models if probe else ():
        model, report = f"{output}/{name}", f"{output}/probe_{name}.jsonl"
        counts = steps(f"Probe {name}", probe_files, model, click_docs, clicks, probe, report)
        print("\n".join(f"  {what}: {number}" for what, number in counts.items()))
    bench.table("table", rows, f"fine_tuned{first}", chance="BM25")
