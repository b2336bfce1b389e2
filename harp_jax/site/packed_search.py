"""Searches what harp pack wrote: stands beside query.json as search.py, and imports nothing of harp_jax.

python search.py SERVER/INDEX "your query"    OpenSearch, Elasticsearch
python search.py "your query"                 LanceDB
"""

import itertools
import json
import math
import os
import sys
import unicodedata
import urllib.request
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
Scores = dict[str, dict[str, float]]  # part → id → score


@lru_cache
def plan() -> dict[str, Any]:
    """What query.json says: weights, and how to search."""
    return json.loads((HERE / "query.json").read_text(encoding="utf-8"))


def embed(query: str) -> list[float]:
    """The vector of a query. Requires sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(HERE / "encoder")).encode_query(query, normalize_embeddings=True).tolist()


def add_up(scores: Scores, weights: dict[str, float]) -> list[tuple[str, float]]:
    """(id, score) of all candidates, best first: the weighted sum of the parts, each scaled to 0…1. A part's missing score is 0."""
    total = dict.fromkeys((docid for by_id in scores.values() for docid in by_id), 0.0)
    for part, weight in weights.items():
        values = [scores[part].get(docid, 0.0) for docid in total]
        low, spread = min(values, default=0.0), max(values, default=0.0) - min(values, default=0.0)
        for docid, value in zip(total, values):
            total[docid] += weight * ((value - low) / spread if spread else 1.0)
    return sorted(total.items(), key=lambda item: -item[1])


def search_server(index: str, query: str, vector: list[float]) -> list[tuple[str, float]]:
    """(id, score) of the documents of OpenSearch or Elasticsearch, best first. `index`: URL of the server and index."""
    filled = json.dumps(plan()["queries"]).replace('"QUERY"', json.dumps(query)).replace('"VECTOR"', json.dumps(vector))
    queries = json.loads(filled)
    hits = ask(index, [{"size": plan()["depth"], "_source": False, "query": each} for each in queries.values()])
    ids = list({hit["_id"]: None for each in hits for hit in each})
    # Every part scores all candidates.
    only, words = {"ids": {"values": ids}}, [part for part in queries if part != "vectors"]
    searches = [{"_source": False, "query": {"bool": {"must": queries[part], "filter": only}}} for part in words]
    searches.append({"_source": ["in_links", "passages"], "query": only})
    *hits, candidates = ask(index, [{"size": max(1, len(ids)), **each} for each in searches])
    scores = {part: {hit["_id"]: hit["_score"] for hit in each} for part, each in zip(words, hits)}
    rows = {hit["_id"]: hit["_source"] for hit in candidates}
    scores["in-links"] = {docid: math.log1p(row["in_links"]) for docid, row in rows.items()}
    if vector:
        scores["vectors"] = {
            d: nearest(vector, [each["vector"] for each in row["passages"]]) for d, row in rows.items()
        }
    return add_up(scores, plan()["weights"])


def ask(index: str, searches: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The hits of each search."""
    body = "".join("{}\n" + json.dumps(each) + "\n" for each in searches)
    headers = {"Content-Type": "application/x-ndjson"}
    if "AUTHORIZATION" in os.environ:
        headers["Authorization"] = os.environ["AUTHORIZATION"]
    with urllib.request.urlopen(urllib.request.Request(f"{index}/_msearch", body.encode(), headers)) as answer:
        responses = json.load(answer)["responses"]
    if wrong := [each["error"] for each in responses if "error" in each]:
        sys.exit(f"error: {wrong[0]}")
    return [each["hits"]["hits"] for each in responses]


def nearest(vector: list[float], passages: list[list[float]]) -> float:
    """The largest cosine of unit vectors."""
    return max(sum(a * b for a, b in zip(vector, passage)) for passage in passages)


def search_table(query: str, vector: list[float]) -> list[tuple[str, float]]:
    """(id, score) of the documents of a table of LanceDB, best first. Requires lancedb, and what `terms_of` requires."""
    import lancedb
    from lancedb.query import MultiMatchQuery

    table, depth = lancedb.connect(str(HERE)).open_table("documents"), plan()["depth"]
    words = table.search(MultiMatchQuery(query, plan()["columns"]), query_type="fts")
    columns = ["id", "in_links", "terms", *plan()["impacts"].values()]
    hits = words.select([*columns, "_score"]).limit(plan()["fetched"]).to_list()
    best: list[str] = []
    if vector:
        near = table.search(vector, vector_column_name="vectors").distance_type("cosine")
        hits = near.select([*columns, "_distance"]).limit(plan()["fetched"]).to_list() + hits
        best = [row["id"] for row in hits[:depth]]
    rows = {row["id"]: row for row in hits}

    # The exact scores of all of these; the best of each part are the candidates.
    scores: Scores = {"in-links": {docid: math.log1p(row["in_links"]) for docid, row in rows.items()}}
    asked = Counter(terms_of(query))
    for part, column in plan()["impacts"].items():
        weights = {docid: zip(row["terms"], row[column]) for docid, row in rows.items()}
        scores[part] = {
            d: sum(asked[term] * weight for term, weight in each if term in asked) for d, each in weights.items()
        }
        best += [docid for docid in sorted(rows, key=lambda docid: -scores[part][docid])[:depth] if scores[part][docid]]
    scores = {part: {docid: by_id[docid] for docid in best} for part, by_id in scores.items()}
    if vector and best:
        ids = ", ".join("'" + docid.replace("'", "''") + "'" for docid in scores["in-links"])
        near = (
            table.search(vector, vector_column_name="vectors")
            .distance_type("cosine")
            .where(f"id IN ({ids})", prefilter=True)
        )
        hits = near.select(["id", "_distance"]).limit(len(best)).to_list()
        scores["vectors"] = {row["id"]: 1 - row["_distance"] for row in hits}
    return add_up(scores, plan()["weights"])


def terms_of(query: str) -> list[str]:
    """The terms of a query, as in the column "terms". Requires regex, and PyStemmer for languages with stems."""
    import regex

    how, words = plan()["words"], list[str]()
    for run in regex.findall(how["run"], unicodedata.normalize("NFKC", query).lower()):
        letters = regex.findall(how["letter"], run)  # of scripts without spaces, whose terms are pairs
        words += [*map("".join, itertools.pairwise(letters))] or letters or [run] * (len(run) > 1)
    words = [word for word in words if word not in how["stopwords"]]
    if not how["stems"]:
        return words
    import Stemmer

    return Stemmer.Stemmer(how["stems"]).stemWords(words)


if __name__ == "__main__":
    *server, question = sys.argv[1:]
    embedded = embed(question) if (HERE / "encoder").exists() else []
    ranked = search_server(server[0], question, embedded) if server else search_table(question, embedded)
    for docid, score in ranked[:10]:
        print(f"{score:.3f}  {docid}")
