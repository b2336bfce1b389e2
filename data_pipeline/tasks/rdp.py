"""Representative Document Prediction (HARP 3.2.3): of two pages that a sentence links to, the one that matters more in it."""

import numpy as np

from data_pipeline.sampling import Dropped, Sampler, probabilities
from data_pipeline.tasks import Passages, Request, Sentence, Sides

TASK = "rdp"
# Weights are stored as float16 (11 bits); a smaller relative gap is rounding, not importance.
RESOLUTION = 2.0**-10


def importance(sentence: Sentence, lengths: np.ndarray) -> dict[str, tuple[float, int]]:
    """Anchor text → (η, destination of its first occurrence) in order of occurrence.

    γ of an occurrence is the attention from [CLS] averaged over the anchor's wordpieces (Eq. 10; lengths [words] counts
    them), η the sum of γ over the occurrences of the same anchor text (Eq. 11).
    """
    eta: dict[str, tuple[float, int]] = {}
    for anchor in sentence.anchors:
        span = slice(anchor.start, anchor.end)
        gamma = float(sentence.cls[span].sum() / lengths[span].sum())
        total, destination = eta.get(anchor.text, (0.0, anchor.destination))
        eta[anchor.text] = (total + gamma, destination)
    return eta


def choose(eta: np.ndarray, destinations: list[int], sampler: Sampler, rng: np.random.Generator) -> tuple[int, int]:
    """Indices of two anchors, the more important one first.

    Both are sampled by p(a) of Eq. 11 without replacement, the second among those that lead to another page with another
    weight; Dropped("no-contrast") where there is none.
    """
    p = probabilities(eta, sampler.weighting, sampler.temperature)
    one = int(rng.choice(len(p), p=p))
    other_page = np.array([destination != destinations[one] for destination in destinations])
    distinct = np.abs(eta - eta[one]) > RESOLUTION * np.maximum(eta, eta[one])
    rest = np.where(other_page & distinct, p, 0.0)
    if not rest.any():
        raise Dropped("no-contrast")
    other = int(rng.choice(len(p), p=rest / rest.sum()))
    return (one, other) if eta[one] > eta[other] else (other, one)


def request(sentence: Sentence, sampler: Sampler, rng: np.random.Generator) -> Request | None:
    """The sentence S as the query, P1 over P2 (Eq. 12); None for a sentence with one anchor text."""
    lengths = np.array([len(word) for word in sentence.words])
    merged = importance(sentence, lengths)
    if len(merged) < 2:
        return None
    eta = np.array([weight for weight, _ in merged.values()])
    destinations = [destination for _, destination in merged.values()]
    more, less = choose(eta, destinations, sampler, rng)
    return Request(TASK, sentence.key, sentence.page, destinations[more], sentence.tokens, negative=destinations[less])


def sides(request: Request, passages: Passages, sampler: Sampler, rng: np.random.Generator) -> Sides:
    """(S, P1) against (S, P2)."""
    return Sides(request.query, passages.positive, None, passages.negative)
