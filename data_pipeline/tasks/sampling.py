"""Sampling words by their weights: HARP Eq. 2 to 5.

Weights are attention shares below 1, so the softmax of Eq. 3 is close to uniform (`weighting="normalised"` is sharper). It runs
over the words of the text: over the whole vocabulary, as printed, nearly all mass would fall on words that do not occur.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from data_pipeline.text.terms import Word


class NoPair(Exception):
    """A pair that cannot be built; the argument is the reason, a short slug."""


@dataclass(frozen=True)
class Weighted:
    """A text as words with their attention weights: α of Eq. 1 or 5, [words]."""

    words: Sequence[Word]
    weights: np.ndarray


@dataclass(frozen=True)
class Sampler:
    """The choices that the equations leave open, from the config."""

    is_term: Callable[[Word], bool]
    query_length: float = 3.0
    weighting: str = "softmax"
    context_in_page: bool = False
    anchor_in_context: bool = False
    attention_scale: float = 1.0
    sampling: str = "paper"

    @property
    def official(self) -> bool:
        return self.sampling == "official"  # as in the authors' code

    def length(self, rng: Generator) -> int:
        """l ~ Poisson(λ) given l ≥ 1 (Eq. 4, whose printed form diverges because the factorial is missing). The authors' code:
        int(N(λ, 1)) given l ≥ 1."""
        while True:
            drawn = rng.normal(self.query_length) if self.official else rng.poisson(self.query_length)
            if (length := int(drawn)) >= 1:
                return length

    def distribution(self, text: Weighted, excluded: Collection[Word]) -> tuple[list[Word], np.ndarray]:
        """The distinct terms of a text in order of first occurrence, and p over them (Eq. 2 and 3). β_w = Σ α over the occurrences
        of w; p = softmax(β), or β/Σβ. Excluded words (the anchor's, Eq. 5) are removed before normalising: with a weight of 0 the
        softmax would still sample them."""
        beta: dict[Word, float] = {}
        for word, alpha in zip(text.words, text.weights.tolist()):
            if word in beta:
                beta[word] += alpha
            elif word not in excluded and self.is_term(word):
                beta[word] = alpha
        weights = self.attention_scale * np.fromiter(beta.values(), np.float64, len(beta))
        return list(beta), probabilities(weights, self.weighting)

    def sample(self, rng: Generator, text: Weighted, excluded: Collection[Word], count: int, source: str) -> list[Word]:
        """`count` terms of the text, distinct unless `official`; NoPair, naming the source, if there are too few."""
        words, p = self.distribution(text, excluded)
        if len(words) < (1 if self.official else count):
            raise NoPair(f"{source}-has-too-few-terms")
        if self.official:
            return [words[i] for i in rng.choice(len(p), size=count, p=p)]
        return [words[i] for i in without_replacement(rng, p, count)]

    def query(self, rng: Generator, context: list[Word], anchor: list[Word]) -> list[Word]:
        """Sampled words and the anchor's, in random order: the anchor's position must not distinguish S1 from S2. In the authors'
        code the anchor comes last."""
        return context + anchor if self.official else shuffled(rng, anchor + context)

    def excluded(self, anchor: Collection[Word], negative: bool = False) -> set[Word]:
        """The words that are not drawn beside an anchor, or for the `negative` S2: the anchor's. The paper excludes them from S2
        alone (Eq. 5), the authors' code from nothing."""
        drawn = self.official or (self.anchor_in_context and not negative)
        return set() if drawn else set(anchor)

    def ranking(self, rng: Generator, text: Weighted, excluded: Collection[Word]) -> list[Word]:
        """All terms in the order they are drawn; the first ones that belong to a set are a sample from that set."""
        words, p = self.distribution(text, excluded)
        return [words[i] for i in without_replacement(rng, p, len(words))]


def probabilities(beta: np.ndarray, weighting: str) -> np.ndarray:
    """p over distinct words from their weights β (Eq. 3)."""
    if not len(beta):
        return beta
    if weighting == "softmax":
        p = np.exp(beta - beta.max())
    else:
        # float16 stores tiny weights as 0; such a word keeps a small probability.
        share = np.maximum(beta, 2.0**-25)
        p = share / share.max()  # in two divisions, so that jobs keep their bytes
    return p / p.sum()


def without_replacement(rng: Generator, p: np.ndarray, count: int) -> list[int]:
    """Indices of successive draws from p without replacement: the top of log p + Gumbel noise."""
    with np.errstate(divide="ignore"):
        keys = np.log(p) + rng.gumbel(size=len(p))
    return np.argsort(-keys, kind="stable")[:count].tolist()


def shuffled(rng: Generator, words: Sequence[Word]) -> list[Word]:
    return [words[i] for i in rng.permutation(len(words))]
