"""Loads model, documents and queries for the page, and computes a query's rankings and snippets."""

import os
import re
import threading
import time
from collections.abc import Collection as Container
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json
from harp_jax.base.progress import progress
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.labels import tidy
from harp_jax.corpus.trec import read_queries
from harp_jax.ranking.first_stage import anchor_rows, candidates, excluded_of, indexed, settings_of
from harp_jax.ranking.fuse import ANCHORS, BM25, INLINKS, normalised
from harp_jax.ranking.lexical import make
from harp_jax.ranking.rerank import load_scorer
from harp_jax.ranking.scorers import PairTexts, Scorer, Windows, best_of
from harp_jax.site.options import FIELDS as SITE_FIELDS
from harp_jax.site.search import ANCHOR_TEXTS, DOCS, CombinedSearch, Settings, passage_of
from harp_jax.text.languages import ENGLISH, function_words, lone_letters, pieces, stemmer

SHOWN = 10  # results of each ranking
CALLED = 5  # anchor texts per document
PROPOSED = 200  # suggested queries
READ = 20_000  # characters searched for a snippet
WINDOW = 36  # words of a snippet
LABELS = "labels.tsv"
ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)  # addresses that the page links to, not files or scripts
ALONE = "re-ranker"  # name of the only model if there is no site

Segments = list[tuple[str, bool]]  # (text, whether it matches the query)


@dataclass(frozen=True)
class Sources:
    """Paths of model, documents and queries. `exclude` has "qid docid" lines of pages to leave out; `parameters` are BM25's,
    from `harp tune-first-stage`.

    `weight` is the ranker's weight in the sum with BM25 (both scaled to 0…1); `language` is for stemming and stopwords. `site` is
    an output of `harp site`, whose recommended sum ranks; `verdict` is its verdict as one line.
    """

    model: str = ""
    docs: str = ""
    fields: tuple[str, ...] = FIELDS
    anchors: str = ""
    queries: str = ""
    exclude: str = ""
    parameters: str = ""
    labels: str = ""
    weight: float = 1.0
    verdict: str = ""
    language: str = ""
    site: str = ""

    def check(self) -> None:
        """InputError unless documents are given, and a model or a site; and for a weight out of range."""
        absent = [f"--{name}" for name in ("model", "docs") if not (getattr(self, name) or self.site)]
        wrong = "" if 0 <= self.weight <= 1000 else f"--weight={self.weight:g}: use 0 to 1000"
        if absent:
            wrong = f"no {' and no '.join(absent)}; give both, or the output directory of `harp site`"
        if wrong:
            raise InputError(wrong)


def of_site(folder: str, labels: str = "", queries: str = "") -> Sources:
    """The sources in the output of `harp site`. Raises InputError for an unfinished one.

    `queries` replaces the suggested ones, which are the test queries.
    """
    language = Settings.load(folder).language
    verdict = os.path.join(folder, "verdict.json")
    own = [os.path.join(folder, "pages", name) for name in ("queries.tsv", "sources.tsv")]
    asked, exclude = (path if os.path.exists(path) and not queries else "" for path in own)
    return Sources(
        docs=os.path.join(folder, DOCS),
        fields=SITE_FIELDS,
        anchors=os.path.join(folder, ANCHOR_TEXTS),
        queries=queries or asked,
        exclude=exclude,
        labels=labels or os.path.join(folder, LABELS),
        language=language,
        verdict=str(read_json(verdict).get("line", "")) if os.path.exists(verdict) else "",
        site=folder,
    )


