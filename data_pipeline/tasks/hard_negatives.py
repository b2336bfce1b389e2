"""Hard negatives: pages that the first stage's BM25 returns for an anchor.

A search over the whole corpus would need its index in every worker, and would return true synonyms of the positive first. Each
bucket searches a slice of the pages instead: its own bucket and the following ones, up to `SLICE` pages. Time and memory per
bucket do not depend on the size of the corpus.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import Engine, Job, Outputs
from data_pipeline.engine.store import buckets, read, rows
from data_pipeline.engine.tables import DropCounts, Row, pack, unpack
from data_pipeline.tasks.sampling import without_replacement
from data_pipeline.text.terms import Terms, pack_words, terms_of, unpack_words
from harp_jax.base.randomness import generator
from harp_jax.config import Field
from harp_jax.input.contrastive_groups import are_copies
from harp_jax.ranking import lexical
from harp_jax.text.languages import ENGLISH

FIELDS = {
    "negative_search": Field(
        "tokens",
        'BM25 finds hard negatives by the anchor\'s tokens, or by its "words" without stopwords: more then share a word with it',
        ("tokens", "words"),
    ),
    "hard_negatives": Field(
        1, "negatives per pair, for tasks whose negatives BM25 finds; training reads the first ones", (1, 100)
    ),
}
SLICE = 20_000  # pages that BM25 searches: a larger slice has harder negatives, but also more true answers
# Negatives are drawn from the best DEPTH pages, or DRAWN pages per negative if that is more.
DEPTH = 10
DRAWN = 3
MISSING = "no-page-shares-a-word-of-the-query"
POSITIVES_SQL = """
    SELECT r.task, r.key, p.signature, r.bucket FROM requests r JOIN passages p ON r.positive = p.doc
"""


class Slice:
    """Passages (`doc`, `in_links`, `signature`, `words`) with an index of their words, which `spell` turns into text."""

    def __init__(self, pages: list[tables.PassageRow], spell: Callable[[str], str], language: str) -> None:
        self.pages = pages
        self.docs = np.array([page["doc"] for page in pages], np.int64)
        self.in_links = np.array([page["in_links"] for page in pages], np.int64)
        self.signatures = unpack(b"".join(page["signature"] for page in pages)).reshape(-1, 2)  # tell copies
        self._index = lexical.InvertedIndex((("", spell(page["words"])) for page in pages), language)
        self._model = lexical.Bm25(self._index)

    def search(
        self, text: str, count: int, without: Sequence[int], positive: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Places of the best `count` pages that share a word with the text, except the pages `without` and near-equal copies of the
        page with the signature `positive` [2] int32; and the places of such copies among the best."""
        query = self._index.query(text)
        if not query:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        scores, matched = self._model.scores(query)
        matched &= ~np.isin(self.docs, without)
        best = lexical.top(np.where(matched, scores, -np.inf), count)
        copies = best[are_copies(self.signatures[best], positive)]
        if len(copies):
            matched &= ~are_copies(self.signatures, positive)
            best = lexical.top(np.where(matched, scores, -np.inf), count)
        return best, copies


def prepare(engine: Engine, task: str, popular: bool) -> None:
    """Makes the table `mined` of a task; draws in proportion to in-links if `popular`, as link destinations are, else uniformly."""
    engine.join(tables.POSITIVES, POSITIVES_SQL)
    parts = [(bucket, (task, popular)) for bucket in buckets(engine.job, tables.REQUESTS)]
    engine.map(f"{task} negatives", mine, parts)


