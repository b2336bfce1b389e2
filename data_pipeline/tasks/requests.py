"""Maps from sentences and links to requests: what each task needs before the passages are joined."""

import itertools
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import pyarrow as pa

from data_pipeline.engine.dropped import DropCounts
from data_pipeline.engine.job import Job
from data_pipeline.engine.store import read
from data_pipeline.engine.tables import Row, pack, table, unpack
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.table import chosen
from data_pipeline.tasks.task import Anchor, Request, Sentence, setup_of
from data_pipeline.text.terms import pack_words, unpack_words
from data_pipeline.weights.tokenised import from_bytes
from harp_jax.base.errors import InputError


def make_requests(job: Job, number: int, reads: str) -> dict[str, pa.Table]:
    """Map over the buckets of the table `reads`: requests, and draws of negatives. Each key has its own generator."""
    setup, dropped = setup_of(job), DropCounts()
    tasks = [task for task in chosen(job["config"]) if task.reads == reads]
    rows: list[Row] = []
    draws: list[Row] = []
    for item in ITEMS[reads](job, number):
        for task in tasks:
            assert task.requests is not None
            for key, build in task.requests(item, setup):
                try:
                    requests = build(setup.rng(task.name, key, "request"))
                except NoPair as reason:
                    dropped.add(f"{task.name}-{reason}", key)
                    continue
                for request in requests:
                    rows.append(_row(request))
                    draws += ({"task": task.name, **draw._asdict()} for draw in request.draws)
    return {"requests": table("requests", rows), "draws": table("draws", draws), "losses": dropped.table()}


def _row(request: Request) -> Row:
    return dict(
        task=request.task, key=request.key, page=request.page, query=pack(request.query), anchor=pack_words(request.anchor),
        context=pack_words(request.context), length=request.length, words_of=request.words_of, positive=request.positive,
        negative=request.negative,
    )  # fmt: skip


def weighed_sentences(job: Job, number: int, first: int | None = None) -> Iterator[Sentence]:
    """The sentences of a bucket with their weights, all or the first ones. InputError if they do not belong together."""
    sentences, weights = (read(job, name, number).slice(0, first) for name in ("sentences", "sentence_weights"))
    for at in range(0, sentences.num_rows, 1024):
        rows = sentences.slice(at, 1024).to_pylist()
        found = weights.slice(at, 1024).to_pylist()
        if [(row["doc"], row["start"]) for row in rows] != [(row["doc"], row["start"]) for row in found]:
            raise InputError(
                "the term weights do not belong to these sentences; leave config.term_weights empty to compute them again"
            )
        yield from map(_sentence, rows, found)


def _sentence(row: Row, weight: Row) -> Sentence:
    cls, to_cls = from_bytes(weight["cls"]), from_bytes(weight["to_cls"])
    anchors = [Anchor(text=a.pop("anchor"), **a) for a in row["anchors"]]
    by_anchor = from_bytes(weight["anchors"]).reshape(len(anchors), len(cls))
    words, tokens, lengths = unpack_words(row["words"]), unpack(row["tokens"]).tolist(), unpack(row["lengths"])
    return Sentence(row["page"], row["start"], words, tokens, cls, by_anchor, anchors, to_cls, lengths)


def links_of_pages(job: Job, number: int) -> Iterator[list[Row]]:
    """The links of each page of a bucket of `ranked`, in order."""
    links = read(job, "ranked", number).select(["doc", "link_start", "destination", "id"])
    rows = links.sort_by([("doc", "ascending"), ("link_start", "ascending")]).to_pylist()
    for _, group in itertools.groupby(rows, key=itemgetter("doc")):
        yield list(group)


ITEMS: dict[str, Any] = {"sentences": weighed_sentences, "ranked": links_of_pages}