class Shelf:
    """Everything loaded to answer queries. Scores one query at a time.

    Scores once when created, so that the first query does not wait for compilation. Raises InputError if something cannot be read.
    """

    def __init__(self, sources: Sources, depth: int = 20, backend: str = "jax") -> None:
        self.sources, self.depth, self.language = sources, depth, sources.language or ENGLISH
        self.docs = Documents.open(sources.docs, sources.fields)
        titled = "title" in sources.fields and len(sources.fields) > 1
        self.titles = Documents.open(sources.docs, ("title",)) if titled else None
        addressed = "url" in sources.fields and len(sources.fields) > 1
        self.urls = Documents.open(sources.docs, ("url",)) if addressed else None
        self.combined = CombinedSearch(sources.site, backend=backend) if sources.site else None
        if self.combined:
            self.collection = self.combined.collection
        else:
            texts = progress(self.docs.texts(), total=len(self.docs), unit="documents", desc="index")
            self.collection = indexed(texts, "bm25", self.language)
            ((parameters, _),) = settings_of("bm25", {}, sources.parameters, "", {})
            self.model = make("bm25", self.collection, parameters)
        called: dict[str, list[tuple[str, int]]] = {}
        for docid, text, count in anchor_rows(sources.anchors) if sources.anchors else ():
            called.setdefault(docid, []).append((text, count))
        self.anchors = {docid: sorted(rows, key=lambda row: -row[1])[:CALLED] for docid, rows in called.items()}
        asked = read_queries(sources.queries) if sources.queries else {}
        proposed = list(dict.fromkeys(asked.values())) or [rows[0][0] for rows in self.anchors.values()]
        self.proposed = proposed[:PROPOSED]
        self.excluded: dict[str, set[str]] = {}  # query → pages whose links it was taken from
        for qid, docids in excluded_of(sources.exclude).items():
            if qid in asked:
                self.excluded.setdefault(tidy(asked[qid]), set()).update(docids)
        self.scorer: Scorer | None = None
        self.name = os.path.basename(os.path.normpath(sources.model))  # of what answers /v1/rerank
        if not self.combined:
            self.scorer = load_scorer(sources.model, backend=backend)
        elif self.combined.scorers:  # the one trained on labels, if a site has both
            self.name, (self.scorer, _) = [*self.combined.scorers.items()][-1]
        elif self.combined.vectors:
            self.name, self.scorer = self.combined.settings.encoder, self.combined.vectors.encoder
        self.lock = threading.Lock()
        if self.scorer:
            first = next(iter(self.docs.ids()))
            self.scores("warm up", [self.docs[first]] * min(depth, len(self.docs)))

    def scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """The ranker's scores [texts] float32. Raises InputError if they are not finite."""
        assert self.scorer is not None
        with self.lock:
            (asked,) = self.scorer.encode_queries([query])
            documents = self.scorer.encode_documents(list(texts))
            return best_of(self.scorer, [(asked, document) for document in documents], None)

    def search(self, query: str) -> dict[str, Any]:
        """The rankings of a query, and the documents to display.

        {"rankings": [{"name", "passage", "results": [{"docid", "score", "rank", "before"}]}], "documents": {docid: {…}},
        "candidates", "seconds"}; "before" is the rank by BM25, "passage" the part of the sum whose passages the ranking shows.
        """
        began, best, read = time.perf_counter(), dict[str, np.ndarray](), dict[str, str]()
        barred = self.excluded.get(query, set())
        if self.combined:
            with self.lock:
                docids, parts, best = found = self.combined.scores(query, barred)
            weights = self.combined.settings.weights
            rankings = {"BM25": parts[BM25], "Recommended": found.total(weights)}
            for name in parts:
                if name not in (BM25, ANCHORS, INLINKS):
                    rankings[name.capitalize()], read[name.capitalize()] = parts[name], name
                    read["Recommended"] = name  # the ranker, which comes last, or else the vectors
        else:
            docids, lexical = candidates(self.model, self.collection, query, self.depth, barred)
            ranked = both = np.zeros(0)
            if docids:
                ranked = self.scores(query, [self.docs[docid] for docid in docids])
                both = normalised(np.asarray(lexical, np.float64), "minmax")
                both = both + self.sources.weight * normalised(ranked.astype(np.float64), "minmax")
            rankings = {"BM25": np.asarray(lexical), "Re-ranker": ranked, "Both": both}
            best, read = {ALONE: np.zeros(len(docids), int)}, {"Re-ranker": ALONE, "Both": ALONE}
        before = {place: rank for rank, place in enumerate(np.argsort(-rankings["BM25"], kind="stable").tolist(), 1)}
        results = {name: _results(docids, scores, before) for name, scores in rankings.items()}
        wanted = self.stems(query)
        place = {docid: number for number, docid in enumerate(docids)}
        shown = dict.fromkeys(hit["docid"] for hits in results.values() for hit in hits)
        return {
            "query": query,
            "rankings": [{"name": n, "passage": read.get(n, ""), "results": hits} for n, hits in results.items()],
            "documents": {
                docid: self.document(
                    wanted, docid, query, {part: int(each[place[docid]]) for part, each in best.items()}
                )
                for docid in shown
            },
            "candidates": len(docids),
            "seconds": round(time.perf_counter() - began, 3),
        }

    def stems(self, query: str) -> set[str]:
        """The query's stems that BM25 matches, without stopwords (bm25s's short list for English lets some through)."""
        numbers, found = set(self.collection.query(query)), stemmer(self.language)
        words = [*function_words(self.language)]
        common = {*words, *(found.stemWords(words) if found else ())}
        known = {s for s, n in self.collection.vocabulary.items() if n in numbers} if numbers else set()
        return (known | {*lone_letters(query, self.language)}) - common

    def document(
        self, wanted: set[str], docid: str, query: str = "", best: Mapping[str, int] = MappingProxyType({})
    ) -> dict[str, Any]:
        """A document's title, address to open ("" if it has none), snippet with the `wanted` stems and anchor texts.

        "passages": part → snippet of its best window, whose number is in `best`; a part that reads the whole document has none.
        Without a site the only window is the beginning.
        """
        text, title = self.docs[docid], self.titles[docid] if self.titles else ""
        body = text[len(title) :] if title and text.startswith(title) else text
        if self.combined:
            scored = {part: self.combined.passage(part, query, docid, n) for part, n in best.items()}
        elif isinstance(ranker := self.scorer, PairTexts):
            scored = {part: passage_of(ranker, query, text, Windows(1), n) for part, n in best.items()}
        else:
            scored = {}
        addresses = (self.urls[docid] if self.urls else "", docid)
        return {
            "title": title,
            "address": next((address for address in addresses if ADDRESS.fullmatch(address)), ""),
            "snippet": snippet(wanted, body, self.language),
            "anchors": self.anchors.get(docid, []),
            "passages": {part: snippet(wanted, passage, self.language) for part, passage in scored.items() if passage},
        }


