"""Documents, index, ranker and anchor texts in memory, and a query's rankings by BM25, the ranker and their sum."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harp_jax.base.progress import progress
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.labels import tidy
from harp_jax.corpus.trec import read_queries
from harp_jax.look.snippets import snippet
from harp_jax.look.sources import Sources
from harp_jax.ranking.fuse import normalised
from harp_jax.ranking.lexical.anchors import anchor_rows
from harp_jax.ranking.lexical.first_stage import candidates, excluded_of, indexed, settings_of
from harp_jax.ranking.lexical.models import Collection, Model, make
from harp_jax.ranking.reranker import load_scorer
from harp_jax.ranking.scoring import Scorer
from harp_jax.text.stems import Stemmer, stemmer_of

SHOWN = 10  # results of each ranking
CALLED = 5  # anchor texts of a document
PROPOSED = 200  # queries


@dataclass
class Shelf:
    """Everything that a query needs. One query is scored at a time: `lock`."""

    sources: Sources
    docs: Documents
    titles: Documents | None
    collection: Collection
    model: Model
    scorer: Scorer
    stemmer: Stemmer | None
    anchors: dict[str, list[tuple[str, int]]]
    proposed: list[str]
    excluded: dict[str, set[str]]  # query → pages that it was taken from: they have its words
    depth: int
    lock: threading.Lock

    @classmethod
    def load(cls, sources: Sources, stemmer: str = "english", depth: int = 20, backend: str = "jax") -> "Shelf":
        """Reads and indexes everything, and scores once, so that the first query does not wait for a compiler.

        Raises InputError for what cannot be read.
        """
        sources.check()
        ((parameters, _),) = settings_of("bm25", {}, sources.parameters, "", {})
        docs = Documents.open(sources.docs, sources.fields)
        titled = "title" in sources.fields and len(sources.fields) > 1
        texts = progress(docs.texts(), total=len(docs), unit="documents", desc="index")
        collection = indexed(texts, "bm25", stemmer)
        called: dict[str, list[tuple[str, int]]] = {}
        for docid, text, count in anchor_rows(sources.anchors) if sources.anchors else ():
            called.setdefault(docid, []).append((text, count))
        anchors = {docid: sorted(rows, key=lambda row: -row[1])[:CALLED] for docid, rows in called.items()}
        asked = read_queries(sources.queries) if sources.queries else {}
        queries = list(dict.fromkeys(asked.values()))
        excluded: dict[str, set[str]] = {}
        for qid, docids in excluded_of(sources.exclude).items():
            if qid in asked:
                excluded.setdefault(tidy(asked[qid]), set()).update(docids)
        shelf = cls(
            sources,
            docs,
            Documents.open(sources.docs, ("title",)) if titled else None,
            collection,
            make("bm25", collection, parameters),
            load_scorer(sources.model, backend=backend),
            stemmer_of(stemmer),
            anchors,
            (queries or [rows[0][0] for rows in anchors.values()])[:PROPOSED],
            excluded,
            depth,
            threading.Lock(),
        )
        first = next(iter(docs.ids()))
        shelf.scores("warm up", [first] * min(depth, len(docs)))
        return shelf

    def scores(self, query: str, docids: Sequence[str]) -> np.ndarray:
        """The ranker's scores [documents] float32."""
        (asked,) = self.scorer.encode_queries([query])
        documents = self.scorer.encode_documents([self.docs[docid] for docid in docids])
        return self.scorer.score([self.scorer.pair(asked, document) for document in documents])

    def search(self, query: str) -> dict[str, Any]:
        """The rankings of a query, and what is shown of their documents.

        {"rankings": [{"name", "results": [{"docid", "score", "rank", "before"}]}], "documents": {docid: {…}}, "seconds"};
        "before" is the rank by BM25.
        """
        began = time.perf_counter()
        with self.lock:
            barred = self.excluded.get(query, set())
            docids, lexical = candidates(self.model, self.collection, query, self.depth, barred)
            ranked = self.scores(query, docids) if docids else np.zeros(0)
        both = np.zeros(0)
        if docids:
            both = normalised(np.asarray(lexical, np.float64), "minmax")
            both = both + self.sources.weight * normalised(ranked.astype(np.float64), "minmax")
        rankings = {"BM25": np.asarray(lexical), "Re-ranker": ranked, "Both": both}
        results = {name: _results(docids, scores) for name, scores in rankings.items()}
        wanted = self.stems(query)
        shown = dict.fromkeys(hit["docid"] for hits in results.values() for hit in hits)
        return {
            "query": query,
            "rankings": [{"name": name, "results": hits} for name, hits in results.items()],
            "documents": {docid: self.document(wanted, docid) for docid in shown},
            "candidates": len(docids),
            "seconds": round(time.perf_counter() - began, 3),
        }

    def stems(self, query: str) -> set[str]:
        """The stems of a query that BM25 matches: no stopwords."""
        numbers = set(self.collection.query(query))
        return {stem for stem, number in self.collection.vocabulary.items() if number in numbers} if numbers else set()

    def document(self, wanted: set[str], docid: str) -> dict[str, Any]:
        """Title, snippet with the `wanted` stems, and what other pages call a document."""
        text, title = self.docs[docid], self.titles[docid] if self.titles else ""
        body = text[len(title) :] if title and text.startswith(title) else text
        return {"title": title, "snippet": snippet(wanted, body, self.stemmer), "anchors": self.anchors.get(docid, [])}


def _results(docids: Sequence[str], scores: np.ndarray) -> list[dict[str, Any]]:
    """The best results of a ranking; ties in BM25's order."""
    order = np.argsort(-scores, kind="stable")[:SHOWN].tolist()
    return [
        {"docid": docids[place], "score": round(float(scores[place]), 4), "rank": rank, "before": place + 1}
        for rank, place in enumerate(order, 1)
    ]
