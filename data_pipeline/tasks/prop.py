"""Representative Words Prediction, a control (PROP, Ma et al., WSDM 2021; B-PROP, SIGIR 2021).

Two word sets of equal length are drawn from a page's language model; the more likely one is the better query.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_PAGES, ALL_WEIGHTS, LINKS, Config, Engine, Job, Outputs
from data_pipeline.engine.store import bucket_parts, read, rows
from data_pipeline.engine.tables import unpack
from data_pipeline.tasks.sampling import NoPair, probabilities, shuffled, without_replacement
from data_pipeline.tasks.task import Pair, PairTokens, Setup, Task, setup_of
from data_pipeline.text.terms import Terms, Word, unpack_words
from data_pipeline.weights.tokenised import from_bytes, in_links
from data_pipeline.weights.word_counts import UNIT, WordCounts
from harp_jax.base.randomness import signed64
from harp_jax.config import Field

FIELDS = {
    "prop_distribution": Field(
        "query_likelihood",
        'query likelihood with Dirichlet smoothing (PROP), or "contrastive" (B-PROP)',
        ("query_likelihood", "contrastive"),
    )
}
PAIRS = 5  # pairs of word sets per page
PATIENCE = 100  # maximum draws per word of a set; only a corpus of a handful of words needs more
COLLECTION = "collection.arrow"  # in the work directory
TERM_TOTALS_SQL = "SELECT word, MIN(text) AS text, CAST(SUM(n) AS BIGINT) AS n FROM term_counts GROUP BY word"


class Smoothed:
    """The Dirichlet-smoothed language model of a page: p(w|D) = (c(w; D) + μ p(w|C)) / (|D| + μ); μ is the mean |D|."""

    def __init__(self, counts: Mapping[Word, float], collection: WordCounts, mu: float) -> None:
        self.counts, self.collection, self.mu = counts, collection, mu
        self.words, self.length = list(counts), int(sum(counts.values()))
        self._ends = np.cumsum(np.fromiter(counts.values(), np.int64, len(counts)))

    def sample(self, rng: Generator, count: int) -> list[Word]:
        """`count` distinct words, drawn one by one from p(·|D) over the whole vocabulary; NoPair if there are too few. p(·|D) is a
        mixture: a word of the page with probability |D| / (|D| + μ), else a word of the collection."""
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
    """B-PROP's contrastive distribution over a page's words, by divergence from randomness. p(w|D) = β_w / Σβ of the attention from
    [CLS]; γ_w = -p(w|D) log2 p(w|C), where p(w|C) is the mean of p(w|D') over all pages; words are drawn from softmax(γ), and a set
    scores Σ γ_w."""

    def __init__(self, shares: Mapping[Word, float], collection: WordCounts) -> None:
        self.gamma = {word: -p * float(np.log2(collection.share(word))) for word, p in shares.items()}
        self.words = list(shares)
        self._p = probabilities(np.fromiter(self.gamma.values(), np.float64, len(self.words)), "softmax")

    def sample(self, rng: Generator, count: int) -> list[Word]:
        if len(self.words) < count:
            raise NoPair("page-has-too-few-terms")
        return [self.words[i] for i in without_replacement(rng, self._p, count)]

    def log_likelihood(self, words: Sequence[Word]) -> float:
        return float(sum(self.gamma[word] for word in words))


def sides(model: Smoothed | Contrastive, document: Sequence[int], setup: Setup, rng: Generator) -> PairTokens:
    """(S⁺, D) against (S⁻, D): two sets of l words (l as in HARP Eq. 4), the more likely one first; words in random order.
    NoPair("no-contrast") if they are equally likely."""
    if not model.words:
        raise NoPair("page-has-too-few-terms")
    length = setup.sampler.length(rng)
    sets = [model.sample(rng, length) for _ in range(2)]
    # Sorted, so that equal sets have bitwise equal sums.
    one, two = (model.log_likelihood(sorted(words)) for words in sets)
    if one == two:
        raise NoPair("no-contrast")
    better, worse = sets if one > two else sets[::-1]
    return PairTokens(setup.terms.ids(shuffled(rng, better)), document, setup.terms.ids(shuffled(rng, worse)), ())


def prepare(engine: Engine) -> None:
    """Counts the terms of the collection."""
    job, path = engine.job, os.path.join(engine.job.work, COLLECTION)
    engine.map("term counts", count_terms, bucket_parts(job, tables.PASSAGES))
    engine.join(tables.TERM_TOTALS, TERM_TOTALS_SQL)
    if not os.path.exists(path):
        WordCounts.save(path, read(job, tables.TERM_TOTALS), engine.query("SELECT COUNT(*) FROM passages")[0][0])


def count_terms(job: Job, number: int, payload: None) -> Outputs:
    """Map over the buckets of `passages`: how often each term occurs, or its shares of attention in units of 2⁻³²."""
    counts, unit = dict[Word, int](), UNIT if contrastive(job.config) else 1
    for _, _, amounts in _pages(job, number, setup_of(job).terms):
        for word, amount in amounts.items():
            counts[word] = counts.get(word, 0) + round(amount * unit)
    hashes = [signed64("word", word) for word in counts]
    return {tables.TERM_COUNTS: {"word": hashes, "text": list(counts), "n": list(counts.values())}}


def records(job: Job, number: int) -> Iterator[Pair]:
    """`PAIRS` pairs of word sets for each page of a bucket."""
    setup, c = setup_of(job), job.config
    collection = WordCounts(os.path.join(job.work, COLLECTION), contrastive(c))
    pages = {doc: (page, count) for doc, page, count in in_links(job, number)}
    for doc, tokens, amounts in _pages(job, number, setup.terms):
        page, count = pages[doc]
        if c["text_pages"] == "linked" and not count:
            continue
        model: Smoothed | Contrastive
        if contrastive(c):
            model = Contrastive(amounts, collection)
        else:
            model = Smoothed(amounts, collection, collection.mean_length)
        for at in range(PAIRS if amounts else 1):
            key = f"{page}#{at}" if amounts else page
            make = partial(sides, model, tokens, setup, setup.rng(TASK.name, key))
            yield Pair(key, page, make, count)


def _pages(job: Job, number: int, terms: Terms) -> Iterator[tuple[int, list[int], dict[Word, float]]]:
    """(doc, tokens, amounts) of each passage: the counts of its terms, or their shares of the attention from [CLS]."""
    weights: dict[int, bytes] = {}
    if contrastive(job.config):
        weights = {row["doc"]: row["weights"] for row in rows(job, tables.PASSAGE_WEIGHTS, number)}
    for row in rows(job, tables.PASSAGES, number):
        words = unpack_words(row["words"])
        # float16 stores tiny weights as 0; such a word keeps a small probability.
        each = np.maximum(from_bytes(weights[row["doc"]]), 2.0**-25).tolist() if weights else [1] * len(words)
        amounts: dict[Word, float] = {}
        for word, amount in zip(words, each):
            if word in amounts:
                amounts[word] += amount
            elif terms.is_term(word):
                amounts[word] = amount
        if weights:
            total = sum(amounts.values())
            amounts = {word: amount / total for word, amount in amounts.items()}
        yield row["doc"], unpack(row["tokens"]).tolist(), amounts


def contrastive(c: Config) -> bool:
    return c["prop_distribution"] == "contrastive"


TASK = Task(
    "prop", reads=tables.PASSAGES, fields=FIELDS, records=records, prepare=prepare,
    needs=lambda c: {LINKS, ALL_PAGES, *([ALL_WEIGHTS] if contrastive(c) else [])},
)  # fmt: skip
