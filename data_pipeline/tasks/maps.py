"""Maps from sentences and links to requests (what each task needs before the passages are joined), and from requests with
passages, or from pages, to serialized records and statistics.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import Config, Job, Outputs
from data_pipeline.engine.store import read, rows
from data_pipeline.engine.tables import DropCounts, Row, Table, pack, unpack
from data_pipeline.tasks.sampling import NoPair, Weighted
from data_pipeline.tasks.table import TASKS, chosen
from data_pipeline.tasks.task import Anchor, PairTokens, Passages, Request, Sentence, Setup, Task, setup_of
from data_pipeline.text.terms import pack_words, terms_of, unpack_words
from data_pipeline.weights.tokenised import from_bytes
from harp_jax.base.randomness import hash64
from harp_jax.input.contrastive_groups import are_copies
from harp_jax.input.records import MORE_FEATURES, PAIR_FEATURES, TEACHER, TEXT_TASK, TextRecord, parts
from harp_jax.input.tfrecords import tensorflow

FRAME_BYTES = 16  # overhead of a TFRecord: length and two checksums


class RequestPart(NamedTuple):
    """The table that tasks read, and how many pages negatives are drawn from; the first `unlinked` of these have no in-links."""

    reads: Table
    candidates: int
    unlinked: int


def make_requests(job: Job, number: int, part: RequestPart) -> Outputs:
    """Map over the buckets of the table `part.reads`: requests, and draws of negatives. Each key has its own generator."""
    setup, dropped = setup_of(job, part.candidates, part.unlinked), DropCounts()
    tasks = [task for task in chosen(job.config) if task.reads == part.reads and task.requests]
    made: list[Row] = []
    draws: list[Row] = []
    for item in ITEMS[part.reads](job, number):
        for task in tasks:
            assert task.requests is not None
            for key, build in task.requests(item, setup):
                try:
                    requests = build(setup.rng(task.name, key, "request"))
                except NoPair as reason:
                    dropped.add(f"{task.name}-{reason}", key)
                    continue
                for request in requests:
                    made.append(_request_row(request))
                    draws += ({"task": task.name, **draw._asdict()} for draw in request.draws)
    return {tables.REQUESTS: made, tables.DRAWS: draws, tables.LOSSES: dropped.rows()}


def _request_row(request: Request) -> Row:
    return dict(
        task=request.task, key=request.key, page=request.page, query=pack(request.query), anchor=pack_words(request.anchor),
        context=pack_words(request.context), length=request.length, words_of=request.words_of, positive=request.positive,
        negative=request.negative,
    )  # fmt: skip


def weighed_sentences(job: Job, number: int) -> Iterator[Sentence]:
    """The sentences of a bucket with their weights."""
    sentences, weights = (read(job, table, number) for table in (tables.SENTENCES, tables.SENTENCE_WEIGHTS))
    for at in range(0, sentences.num_rows, 1024):
        yield from map(_sentence, sentences.slice(at, 1024).to_pylist(), weights.slice(at, 1024).to_pylist())


def _sentence(row: Row, weight: Row) -> Sentence:
    cls, to_cls = from_bytes(weight["cls"]), from_bytes(weight["to_cls"])
    anchors = [Anchor(text=a.pop("anchor"), **a) for a in row["anchors"]]
    by_anchor = from_bytes(weight["anchors"]).reshape(len(anchors), len(cls))
    words, tokens, lengths = unpack_words(row["words"]), unpack(row["tokens"]).tolist(), unpack(row["lengths"])
    return Sentence(row["page"], row["start"], words, tokens, cls, by_anchor, anchors, to_cls, lengths)


def links_of_pages(job: Job, number: int) -> Iterator[list[Row]]:
    """The links of each page of a bucket of `ranked`, in order."""
    columns = ["doc", "link_start", "destination", "id"]
    links = rows(job, tables.RANKED, number, columns, order=("doc", "link_start"))
    for _, group in itertools.groupby(links, key=itemgetter("doc")):
        yield list(group)


def shown_pages(job: Job, number: int) -> Iterator[Row]:
    """The passages of a bucket with the ids and titles of their pages."""
    columns = ["doc", "id", "title"]
    named = {row["doc"]: row for row in read(job, tables.DOCUMENTS, number, columns).to_pylist()}
    for row in read(job, tables.PASSAGES, number).to_pylist():
        yield row | named[row["doc"]]


ITEMS: dict[Table, Callable[[Job, int], Iterator[Any]]] = {
    tables.SENTENCES: weighed_sentences,
    tables.RANKED: links_of_pages,
    tables.PASSAGES: shown_pages,
}


def split_of(page: str, fraction: float) -> str:
    """The split of a source page, by the hash of its id: the same for every task, seed and run, and for all sections of a page."""
    return "validation" if hash64("validation", page.partition("#")[0]) < fraction * 2.0**64 else "train"


def shuffle_key(task: str, key: str) -> int:
    """63 bits that determine a record's shard and its order there; not negative, as SQL engines then disagree on %."""
    return hash64("shard", task, key) >> 1