def mine(job: Job, number: int, payload: tuple[str, bool]) -> Outputs:
    """Map over the buckets of `requests`: the negatives of each request of a task, if BM25 finds a page. BM25 searches for the
    anchor, not the query: the context often names another page of the sentence, which would become the negative of a query that
    describes it as well. Only if no page has a word of the anchor, BM25 searches for the query. The page that the query comes from
    is never a negative: it has all words of the query. Copies of the positive (another version of a manual, a mirror, a printable
    page) are left out and counted."""
    (task, popular), c = payload, job.config
    # The requests of the task. A positive without a signature is not shown: it makes no pair.
    signed = [row for row in read(job, tables.POSITIVES, number).to_pylist() if row["task"] == task]
    signatures = {row["key"]: unpack(row["signature"]) for row in signed}
    every = rows(job, tables.REQUESTS, number, ["task", "key", "page", "query", "anchor", "positive"])
    requests = [row for row in every if row["task"] == task and row["key"] in signatures]
    if not requests:
        return {tables.MINED: []}
    terms, count, search, dropped = terms_of(c), c["hard_negatives"], c["negative_search"], DropCounts()
    pages = slice_of(job, number, popular, terms)
    sources = {row["id"]: row["doc"] for row in read(job, tables.PAGES, number, ["doc", "id"]).to_pylist()}
    mined: list[Row] = []
    for row in requests:
        ids, without = unpack(row["query"]).tolist(), (row["positive"], sources[row["page"]])
        tokenizer, most = terms.tokenizer, max(DEPTH, DRAWN * count)
        query = [tokenizer.tokens[i] for i in ids] if terms.unit == "tokens" else tokenizer.decode(ids).split()
        for words in (row["anchor"], pack_words(query)):
            text = spelled(words, terms, search)
            ranked, copies = pages.search(text, most, without, signatures[row["key"]])
            for copy in copies:
                dropped.add(f"{task}-copy-of-the-positive", row["key"], f"page {pages.docs[copy]}")
            if len(ranked):
                break
        else:
            continue
        rng = generator(c["seed"], task, row["key"], "negative")
        first, *more = (pages.pages[index] for index in ranked[drawn(pages.in_links[ranked], count, popular, rng)])
        tokens, lengths = b"".join(page["tokens"] for page in more), [len(unpack(page["tokens"])) for page in more]
        drawn_as = dict(destination=first["doc"], more=tokens, more_lengths=pack(lengths))
        mined.append(dict(task=task, key=row["key"]) | drawn_as)
    return {tables.MINED: mined, tables.LOSSES: dropped.rows()}


def spelled(words: str, terms: Terms, search: str) -> str:
    """Packed words as BM25 reads them: as "words" without stopwords, or as tokens."""
    if search == "words":
        return " ".join(filter(terms.is_term, unpack_words(words)))
    return " ".join(f"t{token}" for word in unpack_words(words) for token in terms.later_ids(word))


def slice_of(job: Job, number: int, popular: bool, terms: Terms) -> Slice:
    """The passages of bucket `number` and the buckets after it, wrapping around, up to SLICE passages. With `popular` only linked
    pages: positives are then link destinations, so an unlinked page (which has a passage if another task reads it) would be
    recognisable as a negative by that alone."""
    search, every = job.config["negative_search"], buckets(job, tables.PASSAGES)
    first = next((i for i, bucket in enumerate(every) if bucket >= number), 0)
    pages: list[tables.PassageRow] = []
    for bucket in every[first:] + every[:first]:
        passages = rows(job, tables.PASSAGES, bucket, ["doc", "in_links", "signature", "tokens", "words"])
        pages += [page for page in passages if page["in_links"] > 0 or not popular]
        if len(pages) >= SLICE:
            break
    language = job.config["language"] if search == "words" else ENGLISH
    return Slice(pages[:SLICE], lambda words: spelled(words, terms, search), language)


def drawn(in_links: np.ndarray, count: int, popular: bool, rng: Generator) -> list[int]:
    """Places of `count` negatives among the pages that were found, in the order of the draws; fewer if fewer were found. `popular`:
    in proportion to in-links, like the positives, since every link is one. If uniform, in-links would be a predictor."""
    weights = np.maximum(in_links, 1) if popular else np.ones(len(in_links))
    p = weights / weights.sum()
    first = int(rng.choice(len(p), p=p))  # a separate draw keeps the output of jobs with one negative
    p[first] = 0.0
    more = without_replacement(rng, p, min(count, len(p)) - 1) if count > 1 else []
    return [first, *more]
