"""Representative Words Prediction, a control (PROP, Ma et al., WSDM 2021; B-PROP, SIGIR 2021).

Two word sets of equal length are drawn from a page's language model; the more likely one is the better query.

p(w|C), the language model of the collection, is counted first. The number of words grows with the corpus: English Wikipedia has
millions. A join sums their counts by ranges of their hashes, and the ranges are written one after another into arrays that all
workers map into memory: no process holds more than one range.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_PAGES, ALL_WEIGHTS, LINKS, Config, Engine, Job, Outputs
from data_pipeline.engine.store import bucket_parts, buckets, read, rows
from data_pipeline.engine.tables import unpack
from data_pipeline.tasks.sampling import NoPair, probabilities, shuffled, without_replacement
from data_pipeline.tasks.task import PagePair, PairTokens, Setup, Task, setup_of
from data_pipeline.text.terms import Terms, Word, unpack_words
from data_pipeline.weights.tokenised import from_bytes, in_links
from harp_jax.base.files import replacing
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
# Maximum draws per word of a set; only a corpus of a handful of words needs more.
PATIENCE = 100


# Shares of attention are summed as integers, so that the sums do not depend on the order; 2³¹ pages fit 63 bits.
UNIT = 1 << 32
RANGE_BITS = 7

TERM_TOTALS_SQL = """
    SELECT word, MIN(text) AS text, CAST(SUM(n) AS BIGINT) AS n, part AS bucket FROM term_counts GROUP BY word, part
"""


class Smoothed:
    """The Dirichlet-smoothed language model of a page: p(w|D) = (c(w; D) + μ p(w|C)) / (|D| + μ); μ is the mean |D|."""

    def __init__(self, counts: Mapping[Word, int], collection: "TermCollection", mu: float) -> None:
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

    def __init__(self, shares: Mapping[Word, float], collection: "TermCollection") -> None:
        self.gamma = {word: -p * float(np.log2(collection.share(word))) for word, p in shares.items()}
        self.words = list(shares)
        self._p = probabilities(np.fromiter(self.gamma.values(), np.float64, len(self.words)), "softmax")

    def sample(self, rng: np.random.Generator, count: int) -> list[Word]:
        """`count` distinct words of the page; NoPair if it has fewer."""
        if len(self.words) < count:
            raise NoPair("page-has-too-few-terms")
        return [self.words[i] for i in without_replacement(rng, self._p, count)]

    def log_likelihood(self, words: Sequence[Word]) -> float:
        """Σ γ_w."""
        return float(sum(self.gamma[word] for word in words))


def sides(model: Smoothed | Contrastive, document: Sequence[int], setup: Setup, rng: np.random.Generator) -> PairTokens:
    """(S⁺, D) against (S⁻, D): two sets of l words (l as in HARP Eq. 4), the more likely one first; words in random order.

    NoPair("no-contrast") if they are equally likely.
    """
    length = setup.sampler.length(rng)
    sets = [model.sample(rng, length) for _ in range(2)]
    # Sorted, so that equal sets have bitwise equal sums.
    one, two = (model.log_likelihood(sorted(words)) for words in sets)
    if one == two:
        raise NoPair("no-contrast")
    better, worse = sets if one > two else sets[::-1]
    return PairTokens(setup.terms.ids(shuffled(rng, better)), document, setup.terms.ids(shuffled(rng, worse)), ())


def contrastive(c: Config) -> bool:
    return c["prop_distribution"] == "contrastive"


def prepare(engine: Engine) -> None:
    """Counts the terms of the collection."""
    job = engine.job
    engine.map("term counts", count_terms, bucket_parts(job, tables.PASSAGES))
    engine.join(tables.TERM_TOTALS, TERM_TOTALS_SQL, [tables.TERM_COUNTS], partitioned=True)
    folder = os.path.join(job.work, "collection")
    if not os.path.exists(os.path.join(folder, "complete")):
        save(job, folder, engine.query("SELECT COUNT(*) FROM passages", [tables.PASSAGES])[0][0])


def count_terms(job: Job, number: int, payload: None) -> Outputs:
    """Map over the buckets of `passages`: how often each term occurs, or its shares of attention in units of 2⁻³²."""
    c, counts = job.config, dict[Word, int]()
    for _, _, amounts in _pages(job, number, setup_of(job).terms):
        for word, amount in amounts.items():
            counts[word] = counts.get(word, 0) + (round(amount * UNIT) if contrastive(c) else int(amount))
    return {tables.TERM_COUNTS: counted(counts)}


def counted(counts: dict[Word, int]) -> dict[str, list]:
    """The columns of `term_counts`. `part` is the range of the word's hash; ranges are ordered like the hashes."""
    hashes = [signed64("word", word) for word in counts]
    return {
        "word": hashes,
        "text": list(counts),
        "n": list(counts.values()),
        "part": [(hashed >> (64 - RANGE_BITS)) + (1 << (RANGE_BITS - 1)) for hashed in hashes],
    }