def make_pairs(job: Job, number: int, payload: None) -> Outputs:
    """Map over the buckets of `assembled`: records, held-out pairs for the trivial predictors, token counts, dropped pairs."""
    setup = setup_of(job)
    out = Examples(setup.c, setup.terms.tokenizer.size)
    for row in rows(job, tables.ASSEMBLED, number, size=512, order=("task", "key")):
        task, key = TASKS[row["task"]], row["key"]
        make = partial(_sides, task, row, setup)
        out.add_pair(task.name, key, row["page"], make, row["positive_in_links"], row["negative_in_links"])
    return out.outputs()


def make_records(job: Job, number: int, task: str) -> Outputs:
    """Map over the buckets of the table that a task without requests reads; same output as `make_pairs`."""
    make = TASKS[task].records
    assert make is not None
    out = Examples(job.config, terms_of(job.config).tokenizer.size)
    for made in make(job, number):
        if isinstance(made, TextRecord):
            out.add_text(made)
        else:
            out.add_pair(task, made.key, made.page, made.sides, made.positive_in_links, made.negative_in_links)
    return out.outputs()


def _sides(task: Task, row: Row, setup: Setup) -> PairTokens:
    """The sides of a row of `assembled`."""
    assert task.sides is not None
    if row["copy"] and row["copied"] and are_copies(unpack(row["copy"]), unpack(row["copied"])):
        raise NoPair("negative-is-a-copy")
    query, anchor, context = unpack(row["query"]).tolist(), unpack_words(row["anchor"]), unpack_words(row["context"])
    request = Request(row["task"], row["key"], row["page"], 0, query, anchor, row["length"], context)
    return task.sides(request, _passages(row), setup, setup.rng(task.name, row["key"], "page"))


def _passages(row: Row) -> Passages:
    if row["positive"] is None:
        raise NoPair("page-not-shown")  # it links to pages, but links to it are dropped
    positive = unpack(row["positive"]).tolist()
    negative = [] if row["negative"] is None else unpack(row["negative"]).tolist()
    if not negative and row["negative"] is not None:  # a page of characters that the tokenizer drops
        raise NoPair("side-empty")
    flat = parts(unpack(row["more"]), unpack(row["more_lengths"])) if row["more"] else []
    more = [tokens.tolist() for tokens in flat if len(tokens)]
    if row["words"] is None:
        return Passages(positive, negative, None, more=more)
    words = None if row["weights"] is None else Weighted(unpack_words(row["words"]), from_bytes(row["weights"]))
    page, sentences = unpack(row["tokens"]).tolist(), unpack(row["sentences"]).tolist()
    return Passages(positive, negative, words, page, sentences, more)


def stored(sides: PairTokens, query_limit: int, doc_limit: int) -> PairTokens:
    """The sides truncated to the limits, shared texts stored once; NoPair if both sides are then equal, or one is empty."""
    pos_query, neg_query = (list(text)[:query_limit] for text in (sides.pos_query, sides.neg_query))
    pos_doc, neg_doc = (list(text)[:doc_limit] for text in (sides.pos_doc, sides.neg_doc))
    neg_query, neg_doc = ([] if neg_query == pos_query else neg_query), ([] if neg_doc == pos_doc else neg_doc)
    if not neg_query and not neg_doc:
        raise NoPair("sides-equal")
    if not pos_query or not pos_doc:
        raise NoPair("side-empty")
    more = (list(tokens)[:doc_limit] for tokens in sides.more_docs)
    return PairTokens(pos_query, pos_doc, neg_query, neg_doc, [each for each in more if each and each != pos_doc])


