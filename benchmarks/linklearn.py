"""Queries per second of LinkLearn compared with BM25 over the same collection in memory: scoring reads precomputed tables.

python benchmarks/linklearn.py --docs=collection.jsonl.xz --queries=queries.tsv [--model=runs/linklearn] [--k=100] [--repeats=3]

Without --model the weights are untrained, which does not change the time. Both models rank all queries in turn; the medians
are printed.
"""

import argparse
import statistics
import time

import jax
import numpy as np

from harp_jax.baselines.linklearn import model as f
from harp_jax.baselines.linklearn.collection import Index, count
from harp_jax.baselines.linklearn.model import load
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_queries
from harp_jax.ranking.lexical import Bm25, InvertedIndex, Model, search


def untrained() -> f.LinkLearn:
    params = jax.tree.map(np.asarray, jax.device_get(f.init_params(0, 10)))
    return f.LinkLearn(params, {"tf": [1.0, 0.4], "idf": [5.0, 2.0], "length": [4.0, 1.0]})


def rate(model: Model, collection: InvertedIndex, queries: list[str], k: int) -> float:
    start = time.perf_counter()
    for query in queries:
        search(model, collection, query, k)
    return len(queries) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--docs", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--model", default="")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()

    docs = Documents.open(args.docs)
    queries = list(read_queries(args.queries).values())
    collection = InvertedIndex(docs.texts())
    start = time.perf_counter()
    index = Index(count(collection)).weigh(load(args.model) if args.model else untrained())
    indexed = time.perf_counter() - start
    models = {"BM25": Bm25(collection), "LinkLearn": index}
    rates: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(args.repeats):
        for name, model in models.items():
            rates[name].append(rate(model, collection, queries, args.k))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    print(
        f"{len(collection)} documents, {len(queries)} queries, k={args.k}; LinkLearn's index: {indexed:.1f} s after tokenising"
    )
    for name, found in rates.items():
        print(f"{name}: {medians[name]:.0f} queries/s (min {min(found):.0f}, max {max(found):.0f})")
    print(f"LinkLearn / BM25: {medians['LinkLearn'] / medians['BM25']:.2f}")


if __name__ == "__main__":
    main()
