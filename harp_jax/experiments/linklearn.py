"""LinkLearn trained on Wikipedia's links, applied unchanged to Cranfield, compared with Okapi BM25 tuned twice, and QL.

harp plan linklearn --output=linklearn --set data=../shared/data

Systems: LinkLearn, also with negatives in proportion to their links, with RankNet's loss, and with table rows as further linked
documents; Okapi with K and B tuned on the same artificial task (other queries, as in the paper); BM25 and QL tuned on Cranfield's
own training folds, on which LinkLearn is not trained. The queries' own source documents are not candidates.

Hardware: 2 CPU cores, two at a time, four minutes per seed with 3,000 steps (1.4 million constraints). Figures:
docs/lab/linklearn.md.
"""

import os

from harp_jax.baselines.linklearn.model import rank_linklearn
from harp_jax.baselines.linklearn.train import train
from harp_jax.config import load_config
from harp_jax.experiments.benchmark import FOLDED, Bench, Benchmark, Runs

# In short abstracts every repetition counts.
GRIDS = {"bm25": {"k1": (0.6, 0.9, 1.2, 1.6, 2.0, 3.0, 4.0, 6.0)}, "ql": {}}
CONFIG, DEPTH = "baselines/linklearn", 1000


def linklearn(
    output: str,
    data: str = os.path.join("..", "shared", "data"),
    seeds: tuple[int, ...] = (0,),
    settings: tuple[str, ...] = (),
    linked: tuple[str, ...] = ("wiki/linked_pages.jsonl.xz", "wiki/collection.jsonl.xz"),
    rows: tuple[str, ...] = ("wiki/linked_table_rows.jsonl.xz",),
    redirects: tuple[str, ...] = ("wiki/redirects.tsv",),
    docs: str = "cranfield/docs.tsv",
    queries: str = "cranfield/queries.tsv",
    qrels: str = "cranfield/qrels.txt",
    exclude: str = "cranfield/source_documents.tsv",
) -> None:
    """LinkLearn trained on Wikipedia's links, applied to Cranfield, compared with Okapi, BM25 and QL.

    data: folder of all other paths
    seeds: random seeds of LinkLearn
    settings: fields for every training, as in steps=3000,hidden=(10,)
    linked: files of linked documents, JSONL, and of documents without links
    rows: more linked documents, for the system rows; empty: no such system
    redirects: files of alias<TAB>id lines for `linked`
    docs: documents of the collection
    queries: queries of the collection
    qrels: judgments of the collection
    exclude: file of qid<TAB>docid pairs to exclude from the candidates; empty: none
    """
    linked, rows, redirects = (tuple(os.path.join(data, path) for path in paths) for paths in (linked, rows, redirects))
    docs, queries, qrels, exclude = (path and os.path.join(data, path) for path in (docs, queries, qrels, exclude))
    benchmark = Benchmark(docs, queries, qrels, ("title", "body"), measures="P@10 Rprec AP nDCG@10", tune_for="AP")
    bench = Bench(output, benchmark, (exclude, *linked, *rows, *redirects), grouped=False, first_stage=False)

    # BM25 and QL are tuned on the collection's own folds.
    rankings: dict[str, list[Runs]] = {}
    for model, grid in GRIDS.items():
        rankings[model.upper()] = [bench.lexical(model, model, k=DEPTH, exclude=exclude, grid=grid)]

    # LinkLearn, and Okapi tuned on the same links, have not met the collection.
    systems: dict[str, dict[str, object]] = {
        "linklearn": {"ranking_svm_constraints": 20_000},
        "linked_negatives": {"negatives_from": "linked"},
        "ranknet": {"pair_loss": "logistic"},
        **({"rows": {"docs": (linked[0], *rows, *linked[1:])}} if rows else {}),
    }
    for name, fields in systems.items():
        for seed in seeds:
            training = {"docs": linked, "redirects": redirects, "seed": seed, **fields}
            model = f"{output}/{name}_s{seed}"
            bench.steps(f"Train {name}, seed {seed}", train, load_config(CONFIG, training, settings), model)
            for okapi in (False, True)[: 1 + (name == "linklearn")]:
                label = "okapi" if okapi else name
                ranked = f"{output}/{label}_s{seed}.trec"
                rank_linklearn(model, docs, queries, ranked, benchmark.fields, exclude=exclude, k=DEPTH, okapi=okapi)
                rankings.setdefault(label, []).append({FOLDED: ranked})
    bench.table("table", rankings, "okapi", chance="okapi")
