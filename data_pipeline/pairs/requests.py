"""Map from weighted sentences to requests: what each task needs before the passages are joined."""

import itertools
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from operator import itemgetter

import numpy as np
import pyarrow as pa

from data_pipeline.config import Config
from data_pipeline.engine.dropped import DropCounts
from data_pipeline.engine.job import Job
from data_pipeline.engine.store import read
from data_pipeline.engine.tables import Row, pack, table, unpack
from data_pipeline.tasks import acm, adp, qdm, rdp, rqp, wlp
from data_pipeline.tasks.pair import Anchor, Request, Sentence
from data_pipeline.tasks.sampling import NoPair, Sampler
from data_pipeline.text.terms import Span, Terms, join, load_terms
from data_pipeline.weights.word_weights import from_bytes
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator

SAMPLER_FIELDS = [field.name for field in fields(Sampler) if field.name != "is_term"]


def make_sampler(c: Config, terms: Terms) -> Sampler:
    """A sampler with the config's fields of the same names."""
    return Sampler(terms.is_term, **{name: c[name] for name in SAMPLER_FIELDS})


def make_requests(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over the buckets of `sentences`, merged row by row with their weights: requests, and draws of negatives."""
    c = job["config"]
    terms = load_terms(c["tokenizer"], c["stopwords"], c["unit"])
    # Candidates are ordered by in-links.
    lowest = 0 if c["acm_negative"] == "corpus" else job["unlinked"]
    collected = _Requests(c, terms, (lowest, job["candidates"]))
    sentences, weights = read(job, "sentences", number), read(job, "sentence_weights", number)
    if sentences.num_rows != weights.num_rows:
        raise InputError(
            "the term weights do not belong to these sentences; leave config.term_weights empty to compute them again"
        )
    for at in range(0, sentences.num_rows, 1024):
        rows = sentences.slice(at, 1024).to_pylist()
        for row, weight in zip(rows, weights.slice(at, 1024).to_pylist()):
            collected.add(weighed_sentence(row, weight))
    return collected.tables()


def weighed_sentence(row: Row, weight: Row) -> Sentence:
    """A row of `sentences` with its row of `sentence_weights`; InputError if they do not belong together."""
    if (row["doc"], row["start"]) != (weight["doc"], weight["start"]):
        raise InputError(
            "the term weights do not belong to these sentences; leave config.term_weights empty to compute them again"
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
            a["occurrence"],
            a["occurrences"],
        )
        for a in row["anchors"]
    ]
    by_anchor = from_bytes(weight["anchors"]).reshape(len(anchors), len(cls))
    to_cls = from_bytes(weight["to_cls"])
    return Sentence(row["page"], row["start"], span.words(), span.tokens.tolist(), cls, by_anchor, anchors, to_cls)


def make_wlp_requests(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over the buckets of `ranked`: WLP's requests, one per page and destination."""
    c = job["config"]
    collected = _Requests(c, load_terms(c["tokenizer"], c["stopwords"], c["unit"]), (0, job["candidates"]))
    places = job["candidates"] if c["wlp_negative"] == "corpus" else None
    links = read(job, "ranked", number).select(["doc", "link_start", "destination", "id"])
    rows = links.sort_by([("doc", "ascending"), ("link_start", "ascending")]).to_pylist()
    for _, group in itertools.groupby(rows, key=itemgetter("doc")):
        first: dict[int, Row] = {}
        for row in group:
            first.setdefault(row["destination"], row)
        destinations = list(first)
        for at, row in enumerate(first.values()):
            collected.add_wlp(row, destinations, at, places)
    return collected.tables()


class _Requests:
    """The requests and draws of one part, and what was dropped. Each request has its own generator: (seed, task, key)."""

    def __init__(self, c: Config, terms: Terms, places: tuple[int, int]) -> None:
        self.c, self.terms, self.places = c, terms, places
        self.sampler = make_sampler(c, terms)
        self.rows: list[Row] = []
        self.draws: dict[str, list[Row]] = {"qdm_draws": [], "acm_draws": [], "wlp_draws": []}
        self.dropped = DropCounts()

    def add(self, sentence: Sentence) -> None:
        tasks = self.c["tasks"]
        for index, anchor in enumerate(sentence.anchors):
            key = sentence.anchor_key(anchor)
            if "rqp" in tasks:
                self._try("rqp", key, partial(self._rqp, sentence, index))
            if "qdm" in tasks and qdm.chosen(anchor, self.c["qdm_positives"], self.c["qdm_positive"], self.c["seed"]):
                self._try("qdm", key, partial(self._qdm, sentence, index))
            if "adp" in tasks:
                self._try("adp", key, partial(self._adp, sentence, index))
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
        except NoPair as reason:
            self.dropped.add(f"{task}-{reason}", key)

    def _rqp(self, sentence: Sentence, index: int, rng: np.random.Generator) -> None:
        self._keep(rqp.request(sentence, index, self.terms, self.sampler, rng))

    def _qdm(self, sentence: Sentence, index: int, rng: np.random.Generator) -> None:
        if found := qdm.request(sentence, index, self.terms, self.sampler, rng):
            self._keep(found[0])
            self.draws["qdm_draws"].append(found[1]._asdict())

    def _adp(self, sentence: Sentence, index: int, rng: np.random.Generator) -> None:
        self._keep(adp.request(sentence, index, self.terms, self.sampler, rng, self.c["adp_window"]))

    def _rdp(self, sentence: Sentence, rng: np.random.Generator) -> None:
        c = self.c
        choices = c["rdp_direction"], c["rdp_repeats"], c["rdp_pairs"], c["rdp_contrast"]
        for request in rdp.requests(sentence, self.sampler, rng, *choices):
            self._keep(request)

    def _acm(self, sentence: Sentence, pair: tuple[int, int], rng: np.random.Generator) -> None:
        similar = self.c["acm_negative"] == "in_links"
        draws = self.c["acm_draws"]
        request, drawn = acm.request(sentence, pair, self.terms, self.sampler, rng, self.places, draws, similar)
        self._keep(request)
        self.draws["acm_draws"].extend(draw._asdict() for draw in drawn)

    def add_wlp(self, link: Row, destinations: list[int], at: int, places: int | None) -> None:
        def build(rng: np.random.Generator) -> None:
            where = link["id"], link["doc"], destinations, at, link["link_start"]
            request, drawn = wlp.request(*where, places, self.c["wlp_draws"], rng)
            self._keep(request)
            self.draws["wlp_draws"].extend(draw._asdict() for draw in drawn)

        self._try(wlp.TASK, f"{link['id']}@{link['link_start']}", build)

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
            **{name: table(name, rows) for name, rows in self.draws.items()},
            "losses": self.dropped.table(),
        }
