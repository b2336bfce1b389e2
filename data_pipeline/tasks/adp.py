"""Anchor Destination Prediction (beyond the paper): an anchor with its context matches its page, not one that shares its words.

The other tasks draw their negatives from the link graph, so that the topic or the in-links often give the answer away. Here the
negative is a page that BM25 returns for the anchor text, and the words around the anchor decide: the task of a re-ranker.

A search over the whole corpus would need one index of it in every worker, and returns true synonyms of the positive first. Each
bucket searches a slice of the pages instead: its own bucket and the following ones until there are `SLICE` pages. Time and
memory stay the same per bucket however large the corpus is.
"""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_pipeline.engine.job import LINKS, SENTENCES, Engine, Job
from data_pipeline.engine.store import bucket_parts, buckets, read
from data_pipeline.engine.tables import table
from data_pipeline.tasks.rqp import anchor_words, context_query
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Anchor, Attempt, Passages, Request, Sentence, Setup, Sides, Task
from data_pipeline.text.terms import Terms, Word, load_terms, unpack_words
from harp_jax.base.randomness import generator
from harp_jax.config import Field

FIELDS = {
    "adp_window": Field(
        0.0,
        "the query: the anchor with this many words of its sentence on average, in their order; 0: S1, sampled words like RQP's",
        (0, 1000),
    ),
}
SLICE = 20_000  # pages that BM25 searches for a negative: a larger slice has harder ones, and more true answers
DEPTH = 10  # the negative is one of this many, drawn in proportion to in-links
# BM25's parameters: the first stage of MS MARCO's baselines; the length of leads varies little.
K1, B = 0.9, 0.4

NEGATIVES_SQL = "SELECT task, key, destination FROM mined WHERE task = 'adp'"


def requests(sentence: Sentence, setup: Setup) -> Iterator[Attempt]:
    """A request for each link."""
    for index, anchor in enumerate(sentence.anchors):
        yield sentence.anchor_key(anchor), partial(request, sentence, index, setup)


def request(sentence: Sentence, index: int, setup: Setup, rng: np.random.Generator) -> list[Request]:
    """The query and page P of one link; BM25 finds the negative (`mine`).

    The query is a window of the sentence with `adp_window` words beside the anchor, or with 0 the query S1 of RQP and QDM. BM25
    searches for the anchor, not for the query: the context often names the other page of the sentence, which would be the negative
    of a query that describes it as well.
    """
    anchor = sentence.anchors[index]
    if mean := setup.c["adp_window"]:
        words = anchor_words(sentence, anchor, setup.terms)
        query = window(sentence, anchor, setup.terms, mean, rng)
    else:
        query, words, _ = context_query(sentence, index, setup, rng)
    return [
        Request(
            TASK.name, sentence.anchor_key(anchor), sentence.page, anchor.destination, setup.terms.ids(query), words
        )
    ]


def window(sentence: Sentence, anchor: Anchor, terms: Terms, mean: float, rng: np.random.Generator) -> list[Word]:
    """The anchor and the words next to it, stopwords among them, in the order of the sentence, without punctuation.

    l ~ Poisson(`mean`), at least 1, of which a uniform share stands before the anchor; where the sentence ends earlier, the other
    side has more.
    """
    length = max(1, int(rng.poisson(mean)))
    before, within, after = (
        [word for word in part if terms.has_content(word)]
        for part in (
            sentence.words[: anchor.start],
            sentence.words[anchor.start : anchor.end],
            sentence.words[anchor.end :],
        )
    )
    left = min(int(rng.integers(0, length + 1)), len(before))
    right = min(length - left, len(after))
    left = min(length - right, len(before))
    return [*before[len(before) - left :], *within, *after[:right]]


