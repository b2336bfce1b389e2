"""Representative Document Prediction (HARP 3.2.3): prefer the page with the more important anchor in a sentence."""

import itertools

import numpy as np
from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, SENTENCES
from data_pipeline.tasks.sampling import NoPair, Sampler, probabilities
from data_pipeline.tasks.task import Request, Sentence, Setup, Task
from harp_jax.config import Field

FIELDS = {
    "rdp_direction": Field(
        "from_cls", 'Eq. 10: attention from [CLS] to the anchor, or from the anchor "to_cls"', ("from_cls", "to_cls")
    ),
    "rdp_pairs": Field(
        "sampled",
        'two anchors by Eq. 11, or "all" pairs of a sentence, including ties and equal destinations, of an anchor text\'s first '
        "occurrence (the authors' code)",
        ("sampled", "all"),
    ),
}
# Weights are stored as float16 (11 bits); smaller relative differences are rounding errors.
RESOLUTION = 2.0**-10


def importance(sentence: Sentence, direction: str = "from_cls", summed: bool = True) -> dict[str, tuple[float, int]]:
    """Anchor text → (η, destination of its first occurrence) in order of occurrence. γ of an occurrence is the attention from
    [CLS], averaged over the anchor's tokens, or with "to_cls" from the anchor to [CLS] (Eq. 10, read literally). η is the sum of γ
    over the occurrences of the anchor text (Eq. 11), or γ of the first one."""
    eta: dict[str, tuple[float, int]] = {}
    for index, anchor in enumerate(sentence.anchors):
        if not summed and anchor.text in eta:
            continue
        span = slice(anchor.start, anchor.end)
        gamma = float(sentence.cls[span].sum() / sentence.lengths[span].sum())
        if direction == "to_cls":
            gamma = float(sentence.to_cls[index])
        total, destination = eta.get(anchor.text, (0.0, anchor.destination))
        eta[anchor.text] = (total + gamma, destination)
    return eta


def choose(eta: np.ndarray, destinations: list[int], sampler: Sampler, rng: Generator) -> tuple[int, int]:
    """Indices of two anchors, the more important one first. Both are sampled by p(a) of Eq. 11 without replacement, the second only
    among anchors with another page and another weight. NoPair("no-contrast") if there is none."""
    p = probabilities(sampler.attention_scale * eta, sampler.weighting)
    one = int(rng.choice(len(p), p=p))
    allowed = np.arange(len(p)) != one
    allowed &= np.abs(eta - eta[one]) > RESOLUTION * np.maximum(eta, eta[one])
    allowed &= np.array([destination != destinations[one] for destination in destinations])
    rest = np.where(allowed, p, 0.0)
    if not rest.any():
        raise NoPair("no-contrast")
    other = int(rng.choice(len(p), p=rest / rest.sum()))
    return (one, other) if eta[one] >= eta[other] else (other, one)


def request(sentence: Sentence, setup: Setup, rng: Generator) -> list[Request]:
    """The sentence S as query, P1 preferred to P2 (Eq. 12); no request for a sentence with one anchor text. One pair, sampled by
    Eq. 11, or "all" pairs of the sentence."""
    sampled = setup.c["rdp_pairs"] == "sampled"
    merged = importance(sentence, setup.c["rdp_direction"], summed=sampled)
    if len(merged) < 2:
        return []
    eta = np.array([weight for weight, _ in merged.values()])
    destinations = [destination for _, destination in merged.values()]
    if sampled:
        chosen = {sentence.key: choose(eta, destinations, setup.sampler, rng)}
    else:
        pairs = itertools.combinations(range(len(eta)), 2)
        ordered = [(one, other) if eta[one] >= eta[other] else (other, one) for one, other in pairs]
        chosen = {f"{sentence.key}+{more}>{less}": (more, less) for more, less in ordered}
    return [
        Request(key, sentence.page, destinations[more], sentence.tokens, negative=destinations[less])
        for key, (more, less) in chosen.items()
    ]


TASK = Task(
    "rdp", reads=tables.SENTENCES, needs=lambda c: {LINKS, SENTENCES}, fields=FIELDS,
    attempts=lambda sentence, setup: [(sentence.key, (sentence,))], request=request,
)  # fmt: skip
