"""Finds tasks that a run solves no better than a trivial predictor, such as document length."""

import math
from collections.abc import Mapping

WORDS = {
    "overlap": "word overlap", "length": "length", "query_only": "the query's words", "document_only": "the document's words",
    "in_links": "the number of in-links", "idf": "overlap weighed by IDF",
}  # fmt: skip


def not_beaten(metrics: Mapping[str, float], trivial: Mapping[str, tuple[str, float]]) -> list[str]:
    """A sentence for each task whose held-out accuracy is not two standard errors above the best trivial predictor's.

    `metrics` has TASK_accuracy and TASK_pairs; `trivial` has the predictor's name and accuracy.
    """
    found = []
    for task, (name, best) in trivial.items():
        accuracy, pairs = metrics.get(f"{task}_accuracy"), metrics.get(f"{task}_pairs", 0.0)
        if accuracy is None or not pairs:
            continue
        if accuracy <= best + 2 * math.sqrt(best * (1 - best) / pairs):
            found.append(
                f"{task}: {accuracy:.2f} of {pairs:.0f} held-out pairs are right; {WORDS.get(name, name)} alone reaches {best:.2f}"
            )
    return found


def best_predictor(accuracies: Mapping[str, float]) -> tuple[str, float]:
    """Name and accuracy of the predictor furthest from .5; one that is mostly wrong is inverted."""
    name = max(accuracies, key=lambda name: abs(accuracies[name] - 0.5))
    return name, max(accuracies[name], 1 - accuracies[name])
