"""Map from weighted sentences to requests: what each task asks for, before the passages are joined."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from data_pipeline.engine import Job, read
from data_pipeline.losses import Losses
from data_pipeline.sampling import Dropped, Sampler
from data_pipeline.tables import pack, table, unpack
from data_pipeline.tasks import Anchor, Request, Sentence, acm, qdm, rdp, rqp
from data_pipeline.terms import Span, Terms, join, load_terms
from data_pipeline.weights import from_bytes
from harp_jax.errors import InputError
from harp_jax.keys import generator


def make_sampler(c: dict[str, Any], terms: Terms) -> Sampler:
    return Sampler(terms.is_term, c["query_length"], c["weighting"], c["temperature"], c["context_in_page"])


def make_requests(job: Job, number: int, _: Any) -> dict[str, pa.Table]:
    """Map over the buckets of `sentences`, merged row by row with their weights."""
    c = job["config"]
    terms = load_terms(c["tokenizer"], c["stopwords"])
    collected = _Requests(c, terms, job["candidates"])
    sentences, weights = read(job, "sentences", number), read(job, "sentence_weights", number)
    if sentences.num_rows != weights.num_rows:
        raise InputError(
            "the term weights do not belong to these sentences; make them again (unset config.term_weights)"
        )
    for at in range(0, sentences.num_rows, 1024):
        rows = sentences.slice(at, 1024).to_pylist()
        for row, weight in zip(rows, weights.slice(at, 1024).to_pylist()):
            collected.add(_sentence(row, weight))
    return collected.tables()


def _sentence(row: dict[str, Any], weight: dict[str, Any]) -> Sentence:
    if (row["doc"], row["start"]) != (weight["doc"], weight["start"]):
        raise InputError(
            "the term weights do not belong to these sentences; make them again (unset config.term_weights)"
        )
    span = Span(unpack(row["tokens"]), unpack(row["lengths"]))
    cls = from_bytes(weight["cls"])
    anchors = [
        Anchor(
            a["number"],
            a["anchor"],
            a["start"],
            a["end"],
            a["destination"],
            a["place"],
            a["first"],
            a["own"],
            a["total"],
        )
        for a in row["anchors"]
    ]
    by_anchor = from_bytes(weight["anchors"]).reshape(len(anchors), len(cls))
    return Sentence(row["page"], row["start"], span.words(), span.tokens.tolist(), cls, by_anchor, anchors)


class _Requests:
    """The requests, draws and losses of one part. Every request has its own generator: (seed, task, key)."""

    def __init__(self, c: dict[str, Any], terms: Terms, candidates: int) -> None:
        self.c, self.terms, self.candidates = c, terms, candidates
        self.sampler = make_sampler(c, terms)
        self.rows: list[dict[str, Any]] = []
        self.qdm_draws: list[dict[str, Any]] = []
        self.acm_draws: list[dict[str, Any]] = []
        self.losses = Losses()

    def add(self, sentence: Sentence) -> None:
        tasks = self.c["tasks"]
        for index, anchor in enumerate(sentence.anchors):
            key = sentence.anchor_key(anchor)
            if "rqp" in tasks:
                self._try("rqp", key, partial(self._rqp, sentence, index))
            if "qdm" in tasks:
                self._try("qdm", key, partial(self._qdm, sentence, index))
        if "rdp" in tasks:
            self._try("rdp", sentence.key, partial(self._rdp, sentence))
        if "acm" in tasks:
            pair = acm.choose(sentence.anchors, self._generator("acm-pair", sentence.key))
            if pair is not None:
                for direction in (pair, pair[::-1])[: self.c["acm_directions"]]:
                    key = f"{sentence.key}+{direction[0]}"
                    self._try("acm", key, partial(self._acm, sentence, direction))

    def _generator(self, task: str, key: str) -> np.random.Generator:
        return generator(self.c["seed"], task, key, "request")

    def _try(self, task: str, key: str, build: Callable[[np.random.Generator], None]) -> None:
        try:
            build(self._generator(task, key))
        except Dropped as dropped:
            self.losses.add(f"{task}-{dropped}", key)

    def _rqp(self, sentence: Sentence, index: int, rng: np.random.Generator) -> None:
        self._keep(rqp.request(sentence, index, self.terms, self.sampler, rng))

    def _qdm(self, sentence: Sentence, index: int, rng: np.random.Generator) -> None:
        if found := qdm.request(sentence, index, self.terms, self.sampler, rng):
            self._keep(found[0])
            self.qdm_draws.append(found[1]._asdict())

    def _rdp(self, sentence: Sentence, rng: np.random.Generator) -> None:
        if found := rdp.request(sentence, self.sampler, rng):
            self._keep(found)

    def _acm(self, sentence: Sentence, pair: tuple[int, int], rng: np.random.Generator) -> None:
        similar = self.c["acm_negative"] == "in_links"
        draws = self.c["acm_draws"]
        request, drawn = acm.request(sentence, pair, self.terms, self.sampler, rng, self.candidates, draws, similar)
        self._keep(request)
        self.acm_draws.extend(draw._asdict() for draw in drawn)

    def _keep(self, request: Request) -> None:
        self.rows.append(
            dict(
                task=request.task, key=request.key, page=request.page, query=pack(request.query),
                anchor=pack(join(request.anchor)), anchor_lengths=pack([len(word) for word in request.anchor]),
                context=pack(join(request.context)), context_lengths=pack([len(word) for word in request.context]),
                length=request.length, words_of=request.words_of, positive=request.positive, negative=request.negative,
            )
        )  # fmt: skip

    def tables(self) -> dict[str, pa.Table]:
        return {
            "requests": table("requests", self.rows),
            "qdm_draws": table("qdm_draws", self.qdm_draws),
            "acm_draws": table("acm_draws", self.acm_draws),
            "losses": self.losses.table(),
        }