def _results(docids: Sequence[str], scores: np.ndarray, before: Mapping[int, int]) -> list[dict[str, Any]]:
    """The top results of a ranking; ties keep the order of the candidates. `before`: index of a candidate → its BM25 rank."""
    order = np.argsort(-scores, kind="stable")[:SHOWN].tolist()
    return [
        {"docid": docids[place], "score": round(float(scores[place]), 4), "rank": rank, "before": before[place]}
        for rank, place in enumerate(order, 1)
    ]


def snippet(wanted: Container[str], text: str, language: str) -> Segments:
    """The window of `text` with the most distinct `wanted` stems (ties: first), or its beginning if none match."""
    text = " ".join(text[:READ].split())
    spans = pieces(text, language)
    if not spans:
        return [(text[:200], False)] if text else []
    matching = _matching(wanted, text, spans, language)
    matches = [place for place, stem in enumerate(matching) if stem]
    first = 0
    if matches:
        starts = [max(0, min(place - WINDOW // 4, len(spans) - WINDOW)) for place in matches]
        first = max(starts, key=lambda start: (len(set(filter(None, matching[start : start + WINDOW]))), -start))
    last = min(first + WINDOW, len(spans))
    found: Segments = []
    at = spans[first][0] if first else 0
    for place in range(first, last):
        start, end = spans[place]
        if matching[place]:
            found += [(text[at:start], False), (text[start:end], True)]
            at = end
    end = spans[last][0] if last < len(spans) else len(text)
    found.append((text[at:end].rstrip(), False))
    return [
        *([("… ", False)] if first else []),
        *((part, matched) for part, matched in found if part),
        *([(" …", False)] if last < len(spans) else []),
    ]


def _matching(wanted: Container[str], text: str, spans: list[tuple[int, int]], language: str) -> list[str]:
    """For each span the wanted stem that it equals or, in scripts without spaces, is a part of; else ""."""
    stems = [text[start:end].lower() for start, end in spans]
    if found := stemmer(language):
        stems = found.stemWords(stems)
    matching = [stem if stem in wanted else "" for stem in stems]
    for place in range(1, len(spans)):
        pair = stems[place - 1] + stems[place]
        if spans[place - 1][1] == spans[place][0] and pair in wanted:
            matching[place - 1 : place + 1] = matching[place - 1] or pair, pair
    return matching