def save(job: Job, folder: str, pages: int) -> None:
    """Writes the rows of `term_totals`, ordered by hash, as the arrays of a `TermCollection`.

    words [terms] int64: hashes; ends [terms] int64: cumulated n; texts [Σ] uint8: all words in UTF-8; offsets [terms + 1] int64:
    where each word begins.
    """
    ranges = buckets(job, tables.TERM_TOTALS)
    terms = total = ended = began = 0
    for part in ranges:
        lengths = _lengths(read(job, tables.TERM_TOTALS, part, ["text"]))
        terms, total = terms + len(lengths), total + int(lengths.sum())
    with contextlib.ExitStack() as stack:

        def begin(name: str, length: int, dtype: DTypeLike = np.int64) -> IO[bytes]:
            file = stack.enter_context(replacing(os.path.join(folder, f"{name}.npy"), "wb"))
            header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (length,)}
            np.lib.format.write_array_header_1_0(file, header)
            return file

        words, ends = begin("words", terms), begin("ends", terms)
        offsets, texts = begin("offsets", terms + 1), begin("texts", total, np.uint8)
        offsets.write(np.zeros(1, np.int64).tobytes())
        for part in ranges:
            totals = read(job, tables.TERM_TOTALS, part).sort_by("word")
            cumulated = ended + np.cumsum(totals.column("n").to_numpy())
            starts = began + np.cumsum(_lengths(totals))
            words.write(totals.column("word").to_numpy().tobytes())
            ends.write(cumulated.tobytes())
            offsets.write(starts.tobytes())
            for chunk in totals.column("text").chunks:
                texts.write("".join(chunk.to_pylist()).encode())
            ended, began = int(cumulated[-1]), int(starts[-1])
        begin("pages", 1).write(np.array([pages]).tobytes())
    with replacing(os.path.join(folder, "complete")) as file:
        file.write("done\n")


def _lengths(totals: pa.Table) -> np.ndarray:
    """Bytes of each row's word, [rows] int64."""
    import pyarrow.compute as pc

    return pc.binary_length(totals.column("text")).to_numpy().astype(np.int64)


class TermCollection:
    """p(w|C), the share of each term in all passages (B-PROP: its mean share of a page's attention), from the files of `save`."""

    def __init__(self, folder: str, shares: bool) -> None:
        def load(name: str) -> np.ndarray:
            return np.load(os.path.join(folder, f"{name}.npy"), mmap_mode="r")

        self.words, self.ends, self.offsets, self.texts = map(load, ("words", "ends", "offsets", "texts"))
        self.total = int(self.ends[-1]) if len(self.ends) else 0
        self.mean_length = 0.0 if shares else self.total / int(load("pages")[0])
        self._of_shares = int(load("pages")[0]) * UNIT if shares else self.total

    def share(self, word: Word) -> float:
        """p(w|C) of a word of the collection."""
        at = int(np.searchsorted(self.words, signed64("word", word)))
        return int(self.ends[at] - (self.ends[at - 1] if at else 0)) / self._of_shares

    def draw(self, rng: np.random.Generator) -> Word:
        """A word with probability p(w|C)."""
        at = int(np.searchsorted(self.ends, rng.integers(self.total), side="right"))
        return self.texts[self.offsets[at] : self.offsets[at + 1]].tobytes().decode()


def records(job: Job, number: int) -> Iterator[PagePair]:
    """`PAIRS` pairs of word sets for each page of a bucket."""
    setup, c = setup_of(job), job.config
    collection = TermCollection(os.path.join(job.work, "collection"), contrastive(c))
    pages = {row["doc"]: row for row in in_links(job, number)}
    for doc, tokens, amounts in _pages(job, number, setup.terms):
        page = pages[doc]
        if c["text_pages"] == "linked" and not page["in_links"]:
            continue
        if not amounts:
            yield PagePair(page["id"], page["id"], NoPair("page-has-too-few-terms"))
            continue
        model: Smoothed | Contrastive
        if contrastive(c):
            model = Contrastive(amounts, collection)
        else:
            model = Smoothed({word: int(n) for word, n in amounts.items()}, collection, collection.mean_length)
        for at in range(PAIRS):
            key = f"{page['id']}#{at}"
            try:
                pair = sides(model, tokens, setup, setup.rng(TASK.name, key))
            except NoPair as reason:
                yield PagePair(key, page["id"], reason)
                continue
            yield PagePair(key, page["id"], pair, page["in_links"])


def _pages(job: Job, number: int, terms: Terms) -> Iterator[tuple[int, list[int], dict[Word, float]]]:
    """(doc, tokens, amounts) of each passage: the counts of its terms, or their shares of the attention from [CLS]."""
    weights: dict[int, bytes] = {}
    if contrastive(job.config):
        weights = {row["doc"]: row["weights"] for row in read(job, tables.PASSAGE_WEIGHTS, number).to_pylist()}
    for row in rows(job, tables.PASSAGES, number):
        words = unpack_words(row["words"])
        # float16 stores tiny weights as 0; such a word keeps a small probability.
        each = np.maximum(from_bytes(weights[row["doc"]]), 2.0**-25).tolist() if weights else [1.0] * len(words)
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


def needs(c: Config) -> set[str]:
    return {LINKS, ALL_PAGES, *([ALL_WEIGHTS] if contrastive(c) else [])}


TASK = Task("prop", reads=tables.PASSAGES, needs=needs, fields=FIELDS, records=records, prepare=prepare)