class Examples:
    """Collects the records and statistics of one part."""

    def __init__(self, c: Config, vocab_size: int) -> None:
        self.c, self.vocab_size = c, vocab_size
        self.records: list[Row] = []
        self.validation: list[Row] = []
        self.counts: dict[tuple[str, str], np.ndarray] = {}
        self.dropped = DropCounts()

    def add_pair(
        self,
        task: str,
        key: str,
        page: str,
        make: Callable[[], PairTokens],
        pos_in_links: int,
        neg_in_links: int | None,
    ) -> None:
        """Adds the pair that `make` returns, or why there is none: also if its sides are equal or empty. In-links are those of the
        documents' pages (negative None: the same page)."""
        try:
            pair = stored(make(), self.c["max_query_tokens"], self.c["max_doc_tokens"])
        except NoPair as reason:
            self.dropped.add(f"{task}-{reason}", key)
            return
        neg_query, neg_doc = pair.neg_query or pair.pos_query, pair.neg_doc or pair.pos_doc
        lengths, negatives = list(map(len, pair.more_docs)), 1 + len(pair.more_docs)
        features = dict(
            zip((*PAIR_FEATURES, *MORE_FEATURES), (*pair[:4], list(itertools.chain(*pair.more_docs)), lengths))
        )
        queries = negatives * len(pair.pos_query) + len(neg_query)
        docs = len(pair.pos_doc) + len(neg_doc) + sum(lengths)
        if self._add(task, key, page, features, queries, docs, 1 + negatives) == "validation":
            self.validation.append(
                dict(
                    task=task, key=key, pos_query=pack(pair.pos_query), pos_doc=pack(pair.pos_doc), neg_query=pack(neg_query),
                    neg_doc=pack(neg_doc), pos_in_links=pos_in_links, neg_in_links=neg_in_links if pair.neg_doc else pos_in_links,
                )
            )  # fmt: skip
            return
        # Count only queries or documents that differ between the sides.
        apart = {
            "pos_query": pair.neg_query,
            "neg_query": pair.neg_query,
            "pos_doc": pair.neg_doc,
            "neg_doc": pair.neg_doc,
        }
        for side in (side for side, differs in apart.items() if differs):
            count = self.counts.setdefault((task, side), np.zeros(self.vocab_size, np.int64))
            np.add.at(count, np.asarray(getattr(pair, side)), 1)

    def add_text(self, record: TextRecord) -> None:
        """Adds a piece of running text."""
        self._add(TEXT_TASK, record.key, record.page, {"text": record.text}, 0, len(record.text), 1)

    def _add(
        self, task: str, key: str, page: str, features: dict[str, Any], queries: int, docs: int, sequences: int
    ) -> str:
        split = split_of(page, self.c["validation_fraction"])
        example = serialise(task, key, page, features)
        self.records.append(
            dict(
                task=task, split=split, shuffle=shuffle_key(task, key), key=key, example=example,
                size=len(example) + FRAME_BYTES, query_tokens=queries, doc_tokens=docs, sequences=sequences,
            )
        )  # fmt: skip
        return split

    def outputs(self) -> Outputs:
        """The part's output: `records`, `validation`, `token_counts`, `losses`."""
        counts = [
            dict(task=task, side=side, token=int(token), n=int(count[token]))
            for (task, side), count in self.counts.items()
            for token in np.flatnonzero(count)
        ]
        return {
            tables.RECORDS: self.records, tables.VALIDATION: self.validation,
            tables.TOKEN_COUNTS: counts, tables.LOSSES: self.dropped.rows(),
        }  # fmt: skip


def serialise(task: str, key: str, page: str, features: Mapping[str, Sequence[int] | Sequence[float]]) -> bytes:
    """A serialized tf.train.Example, TEACHER scores as float32; empty lists are omitted, and readers decode them as empty."""
    tf = tensorflow()
    named = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        for name, text in (("task", task), ("key", key), ("page", page))
    }
    for name, ids in features.items():
        if name == TEACHER and len(ids):
            named[name] = tf.train.Feature(float_list=tf.train.FloatList(value=ids))
        elif len(ids):
            named[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=ids))
    # Without `deterministic` the order of the features is random.
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString(deterministic=True)
