"""Trivial predictors of held-out pairs, for the manifest: how well a task is solved without understanding the text.

Each scores both sides and prefers the higher score; a tie counts one half. An accuracy far from .5, in either direction, is a
shortcut that a model learns first. `n` is reported, too: accuracies on small validation sets are unreliable.
"""

import os
from collections import Counter, defaultdict

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import Job, Outputs
from data_pipeline.engine.store import read
from data_pipeline.engine.tables import Row, unpack
from data_pipeline.text.terms import terms_of
from data_pipeline.weights.word_counts import FREQUENCY, WordCounts
from harp_jax.base.files import replacing

NAMES = ("overlap", "length", "query_only", "document_only", "in_links", "idf")


def save_tables(path: str, vocab_size: int, count_rows: list[tuple]) -> None:
    """Writes log p(token | positive) - log p(token | negative), [vocab] per task and text, one added to every count (naive Bayes).
    count_rows: (task, "pos_query" …, token, count)."""
    counts: defaultdict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.ones(vocab_size))
    for task, side, token, n in count_rows:
        counts[task, side][token] += n
    p = {name: count / count.sum() for name, count in counts.items()}
    odds = {
        f"{task}/{side.removeprefix('pos_')}": np.log(p[task, side]) - np.log(p[task, negative])
        for task, side in p
        if side.startswith("pos_") and (task, negative := side.replace("pos_", "neg_")) in p
    }
    with replacing(path, "wb") as file:
        np.savez(file, **odds)  # type: ignore[arg-type]


def predict(job: Job, number: int, payload: None) -> Outputs:
    """Map over `validation`: per task and predictor 2 · wins + ties, and the number of pairs. overlap: share of the query's words
    that the document contains; idf: their summed IDF, each once; length: tokens; query_only and document_only: summed log-odds.
    Words in the job's unit are compared: a word may have other tokens where a text begins."""
    odds = dict(np.load(os.path.join(job.work, "predictors.npz")))
    terms, frequency = terms_of(job.config), WordCounts(os.path.join(job.work, FREQUENCY))

    def total(name: str, tokens: np.ndarray) -> float:
        # Sorted, so that equal bags of tokens get equal sums.
        return float(odds[name][np.sort(tokens)].sum()) if name in odds else 0.0

    def scores(row: Row, side: str) -> dict[str, float]:
        query, doc = unpack(row[f"{side}_query"]), unpack(row[f"{side}_doc"])
        spans = terms.split([terms.tokenizer.decode(ids) for ids in (query, doc)], 2 * (len(query) + len(doc)))
        query_words, doc_words = (
            np.array([terms.hashed(word) for word in span.words], np.int64) for span, _, _ in spans
        )
        return {
            "overlap": float(np.isin(query_words, doc_words).mean()) if len(query_words) else 0.0,
            "length": float(len(query) + len(doc)),
            "query_only": total(f"{row['task']}/query", query),
            "document_only": total(f"{row['task']}/doc", doc),
            "in_links": float(row[f"{side}_in_links"]),
            "idf": float(frequency.idf(np.intersect1d(query_words, doc_words)).sum()),
        }

    points, pairs = Counter[tuple[str, str]](), Counter[str]()
    for row in read(job, tables.VALIDATION, number).to_pylist():
        pairs[row["task"]] += 1
        positive, negative = scores(row, "pos"), scores(row, "neg")
        for name in NAMES:
            won, tied = positive[name] > negative[name], positive[name] == negative[name]
            points[row["task"], name] += 2 * won + tied
    rows = [dict(task=task, predictor=name, points=p, n=pairs[task]) for (task, name), p in points.items()]
    return {tables.PREDICTIONS: rows}
