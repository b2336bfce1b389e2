"""Answers queries and scores texts: loads a folder of `harp site`, or documents and a ranker; ranks, with passages and snippets."""

import os
import re
import threading
import time
from collections.abc import Collection as Container
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from harp_jax.base.files import read_json
from harp_jax.base.progress import progress
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.labels import tidy
from harp_jax.corpus.trec import read_queries
from harp_jax.ranking.first_stage import excluded_of, indexed
from harp_jax.ranking.fuse import ANCHORS, BM25, INLINKS, VECTORS
from harp_jax.ranking.lexical import make
from harp_jax.ranking.rerank import load_scorer, predict
from harp_jax.ranking.scorers import CPU_STEP, Scorer
from harp_jax.site.search import ENCODER, CombinedSearch, Scores, Settings
from harp_jax.text.languages import ENGLISH, function_words, lone_letters, pieces, splitter, stemmer

ANCHORS_SHOWN = 5  # per document
SUGGESTED = 200  # queries
READ = 20_000  # characters searched for a snippet
WORDS, PASSAGE_WORDS = 36, 150  # of a snippet; of a passage, if no model reads one
ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)  # addresses that a page may link to, not files or scripts
RERANKER = "re-ranker"  # the only model, if there is no site
SUM = "sum"
NOTHING = "Nothing found: no document has a word of the query, and none is near in meaning."

Segments = list[tuple[str, bool]]  # (text, whether it matches the query)


@dataclass(frozen=True)
class Sources:
    """What is searched: `site`, an output of `harp site`, or documents and a ranker (`docs`, `model`, `language`). `queries`: to
    suggest instead of the site's test queries; `labels`: the file of labels (labels.tsv, in the site); `backend` computes a
    ranker's scores."""

    site: str = ""
    model: str = ""
    docs: str = ""
    language: str = ENGLISH
    queries: str = ""
    labels: str = ""
    backend: str = "jax"


class RankerSearch(CombinedSearch):
    """BM25 and a ranker that reads the first tokens, without a site."""

    def __init__(self, sources: Sources) -> None:
        weights = {BM25: 1.0, RERANKER: 1.0}
        self.settings = Settings({}, weights, sources.language, models={RERANKER: sources.model})
        self.names, self.docs, self.anchors = [*weights], Documents.open(sources.docs), {}
        texts = progress(self.docs.texts(), total=len(self.docs), unit="documents", desc="index")
        self.collection = indexed(texts, "bm25", sources.language)
        self.ids, self.lexical = self.collection.docids, {BM25: make("bm25", self.collection, {})}
        self.vectors, self.models = None, {RERANKER: (load_scorer(sources.model, backend=sources.backend), None)}