class Slice:
    """BM25 over the wordpieces of some pages: docs and in_links are [pages] int64."""

    def __init__(self, docs: np.ndarray, in_links: np.ndarray, texts: list[np.ndarray]) -> None:
        from scipy import sparse

        self.docs, self.in_links = docs, in_links
        lengths = np.array([len(text) for text in texts], np.int64)
        page = np.repeat(np.arange(len(texts)), lengths)
        pieces = np.concatenate(texts)
        counts = sparse.coo_matrix((np.ones(len(pieces)), (pieces, page))).tocsr()  # sums repeated pieces
        found = np.diff(counts.indptr)
        idf = np.log1p((len(texts) - found + 0.5) / (found + 0.5))
        norm = K1 * (1 - B + B * lengths / max(1.0, lengths.mean()))
        counts.data = counts.data * (K1 + 1) / (counts.data + norm[counts.indices])
        counts.data *= np.repeat(idf, found)
        self.postings = counts

    def search(self, query: Iterable[int], count: int, without: int) -> np.ndarray:
        """Places of the best pages that share a wordpiece with the query, at most `count`; the page `without` is left out."""
        scores = np.zeros(len(self.docs))
        matrix = self.postings
        for piece in sorted(set(query)):
            if piece < matrix.shape[0]:
                part = slice(matrix.indptr[piece], matrix.indptr[piece + 1])
                scores[matrix.indices[part]] += matrix.data[part]
        scores[self.docs == without] = 0.0
        # Every page with the score of the last one, so that ties are broken by the order of the slice.
        count = min(count, len(scores))
        kept = np.flatnonzero((scores > 0) & (scores >= np.partition(scores, -count)[-count]))
        return kept[np.argsort(-scores[kept], kind="stable")][:count]


def prepare(engine: Engine) -> None:
    engine.map("adp negatives", mine, bucket_parts(engine.job, "requests"))


def mine(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over the buckets of `requests`: the negative of each request of ADP, if BM25 finds a page."""
    c = job["config"]
    requests = read(job, "requests", number, ["task", "key", "anchor", "positive"]).to_pylist()
    terms = load_terms(c["tokenizer"], c["stopwords"], c["unit"], c["language"])
    pages = _slice(job, number, SLICE, terms)
    found = []
    for row in requests:
        if row["task"] != TASK.name:
            continue
        places = pages.search(_ids(row["anchor"], terms), DEPTH, row["positive"])
        if len(places):
            rng = generator(c["seed"], TASK.name, row["key"], "negative")
            chosen = negative(pages.in_links[places], rng)
            found.append(dict(task=TASK.name, key=row["key"], destination=int(pages.docs[places[chosen]])))
    return {"mined": table("mined", found)}


def _ids(packed: str, terms: Terms) -> list[int]:
    """The token ids of words, the same wherever a word stands."""
    return [token for word in unpack_words(packed) for token in terms.later_ids(word)]


def _slice(job: Job, number: int, count: int, terms: Terms) -> Slice:
    """The passages of bucket `number` and of those after it, in a circle, until there are `count`; of linked pages only.

    Where ICT, PROP or running text are made as well, there are passages of all pages. Pages without links are never positives:
    as negatives they would be told apart by that alone.
    """
    every = buckets(job, "passages")
    first = next((i for i, bucket in enumerate(every) if bucket >= number), 0)
    docs: list[int] = []
    links: list[int] = []
    texts: list[np.ndarray] = []
    for bucket in every[first:] + every[:first]:
        for batch in read(job, "passages", bucket, ["doc", "in_links", "words"]).to_batches(max_chunksize=1024):
            batch = batch.filter(pc.greater(batch.column("in_links"), 0))
            docs += batch.column("doc").to_pylist()
            links += batch.column("in_links").to_pylist()
            texts += [np.array(_ids(words, terms), np.int64) for words in batch.column("words").to_pylist()]
        if len(docs) >= count:
            break
    return Slice(np.array(docs[:count], np.int64), np.array(links[:count], np.int64), texts[:count])


def negative(in_links: np.ndarray, rng: np.random.Generator) -> int:
    """The place of the negative among the pages found, drawn in proportion to their in-links.

    Positives are drawn so, too: every link is one. A uniform draw would make in-links a good predictor (.67 on
    an earlier demo wiki).
    """
    weights = np.maximum(in_links, 1)
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def sides(request: Request, passages: Passages, setup: Setup, rng: np.random.Generator) -> Sides:
    """(S1, P) against (S1, P̃)."""
    if passages.negative is None:
        raise NoPair("no-page-shares-a-word-of-the-anchor")
    return Sides(request.query, passages.positive, (), passages.negative)


TASK = Task(
    "adp", reads="sentences", needs=lambda c: {LINKS, SENTENCES}, fields=FIELDS, requests=requests, prepare=prepare,
    negatives=lambda c: NEGATIVES_SQL, sides=sides,
)  # fmt: skip
