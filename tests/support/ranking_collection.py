"""A collection of 40 documents with a query of three words each, and the config that fine-tunes on it."""

from collections import Counter

import jax
import numpy as np

from harp_jax import config as configs
from harp_jax.base.randomness import generator
from harp_jax.input.lanes import Batches
from tests.support.synthetic import tokenizer

WORDS = [f"w{i}" for i in range(200)]
# For plans: forty judged queries with one relevant document each, and one without.
QRELS = {f"q{i}": {f"d{i}": 1} for i in range(40)} | {"none": {"d1": 0}}


def write_collection(path):
    """40 documents of 12 words; each query is 3 words of its document; candidates are all documents."""
    rng = generator("collection")
    documents = [rng.choice(WORDS, 12, replace=False) for _ in range(40)]
    (path / "docs.tsv").write_text("".join(f"d{i}\t\t\t{' '.join(d)}\n" for i, d in enumerate(documents)))
    queries = [" ".join(rng.choice(documents[i], 3, replace=False)) for i in range(40)]
    (path / "queries.tsv").write_text("".join(f"q{i}\t{q}\n" for i, q in enumerate(queries)))
    (path / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(40)))
    (path / "folds.tsv").write_text("".join(f"q{i}\t{i % 4}\n" for i in range(40)))
    run = [f"q{i} Q0 d{(i + j) % 40} {j + 1} {100 - j} bm25\n" for i in range(40) for j in range(20)]
    (path / "run.trec").write_text("".join(run))
    tokenizer().save(str(path / "tokenizer"))
    return path


def ranking_config(path, **changes):
    c = configs.finetune()
    c.tokenizer = str(path / "tokenizer")
    c.docs, c.queries, c.qrels = (str(path / name) for name in ("docs.tsv", "queries.tsv", "qrels.txt"))
    c.candidates, c.folds, c.train_folds = str(path / "run.trec"), str(path / "folds.tsv"), ("0", "1", "2")
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions, c.model.dropout = 1, 32, 2, 64, 0.0
    c.row_length, c.batch_pairs, c.window, c.lanes, c.negatives = 64, 32, 16, 2, 3
    c.steps, c.log_every, c.learning_rate = 10, 5, 1e-3
    c.update_from_flattened_dict(changes)
    return c


def scored_batch(stage, rows: int):
    """Initial parameters whose scores differ, and the first batch."""
    params = stage.start(stage.shape, jax.random.key(0))
    params["score"]["kernel"] = params["score"]["kernel"] * 2e3
    return params, Batches(stage.reader, stage.layout, range(2), stage.shares, rows, 0).make()[0]


def units_seen(stage) -> Counter:
    """How often a whole run trains on each query, counted in the training loop's batches."""
    seen: Counter = Counter()

    class CountingLayout:
        microbatches, plan = stage.layout.microbatches, stage.layout.plan

        def fill(self, groups, placements, lane):
            seen.update(groups[placement.group].sequences[0].query.tobytes() for placement in placements)
            return {"nothing": np.zeros(1)}

    batches = Batches(stage.reader, CountingLayout(), range(stage.reader.epochs.lanes), stage.shares, stage.window, 0)
    for _ in range(stage.steps):
        batches.make()
    return seen