class SearchSession:
    """Everything loaded to answer queries, for any number of threads; models score one query at a time. Scores when created, so
    that the first query does not wait for compilation. Raises InputError if something cannot be read."""

    def __init__(self, sources: Sources) -> None:
        self.sources, self.lock, site = sources, threading.Lock(), sources.site
        self.combined = CombinedSearch(site, backend=sources.backend) if site else RankerSearch(sources)
        self.docs, self.collection, settings = self.combined.docs, self.combined.collection, self.combined.settings
        self.fields = {
            field: Documents.open(self.docs.path, (field,)) for field in ("title", *([] if site else ["url"]))
        }
        # The model whose passages are returned: the ranker, which comes last, or else the vectors.
        self.reader = next((part for part in reversed(settings.weights) if part in self.combined.models), "")
        self.scorer, self.name = self._reranker()

        # Of a site: the verdict as one line, and test queries with the pages that they were taken from, which are no candidates.
        verdict, own = os.path.join(site, "verdict.json"), os.path.join(site, "pages", "queries.tsv")
        self.verdict = str(read_json(verdict).get("line", "")) if site and os.path.exists(verdict) else ""
        self.excluded: dict[str, set[str]] = {}
        queries = read_queries(sources.queries) if sources.queries else {}
        if site and not sources.queries and os.path.getsize(own):  # a site with few links has none
            queries = read_queries(own)
            for qid, docids in excluded_of(os.path.join(site, "pages", "sources.tsv")).items():
                self.excluded.setdefault(tidy(queries.get(qid, "")), set()).update(docids)
        most_used = (max(texts, key=lambda text: texts[text]) for texts in self.combined.anchors.values())
        self.suggested = (list(dict.fromkeys(queries.values())) or list(most_used))[:SUGGESTED]

        # Function words are not marked in snippets.
        self.language = settings.language
        words, stem = [*function_words(self.language)], stemmer(self.language)
        self.common = {*words, *(stem.stemWords(words) if stem else ())}

        # Compile the shapes of usual queries.
        if self.scorer:
            first = self.docs[next(iter(self.docs.ids()))]
            self.rerank("warm up", [first] * min(settings.depth, len(self.docs)))
            for repeated in (1, CPU_STEP):
                self.search("warm " * repeated)

    def _reranker(self) -> tuple[Scorer | None, str]:
        """What scores texts, and its name: a model in the recommended sum, else any model; rankers first, the last one trained."""
        site, backend, settings = self.sources.site, self.sources.backend, self.combined.settings
        if loaded := [*self.combined.models]:
            name = settings.encoder if loaded[-1] == VECTORS else loaded[-1]
            own = os.path.basename(os.path.normpath(self.sources.model))
            return self.combined.models[loaded[-1]][0], name if site else own
        if settings.models:
            part, folder = [*settings.models.items()][-1]
            return load_scorer(os.path.join(site, folder), max_length=settings.max_length, backend=backend), part
        return (
            (load_scorer(os.path.join(site, ENCODER), cosine=True), settings.encoder)
            if settings.encoder
            else (None, "")
        )

    def rerank(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """The model's scores [texts] float32 of their first tokens. Raises InputError if they are not finite."""
        assert self.scorer is not None
        with self.lock:
            return predict(self.scorer, [(query, text) for text in texts])

    def search(self, query: str, k: int = 10, explain: bool = False) -> dict[str, Any]:
        """The answer to GET /search: the best `k` documents, best first, as `CombinedSearch.search` ranks them.

        {"query", "results": [{"id", "title", "url", "passage", "score", "parts": {part: score}}], "candidates", "seconds",
        "message"}

        "passage" is the part of the text that the model of the sum scored best, or has words of the query. `explain` adds the best
        `k` documents of each part, and to every result "ranks" (by part, and "sum"), "anchors" [[text, count]] and "snippets":
        {part: segments} of its best window, and "" for a part that reads whole documents.
        """
        began = time.perf_counter()
        with self.lock:
            scores = self.combined.scores(query, self.excluded.get(query, frozenset()))
        total = scores.total(self.combined.settings.weights)
        ranked = {SUM: total}
        if explain:
            ranked |= {part: each for part, each in scores.parts.items() if part not in (ANCHORS, INLINKS)}
        ranks = {part: rankdata(-each, "ordinal") for part, each in ranked.items()}  # ties keep their order
        words = self.stems(query)
        results = []
        for i in np.argsort(-total, kind="stable").tolist():
            if min(int(rank[i]) for rank in ranks.values()) <= k:
                result = self._result(query, words, scores, i, explain) | {"score": round(float(total[i]), 6)}
                results.append(result | ({"ranks": {part: int(r[i]) for part, r in ranks.items()}} if explain else {}))
        return {
            "query": query,
            "results": results,
            "candidates": len(scores.docids),
            "seconds": round(time.perf_counter() - began, 4),
            "message": "" if results else NOTHING,
        }

    def _result(self, query: str, words: set[str], scores: Scores, i: int, explain: bool) -> dict[str, Any]:
        """Candidate number `i` of a query whose stems are `words`, without the score of the sum."""
        docid = scores.docids[i]
        text, field = self.docs[docid], {name: docs[docid] for name, docs in self.fields.items()}
        title = field["title"]
        body = text[len(title) :] if title and text.startswith(title) else text
        read = [*scores.windows] if explain else [self.reader] * bool(self.reader)
        windows = {part: self.combined.passage(part, query, docid, int(scores.windows[part][i])) for part in read}
        passage = windows.get(self.reader, "")
        passage = passage or "".join(text for text, _ in snippet(words, body, self.language, PASSAGE_WORDS))
        result: dict[str, Any] = {
            "id": docid,
            "title": title,
            "url": next((address for address in (field.get("url", ""), docid) if ADDRESS.fullmatch(address)), ""),
            "passage": passage,
            "parts": {part: round(float(each[i]), 6) for part, each in scores.parts.items()},
        }
        if explain:
            texts = {"": body} | {part: window for part, window in windows.items() if window}
            anchors = self.combined.anchors.get(docid, {})
            result["anchors"] = sorted(anchors.items(), key=lambda anchor: -anchor[1])[:ANCHORS_SHOWN]
            result["snippets"] = {part: snippet(words, each, self.language) for part, each in texts.items()}
        return result

    def stems(self, query: str) -> set[str]:
        """The query's stems, without function words (bm25s's short list of stopwords for English lets some through)."""
        words, stem = splitter(self.language)(query.lower()), stemmer(self.language)
        return {*(stem.stemWords(words) if stem else words), *lone_letters(query, self.language)} - self.common


def snippet(wanted: Container[str], text: str, language: str, words: int = WORDS) -> Segments:
    """The `words` words of `text` with the most distinct `wanted` stems (ties: first), or its beginning if none match."""
    text = " ".join(text[:READ].split())
    spans = pieces(text, language)
    if not spans:
        return [(text[:200], False)] if text else []
    # For each word the wanted stem that it equals or, in scripts without spaces, is a part of; else "".
    stems = [text[start:end].lower() for start, end in spans]
    if stem := stemmer(language):
        stems = stem.stemWords(stems)
    matching = [each if each in wanted else "" for each in stems]
    for n in range(1, len(spans)):
        pair = stems[n - 1] + stems[n]
        if spans[n - 1][1] == spans[n][0] and pair in wanted:
            matching[n - 1 : n + 1] = matching[n - 1] or pair, pair
    # The best window, and its parts.
    starts = [max(0, min(n - words // 4, len(spans) - words)) for n, stem in enumerate(matching) if stem]
    first = max(starts, key=lambda start: (len({*matching[start : start + words]} - {""}), -start), default=0)
    last = min(first + words, len(spans))
    segments: Segments = [("… ", False)] if first else []
    at = spans[first][0] if first else 0
    for (start, end), stem in zip(spans[first:last], matching[first:last]):
        if stem:
            segments += [(text[at:start], False), (text[start:end], True)]
            at = end
    end = spans[last][0] if last < len(spans) else len(text)
    segments += [(text[at:end].rstrip(), False), *([(" …", False)] if last < len(spans) else [])]
    return [segment for segment in segments if segment[0]]
