"""Representative Document Prediction (HARP 3.2.3): of two pages linked in a sentence, the one with the more important anchor."""

import itertools

import numpy as np

from data_pipeline.tasks.pair import Passages, Request, Sentence, Sides
from data_pipeline.tasks.sampling import NoPair, Sampler, probabilities

TASK = "rdp"
# Weights are stored as float16 (11 bits); smaller relative differences are rounding errors.
RESOLUTION = 2.0**-10


def importance(
    sentence: Sentence, lengths: np.ndarray, direction: str = "from_cls", repeats: str = "summed"
) -> dict[str, tuple[float, int]]:
    """Anchor text → (η, destination of its first occurrence) in order of occurrence.

    γ of an occurrence is the attention from [CLS], averaged over the anchor's wordpieces (lengths [words]), or with "to_cls" from
    the anchor to [CLS] (Eq. 10, read literally). η is the sum of γ over the occurrences of the anchor text (Eq. 11), or γ of
    the "first".
    """
    eta: dict[str, tuple[float, int]] = {}
    for index, anchor in enumerate(sentence.anchors):
        if repeats == "first" and anchor.text in eta:
            continue
        span = slice(anchor.start, anchor.end)
        gamma = float(sentence.cls[span].sum() / lengths[span].sum())
        if direction == "to_cls":
            gamma = float(sentence.to_cls[index])
        total, destination = eta.get(anchor.text, (0.0, anchor.destination))
        eta[anchor.text] = (total + gamma, destination)
    return eta


def choose(
    eta: np.ndarray, destinations: list[int], sampler: Sampler, rng: np.random.Generator, contrast: bool = True
) -> tuple[int, int]:
    """Indices of two anchors, the more important one first.

    Both are sampled by p(a) of Eq. 11 without replacement; with `contrast` the second only among anchors with another page and
    another weight. NoPair("no-contrast") if there is none.
    """
    p = probabilities(sampler.attention_scale * eta, sampler.weighting, sampler.temperature)
    one = int(rng.choice(len(p), p=p))
    allowed = np.arange(len(p)) != one
    if contrast:
        allowed &= np.abs(eta - eta[one]) > RESOLUTION * np.maximum(eta, eta[one])
        allowed &= np.array([destination != destinations[one] for destination in destinations])
    rest = np.where(allowed, p, 0.0)
    if not rest.any():
        raise NoPair("no-contrast")
    other = int(rng.choice(len(p), p=rest / rest.sum()))
    return (one, other) if eta[one] >= eta[other] else (other, one)


def every_pair(eta: np.ndarray, destinations: list[int], contrast: bool) -> list[tuple[int, int]]:
    """All pairs of anchors, the more important one first; without `contrast` also ties and equal destinations."""
    pairs = []
    for one, other in itertools.combinations(range(len(eta)), 2):
        gap = abs(eta[one] - eta[other]) > RESOLUTION * max(eta[one], eta[other])
        if not contrast or (gap and destinations[one] != destinations[other]):
            pairs.append((one, other) if eta[one] >= eta[other] else (other, one))
    return pairs


def requests(
    sentence: Sentence,
    sampler: Sampler,
    rng: np.random.Generator,
    direction: str = "from_cls",
    repeats: str = "summed",
    pairs: str = "sampled",
    contrast: bool = True,
) -> list[Request]:
    """The sentence S as query, P1 preferred to P2 (Eq. 12); no request for a sentence with one anchor text.

    One pair, sampled by Eq. 11, or "all" pairs of the sentence.
    """
    lengths = np.array([len(word) for word in sentence.words])
    merged = importance(sentence, lengths, direction, repeats)
    if len(merged) < 2:
        return []
    eta = np.array([weight for weight, _ in merged.values()])
    destinations = [destination for _, destination in merged.values()]
    if pairs == "sampled":
        chosen = {sentence.key: choose(eta, destinations, sampler, rng, contrast)}
    else:
        every = every_pair(eta, destinations, contrast)
        chosen = {f"{sentence.key}+{more}>{less}": (more, less) for more, less in every}
    return [
        Request(TASK, key, sentence.page, destinations[more], sentence.tokens, negative=destinations[less])
        for key, (more, less) in chosen.items()
    ]


def sides(request: Request, passages: Passages, sampler: Sampler, rng: np.random.Generator) -> Sides:
    """(S, P1) against (S, P2)."""
    return Sides(request.query, passages.positive, None, passages.negative)
