"""Trivial predictors of held-out pairs, for the manifest.

They show how well a task is solved without understanding the text. Each scores both sides and
prefers the higher score; a tie counts one half. An accuracy far from .5, in either direction, is a shortcut that a model learns
first. `n` is reported, too: accuracies on small validation sets are unreliable.
"""

import os
from typing import Any

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import Job, Outputs
from data_pipeline.engine.store import read
from data_pipeline.engine.tables import unpack
from data_pipeline.text.terms import Terms, terms_of
from data_pipeline.weights.artefact import FREQUENCY, DocumentFrequency
from harp_jax.base.files import replacing

NAMES = ("overlap", "length", "query_only", "document_only", "in_links", "idf")
Arrays = dict[str, Any]


def save_tables(path: str, vocab_size: int, count_rows: list[tuple]) -> None:
    """Writes the unigram log-odds of the positive against the negative side, [vocab] per task and text."""
    counts: Arrays = {}
    for task, side, token, n in count_rows:
        counts.setdefault(f"{task}/{side}", np.zeros(vocab_size))[token] = n
    pairs = {name: name.replace("/pos_", "/neg_") for name in counts if "/pos_" in name}
    odds = {
        name.replace("/pos_", "/"): log_odds(counts[name], counts[other])
        for name, other in pairs.items()
        if other in counts
    }
    with replacing(path, "wb") as file:
        np.savez(file, **odds)  # type: ignore[arg-type]


def log_odds(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Naive Bayes: log p(token | positive) - log p(token | negative), with one added to every count."""
    return np.log((positive + 1) / (positive + 1).sum()) - np.log((negative + 1) / (negative + 1).sum())


def predict(job: Job, number: int, payload: None) -> Outputs:
    """Map over `validation`: per task and predictor 2 · wins + ties, and the number of pairs."""
    c, arrays = job.config, dict(np.load(os.path.join(job.work, "predictors.npz")))
    terms = terms_of(c)
    frequency = DocumentFrequency(os.path.join(job.work, FREQUENCY))
    points: dict[tuple[str, str], list[int]] = {}
    for row in read(job, tables.VALIDATION, number).to_pylist():
        positive, negative = (
            scores(row["task"], unpack(row[f"{side}_query"]), unpack(row[f"{side}_doc"]), arrays, terms, frequency)
            | {"in_links": float(row[f"{side}_in_links"])}
            for side in ("pos", "neg")
        )
        for name in NAMES:
            entry = points.setdefault((row["task"], name), [0, 0])
            entry[0] += 2 if positive[name] > negative[name] else int(positive[name] == negative[name])
            entry[1] += 1
    rows = [dict(task=task, predictor=name, points=p, n=n) for (task, name), (p, n) in points.items()]
    return {tables.PREDICTIONS: rows}


def scores(
    task: str, query: np.ndarray, doc: np.ndarray, arrays: Arrays, terms: Terms, frequency: DocumentFrequency
) -> dict[str, float]:
    """The scores of one side by the predictors that read its tokens.

    overlap: share of the query's words that the document contains; idf: their summed IDF, each once; length: tokens; query_only
    and document_only: summed log-odds. Words in the job's unit are compared: a word may have other tokens where a text begins.
    """
    asked, told = (
        [terms.hashed(word) for word in span.words]
        for span, _, _ in terms.split(
            [terms.tokenizer.decode(ids) for ids in (query, doc)], 2 * (len(query) + len(doc))
        )
    )
    shared = np.intersect1d(np.array(asked, np.int64), np.array(told, np.int64))
    return {
        "overlap": float(np.isin(asked, told).mean()) if asked else 0.0,
        "length": float(len(query) + len(doc)),
        "query_only": _total(arrays.get(f"{task}/query"), query),
        "document_only": _total(arrays.get(f"{task}/doc"), doc),
        "idf": float(frequency.idf(shared).sum()),
    }


def _total(weights: np.ndarray | None, tokens: np.ndarray) -> float:
    # Sorted, so that equal bags of tokens get equal sums.
    return 0.0 if weights is None else float(weights[np.sort(tokens)].sum())
