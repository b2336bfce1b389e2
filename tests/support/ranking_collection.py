"""A collection of 40 documents with a query of three words each, and the config that fine-tunes on it."""

from collections import Counter
from dataclasses import replace

import jax

from harp_jax import config as configs
from harp_jax.base.randomness import generator
from harp_jax.input.lanes import Batches
from tests.support.synthetic import tokenizer

WORDS = [f"w{i}" for i in range(200)]
NAMES = ("tokens", "segment_ids", "token_type_ids")


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


def judged(path) -> dict[str, str]:
    """The fields of configs that name the collection's files."""
    names = {"docs": "docs.tsv", "queries": "queries.tsv", "qrels": "qrels.txt", "candidates": "run.trec"}
    return {field: str(path / name) for field, name in names.items()}


def ranking_config(path, **changes):
    c = configs.finetune()
    c.update(
        judged(path), tokenizer=str(path / "tokenizer"), folds=str(path / "folds.tsv"), train_folds=("0", "1", "2")
    )
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions, c.model.dropout = 1, 32, 2, 64, 0.0
    c.row_length, c.batch_pairs, c.window, c.lanes, c.negatives = 64, 32, 16, 2, 3
    c.steps, c.log_every, c.learning_rate = 10, 5, 1e-3
    c.update_from_flattened_dict(changes)
    return c


def scored_batch(stage, rows: int):
    """Initial parameters whose scores differ, and the first batch."""
    params = stage.start(stage.encoder.padded, jax.random.key(0))
    params["score"]["kernel"] = params["score"]["kernel"] * 2e3
    return params, Batches(replace(stage.source, window=rows), range(2)).make()[0]


def units_seen(stage) -> Counter:
    """How often a whole run trains on each query, counted in the training loop's batches."""
    seen: Counter = Counter()
    batches = Batches(stage.source, range(stage.source.reader.epochs.lanes))
    for batch in (batches.make()[0] for _ in range(stage.steps)):
        by_lane = {name: batch[name].reshape(len(batch["members"]), -1, batch[name].shape[-1]) for name in NAMES}
        for lane, groups in enumerate(batch["members"]):
            tokens, segments, types = (by_lane[name][lane] for name in NAMES)
            for row, seat in (
                divmod(members[0], stage.source.layout.sequences) for members in groups if members[0] >= 0
            ):
                seen[tokens[row][(segments[row] == seat + 1) & (types[row] == 0)].tobytes()] += 1
    return seen
