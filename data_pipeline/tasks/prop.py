"""Representative Words Prediction, a control (PROP, Ma et al., WSDM 2021; B-PROP, SIGIR 2021).

Two word sets of equal length are drawn from a page's language model; the more likely one is the better query.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from data_pipeline.tasks.pair import Sides
from data_pipeline.tasks.sampling import NoPair, Sampler, probabilities, shuffled, without_replacement
from data_pipeline.text.terms import Word, join

TASK = "prop"
# Maximum draws per word of a set; only a corpus of a handful of words needs more.
PATIENCE = 100


class Collection(Protocol):
    """p(w|C), the share of a word in the collection (B-PROP: its mean share of a page's attention)."""

    def share(self, word: Word) -> float: ...

    def draw(self, rng: np.random.Generator) -> Word: ...


class Smoothed:
    """The Dirichlet-smoothed language model of a page: p(w|D) = (c(w; D) + μ p(w|C)) / (|D| + μ)."""

    def __init__(self, counts: Mapping[Word, int], collection: Collection, mu: float) -> None:
        self.counts, self.collection, self.mu = counts, collection, mu
        self.words = list(counts)
        self.length = sum(counts.values())
        self._ends = np.cumsum(np.fromiter(counts.values(), np.int64, len(counts)))

    def sample(self, rng: np.random.Generator, count: int) -> list[Word]:
        """`count` distinct words, drawn one by one from p(·|D) over the whole vocabulary; NoPair if there are too few.

        p(·|D) is a mixture: a word of the page with probability |D| / (|D| + μ), else a word of the collection.
        """
        drawn: dict[Word, None] = {}
        for _ in range(PATIENCE * count):
            if rng.random() * (self.length + self.mu) < self.length:
                at = int(np.searchsorted(self._ends, rng.integers(self.length), side="right"))
                drawn[self.words[at]] = None
            else:
                drawn[self.collection.draw(rng)] = None
            if len(drawn) == count:
                return list(drawn)
        raise NoPair("collection-has-too-few-terms")

    def log_likelihood(self, words: Sequence[Word]) -> float:
        """log p(S|D) = Σ log p(w|D)."""
        shares = [(self.counts.get(w, 0) + self.mu * self.collection.share(w)) / (self.length + self.mu) for w in words]
        return float(np.log(shares).sum())


class Contrastive:
    """B-PROP's contrastive distribution over a page's words, by divergence from randomness.

    p(w|D) = β_w / Σβ of the attention from [CLS]; γ_w = -p(w|D) log2 p(w|C), where p(w|C) is the mean of p(w|D') over all
    pages; words are drawn from softmax(γ), and a set scores Σ γ_w.
    """

    def __init__(self, shares: Mapping[Word, float], collection: Collection) -> None:
        self.gamma = {word: -p * float(np.log2(collection.share(word))) for word, p in shares.items()}
        self.words = list(shares)
        self._p = probabilities(np.fromiter(self.gamma.values(), np.float64, len(self.words)), "softmax", 1.0)

    def sample(self, rng: np.random.Generator, count: int) -> list[Word]:
        """`count` distinct words of the page; NoPair if it has fewer."""
        if len(self.words) < count:
            raise NoPair("page-has-too-few-terms")
        return [self.words[i] for i in without_replacement(rng, self._p, count)]

    def log_likelihood(self, words: Sequence[Word]) -> float:
        """Σ γ_w."""
        return float(sum(self.gamma[word] for word in words))


def sides(model: Smoothed | Contrastive, document: Sequence[int], sampler: Sampler, rng: np.random.Generator) -> Sides:
    """(S⁺, D) against (S⁻, D): two sets of l words (l as in HARP Eq. 4), the more likely one first; words in random order.

    NoPair("no-contrast") if they are equally likely.
    """
    length = sampler.length(rng)
    sets = [model.sample(rng, length) for _ in range(2)]
    # Sorted, so that equal sets have bitwise equal sums.
    one, two = (model.log_likelihood(sorted(words)) for words in sets)
    if one == two:
        raise NoPair("no-contrast")
    better, worse = sets if one > two else sets[::-1]
    return Sides(join(shuffled(rng, better)), document, join(shuffled(rng, worse)), None)
