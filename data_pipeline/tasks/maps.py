"""Maps of the tasks: sentences and pages to requests (what each task needs before the passages are joined); requests with their
passages, or pages, to serialized records and statistics.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import Job, Outputs
from data_pipeline.engine.store import rows
from data_pipeline.engine.tables import DropCounts, Row, Table, pack, unpack
from data_pipeline.tasks.sampling import NoPair, Weighted
from data_pipeline.tasks.table import TASKS, chosen
from data_pipeline.tasks.task import Anchor, Page, Pair, PairTokens, Passages, Request, Sentence, Setup, setup_of
from data_pipeline.text.terms import pack_words, terms_of, unpack_words
from data_pipeline.weights.tokenised import from_bytes
from harp_jax.base.randomness import hash64
from harp_jax.input.contrastive_groups import are_copies
from harp_jax.input.records import MORE_FEATURES, PAIR_FEATURES, TEACHER, TextRecord, parts
from harp_jax.input.tfrecords import tensorflow

FRAME_BYTES = 16  # overhead of a TFRecord: length and two checksums


def make_requests(job: Job, number: int, part: tuple[Table, int, int]) -> Outputs:
    """Map over the buckets of a table that tasks read: requests, and draws of negatives. Each key has its own generator. part: the
    table, how many pages negatives are drawn from, and how many of these have no in-links."""
    reads, candidates, unlinked = part
    setup, dropped = setup_of(job, candidates, unlinked), DropCounts()
    tasks = [task for task in chosen(job.config) if task.attempts and task.reads == reads]
    made: list[tables.RequestRow] = []
    draws: list[Row] = []
    for item in items(job, number, reads):
        for task in tasks:
            assert task.attempts is not None and task.request is not None
            for key, arguments in task.attempts(item, setup):
                try:
                    requests = task.request(*arguments, setup, setup.rng(task.name, key, "request"))
                except NoPair as reason:
                    dropped.add(f"{task.name}-{reason}", key)
                    continue
                for request in requests:
                    made.append(tables.RequestRow(
                        task=task.name, key=request.key, page=request.page, query=pack(request.query),
                        anchor=pack_words(request.anchor), context=pack_words(request.context), length=request.length,
                        words_of=request.words_of, positive=request.positive, negative=request.negative,
                    ))  # fmt: skip
                    for at, draw in enumerate(request.draws):
                        draws.append({"task": task.name, "key": request.key, "draw": at, **draw})
    return {tables.REQUESTS: made, tables.DRAWS: draws, tables.LOSSES: dropped.rows()}


def items(job: Job, number: int, reads: Table) -> Iterator[Any]:
    """What tasks that read a table start from: its sentences with their weights, the links of each page in order, or passages with
    the ids and titles of their pages."""
    if reads == tables.SENTENCES:
        for row, weight in zip(rows(job, tables.SENTENCES, number), rows(job, tables.SENTENCE_WEIGHTS, number)):
            anchors = [Anchor(**anchor) for anchor in row["anchors"]]
            cls, by_anchor = from_bytes(weight["cls"]), from_bytes(weight["anchors"])
            yield Sentence(
                row["page"], row["start"], unpack_words(row["words"]), unpack(row["tokens"]).tolist(), cls,
                by_anchor.reshape(len(anchors), len(cls)), anchors, from_bytes(weight["to_cls"]), unpack(row["lengths"]),
            )  # fmt: skip
    elif reads == tables.RANKED:
        columns = ["doc", "link_start", "destination", "id"]
        links = rows(job, tables.RANKED, number, columns, order=("doc", "link_start"))
        yield from (list(group) for _, group in itertools.groupby(links, key=lambda link: link["doc"]))
    else:
        documents = {row["doc"]: row for row in rows(job, tables.DOCUMENTS, number, ["doc", "id", "title"])}
        for passage in rows(job, tables.PASSAGES, number):
            document = documents[passage["doc"]]
            yield Page(**passage, id=document["id"], title=document["title"])


def make_pairs(job: Job, number: int, payload: None) -> Outputs:
    """Map over the buckets of `assembled`: see `collect`."""
    setup = setup_of(job)

    def pairs() -> Iterator[tuple[str, Pair]]:
        for row in rows(job, tables.ASSEMBLED, number, size=512, order=("task", "key")):
            in_links = row["positive_in_links"], row["negative_in_links"]
            yield row["task"], Pair(row["key"], row["page"], partial(_sides, row, setup), *in_links)

    return collect(job, pairs())


def make_records(job: Job, number: int, task: str) -> Outputs:
    """Map over the buckets of the table that a task without requests reads: see `collect`."""
    make = TASKS[task].records
    assert make is not None
    return collect(job, ((task, made) for made in make(job, number)))


def _sides(row: tables.AssembledRow, setup: Setup) -> PairTokens:
    """The sides of a row of `assembled`."""
    task = TASKS[row["task"]]
    if row["copy"] and row["copied"] and are_copies(unpack(row["copy"]), unpack(row["copied"])):
        raise NoPair("negative-is-a-copy")
    if row["positive"] is None:
        raise NoPair("page-not-shown")  # it links to pages, but links to it are dropped
    # Passages as token ids; of the page whose words or sentences the task needs, these too.
    positive, negative = unpack(row["positive"]).tolist(), unpack(row["negative"]).tolist()
    if not negative and row["negative"] is not None:  # a page of characters that the tokenizer drops
        raise NoPair("side-empty")
    if task.missing and not negative:
        raise NoPair(task.missing)
    more = parts(unpack(row["more"]), unpack(row["more_lengths"]))
    passages = Passages(positive, negative, more=[tokens.tolist() for tokens in more if len(tokens)])
    if row["words"] is not None:
        weights = None if row["weights"] is None else from_bytes(row["weights"])
        words = passages.words if weights is None else Weighted(unpack_words(row["words"]), weights)
        page, sentences = unpack(row["tokens"]).tolist(), unpack(row["sentences"]).tolist()
        passages = replace(passages, words=words, page=page, sentences=sentences)
    query, anchor, context = unpack(row["query"]).tolist(), unpack_words(row["anchor"]), unpack_words(row["context"])
    request = Request(row["key"], row["page"], 0, query, anchor, row["length"], context)
    return task.sides(request, passages, setup, setup.rng(task.name, row["key"], "page"))


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


def collect(job: Job, made: Iterable[tuple[str, Pair | TextRecord]]) -> Outputs:
    """Records of (task, pair or text), held-out pairs for the trivial predictors, counts of tokens, and why pairs were dropped."""
    c, vocab_size = job.config, terms_of(job.config).tokenizer.size
    records: list[Row] = []
    validation: list[Row] = []
    counts: defaultdict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros(vocab_size, np.int64))
    dropped = DropCounts()
    for task, one in made:
        split, features = split_of(one.page, c["validation_fraction"]), dict[str, Sequence[int]]()
        if isinstance(one, TextRecord):
            features["text"] = one.text
            query_tokens, doc_tokens, sequences = 0, len(one.text), 1
        else:
            try:
                sides = stored(one.sides(), c["max_query_tokens"], c["max_doc_tokens"])
            except NoPair as reason:
                dropped.add(f"{task}-{reason}", one.key)
                continue
            neg_query, neg_doc = sides.neg_query or sides.pos_query, sides.neg_doc or sides.pos_doc
            lengths, sequences = list(map(len, sides.more_docs)), 2 + len(sides.more_docs)
            more = list(itertools.chain(*sides.more_docs)), lengths
            features |= zip((*PAIR_FEATURES, *MORE_FEATURES), (*sides[:4], *more))
            query_tokens = (sequences - 1) * len(sides.pos_query) + len(neg_query)
            doc_tokens = len(sides.pos_doc) + len(neg_doc) + sum(lengths)

            # What the trivial predictors read of held-out pairs, and count in the others: the texts that differ between the sides.
            if split == "validation":
                in_links = one.positive_in_links, one.negative_in_links if sides.neg_doc else one.positive_in_links
                texts = map(pack, (sides.pos_query, sides.pos_doc, neg_query, neg_doc))
                row = dict(zip((*PAIR_FEATURES, "pos_in_links", "neg_in_links"), (*texts, *in_links)))
                validation.append(dict(task=task, key=one.key) | row)
            else:
                for side in PAIR_FEATURES:
                    if getattr(sides, side.replace("pos_", "neg_")):
                        np.add.at(counts[task, side], getattr(sides, side), 1)

        # `shuffle` determines a record's shard and its order there. Not negative: SQL engines then disagree on %.
        example, shuffle = serialise(task, one.key, one.page, features), hash64("shard", task, one.key) >> 1
        records.append(dict(
            task=task, split=split, shuffle=shuffle, key=one.key, example=example, size=len(example) + FRAME_BYTES,
            query_tokens=query_tokens, doc_tokens=doc_tokens, sequences=sequences,
        ))  # fmt: skip

    token_counts = [
        dict(task=task, side=side, token=int(token), n=int(count[token]))
        for (task, side), count in counts.items()
        for token in np.flatnonzero(count)
    ]
    outputs: Outputs = {tables.RECORDS: records, tables.VALIDATION: validation, tables.TOKEN_COUNTS: token_counts}
    return outputs | {tables.LOSSES: dropped.rows()}


def split_of(page: str, fraction: float) -> str:
    """The split of a source page, by the hash of its id: the same for every task, seed and run, and for all sections of a page."""
    return "validation" if hash64("validation", page.partition("#")[0]) < fraction * 2.0**64 else "train"


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
