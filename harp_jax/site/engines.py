"""What `harp pack` writes for each search engine: the documents, the fields and their analysis, the query, and how to load them.

OpenSearch and Elasticsearch rank nearly as `CombinedSearch` does:

    BM25F     The text and the anchor texts are two fields with their own BM25, and of each word the better field counts. With k1
              for the text and k1 / anchor_weight for anchors, that is BM25F for a word that occurs in one of the fields. Anchor
              texts are repeated for every link; a document without one has UNLINKED, so that mean length and idf are those over
              all documents.
    vectors   The cosine of the nearest passage.
    the sum   The candidates are the best `depth` of each query; every part then scores all of them (`add_up`).

LanceDB's BM25 has fixed parameters, and Typesense ranks words by rules of its own; there only vectors and weights are the same.
"""

import inspect
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harp_jax.ranking.fuse import ANCHORS, BM25, VECTORS
from harp_jax.ranking.lexical import MODELS
from harp_jax.site.search import Settings
from harp_jax.text.languages import lexical_stopwords, primary

UNLINKED = "unlinkeddocument"  # the anchor text of a document without links
MOST = 1000  # links of a document that are repeated; of more, each anchor text's share is kept
DIGITS = 5  # of vectors in JSON; they are stored as float16
COLUMNS = {BM25: ["text"], ANCHORS: ["text", "anchor_text"]}
DEEP = 500  # hits of each query where the engine adds up, and searched neighbours
TIES = 0.1  # share of the worse field; BM25F is between 0 and 1, nearest here on two manuals
BULK = 20_000_000  # bytes per file of documents: engines limit a request
# Languages for which Lucene and Lance have Snowball stemmers of these names.
SNOWBALL = {
    "da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fi": "Finnish", "fr": "French", "hu": "Hungarian",
    "it": "Italian", "nl": "Dutch", "no": "Norwegian", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish",
    "tr": "Turkish",
}  # fmt: skip
BIGRAMS = frozenset({"ja", "ko", "zh"})


@dataclass(frozen=True)
class Record:
    """A document: `anchors`: (text, number of links); `vectors` [passages, size] float16, no rows without an encoder."""

    docid: str
    title: str
    body: str
    anchors: tuple[tuple[str, int], ...]
    vectors: np.ndarray

    @property
    def in_links(self) -> int:
        return sum(count for _, count in self.anchors)

    @property
    def anchor_text(self) -> str:
        """All anchor texts as one text, for BM25."""
        share = min(1.0, MOST / max(1, self.in_links))
        return "\n".join("\n".join([text] * math.ceil(count * share)) for text, count in self.anchors) or UNLINKED

    @property
    def passages(self) -> list[list[float]]:
        """The vectors, for JSON."""
        return [[round(value, DIGITS) for value in row] for row in self.vectors.astype(np.float64).tolist()]


def add_up(scores: dict[str, dict[str, float]], weights: dict[str, float]) -> list[tuple[str, float]]:
    """(id, score) of all candidates, best first: the weighted sum of the parts, each scaled to 0…1. A part's missing score is 0."""
    total = dict.fromkeys((docid for found in scores.values() for docid in found), 0.0)
    for part, weight in weights.items():
        values = [scores[part].get(docid, 0.0) for docid in total]
        low, spread = min(values, default=0.0), max(values, default=0.0) - min(values, default=0.0)
        for docid, value in zip(total, values):
            total[docid] += weight * ((value - low) / spread if spread else 1.0)
    return sorted(total.items(), key=lambda item: -item[1])


def nearest(vector: list[float], passages: list[list[float]]) -> float:
    """The largest cosine of unit vectors."""
    return max(sum(a * b for a, b in zip(vector, passage)) for passage in passages)


def _lucene(rows: Iterable[Record], settings: Settings, engine: str, folder: str) -> None:
    """OpenSearch and Elasticsearch."""
    opensearch, size = engine == "opensearch", 0

    def lines() -> Iterator[str]:
        nonlocal size
        for row in rows:
            size = row.vectors.shape[1]
            record = _fields(row) | {"passages": [{"vector": vector} for vector in row.passages]}
            yield f"{_json({'index': {'_id': row.docid}})}\n{_json(record)}\n"

    _write_lines(folder, ".ndjson", lines())

    # A query for each part, with QUERY and VECTOR in place of what is searched for. BM25 always supplies candidates.
    queries: dict[str, Any] = {
        part: {"multi_match": {"query": "QUERY", "type": "cross_fields", "fields": fields, "tie_breaker": TIES}}
        for part, fields in COLUMNS.items()
    }
    if size:
        near: dict[str, Any] = {"field": "passages.vector", "query_vector": "VECTOR", "num_candidates": DEEP}
        if opensearch:
            near = {"passages.vector": {"vector": "VECTOR", "k": DEEP}}
        queries[VECTORS] = {"nested": {"path": "passages", "score_mode": "max", "query": {"knn": near}}}
    files = {"index.json": _index(settings, opensearch, size), "query.json": _query(settings, {"queries": queries})}

    # OpenSearch also adds up by itself.
    if opensearch:
        used = [part for part in queries if part in settings.weights]
        how = {"weights": [settings.weights[part] / sum(settings.weights[each] for each in used) for part in used]}
        step = {
            "normalization": {"technique": "min_max"},
            "combination": {"technique": "arithmetic_mean", "parameters": how},
        }
        files["pipeline.json"] = {"phase_results_processors": [{"normalization-processor": step}]}
        hybrid = {"pagination_depth": DEEP, "queries": [queries[part] for part in used]}
        files["hybrid.json"] = {"size": 10, "query": {"hybrid": hybrid}}
    for name, value in files.items():
        _write(folder, name, _json(value, indent=1))
    _write(folder, "search.py", _script(REST))
    _write(folder, "README.txt", REST_README.format(engine=engine) + (HYBRID_README if opensearch else ""))


def _index(settings: Settings, opensearch: bool, size: int) -> dict[str, Any]:
    """Analysis, similarities and fields of an index for vectors of `size` numbers."""
    # Words as in `text.languages`, or as near as Lucene has them.
    code = primary(settings.language)
    tokenizer: dict[str, Any] = {"type": "pattern", "pattern": r"(?U)\b\w\w+\b", "group": 0}
    filters: dict[str, Any] = {"function_words": {"type": "stop", "stopwords": lexical_stopwords(settings.language)}}
    order = ["lowercase", "function_words"]
    if code in BIGRAMS or code == "th":
        tokenizer = {"type": "thai" if code == "th" else "standard"}
        order = ["cjk_width", "lowercase", "cjk_bigram", "function_words"]
    elif code in SNOWBALL:
        filters["stems"] = {"type": "snowball", "language": SNOWBALL[code]}
        order.append("stems")
    analyzer = {"words": {"type": "custom", "tokenizer": "words", "filter": order}}
    analysis = {"tokenizer": {"words": tokenizer}, "filter": filters, "analyzer": analyzer}

    # BM25F's parameters as those of two fields.
    both = {**MODELS["bm25f"], **settings.parameters["bm25f"]}
    text = both if ANCHORS in settings.weights else {**MODELS["bm25"], **settings.parameters["bm25"]}
    anchors = {"k1": both["k1"] / max(both["anchor_weight"], 1e-9), "b": both["anchor_b"]}
    similarity = {"text": {"k1": text["k1"], "b": text["b"]}, "anchors": anchors}

    words: dict[str, Any] = {"type": "text", "analyzer": "words"}
    fields: dict[str, Any] = {
        "title": words | {"copy_to": "text"},
        "body": words | {"copy_to": "text"},
        "text": words | {"similarity": "text"},
        "anchor_text": words | {"similarity": "anchors"},
        "anchors": {"type": "object", "enabled": False},
        "in_links": {"type": "integer"},
    }
    if size and opensearch:
        method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
        vector = {"type": "knn_vector", "dimension": size, "method": method}
    else:
        vector = {"type": "dense_vector", "dims": size, "similarity": "cosine", "index_options": {"type": "hnsw"}}
    if size:
        fields["passages"] = {"type": "nested", "properties": {"vector": vector}}
    index = {
        "number_of_shards": 1,
        "similarity": {name: {"type": "BM25", **values} for name, values in similarity.items()},
    }
    more = {"analysis": analysis} | ({"knn": True} if opensearch else {})
    return {"settings": {"index": index | more}, "mappings": {"dynamic": False, "properties": fields}}


def _typesense(rows: Iterable[Record], settings: Settings, engine: str, folder: str) -> None:
    """Each passage is a document with the whole text, grouped by `document`: a field of Typesense has one vector."""
    size = 0

    def lines() -> Iterator[str]:
        nonlocal size
        for row in rows:
            size = row.vectors.shape[1]
            anchors = [text for text, _ in row.anchors]
            record = {
                "document": row.docid,
                "title": row.title,
                "body": row.body,
                "anchors": anchors,
                "in_links": row.in_links,
            }
            for number, vector in enumerate(row.passages or [[]]):
                yield _json(record | {"id": f"{row.docid} {number}"} | ({"vector": vector} if vector else {})) + "\n"

    _write_lines(folder, ".jsonl", lines())
    stems = {"stem": True} if primary(settings.language) in SNOWBALL else {}
    fields: list[dict[str, Any]] = [
        {"name": "document", "type": "string", "facet": True},
        {"name": "in_links", "type": "int32"},
    ]
    kinds = {"title": "string", "body": "string", "anchors": "string[]"}
    fields += [
        {"name": name, "type": kind, "locale": primary(settings.language), **stems} for name, kind in kinds.items()
    ]
    search: dict[str, Any] = {
        "collection": "harp", "q": "QUERY", "query_by": "anchors,title,body", "query_by_weights": "3,2,1", "group_by": "document",
        "group_limit": 1, "exclude_fields": "vector,body", "per_page": 10,
    }  # fmt: skip
    if size:
        fields.append({"name": "vector", "type": "float[]", "num_dim": size, "vec_dist": "cosine"})
        share = settings.weights.get(VECTORS, 0.0) / sum(settings.weights.values())
        search["vector_query"] = f"vector:(VECTOR, k: {settings.depth}, alpha: {share:.2f})"
    _write(folder, "schema.json", _json({"name": "harp", "fields": fields}, indent=1))
    _write(folder, "query.json", _json({"searches": [search]}, indent=1))
    _write(folder, "README.txt", TYPESENSE_README)


def _jsonl(rows: Iterable[Record], settings: Settings, engine: str, folder: str) -> None:
    lines = (_json({"id": row.docid} | _fields(row) | {"vectors": row.passages}) + "\n" for row in rows)
    _write_lines(folder, ".jsonl", lines)
    _write(folder, "query.json", _json(_query(settings, {"parameters": settings.parameters}), indent=1))
    text = "documents-*.jsonl: one document a line; vectors: of its passages, unit length. query.json: the weights of the sum.\n"
    _write(folder, "README.txt", text)


def _lancedb(rows: Iterable[Record], settings: Settings, engine: str, folder: str) -> None:
    """A table with the vectors of all passages in one column, and full text indices of texts and anchor texts."""
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS

    first, rows = next(iterator := iter(rows)), iterator
    columns = {
        "id": pa.string(),
        "title": pa.string(),
        "text": pa.string(),
        "anchor_text": pa.string(),
        "in_links": pa.int64(),
    }
    if size := first.vectors.shape[1]:
        columns["vectors"] = pa.list_(pa.list_(pa.float16(), size))
    schema = pa.schema(columns)

    def batches() -> Iterator[Any]:
        for row in itertools.chain([first], rows):
            record = {
                "id": row.docid,
                "text": f"{row.title} {row.body}".strip(),
                "vectors": [*map(list, row.vectors)],
            } | _fields(row)
            yield pa.RecordBatch.from_pylist([{name: record[name] for name in columns}], schema)

    table = lancedb.connect(folder).create_table("documents", pa.RecordBatchReader.from_batches(schema, batches()))
    code, unspaced = primary(settings.language), primary(settings.language) in BIGRAMS
    for column in ("text", "anchor_text"):
        table.create_index(column, config=FTS(
            base_tokenizer="ngram" if unspaced else "simple", ngram_min_length=2, ngram_max_length=2, ascii_folding=False,
            language=SNOWBALL.get(code, "English"), stem=code in SNOWBALL, custom_stop_words=lexical_stopwords(settings.language),
        ))  # fmt: skip
    _write(folder, "query.json", _json(_query(settings, {"columns": COLUMNS}), indent=1))
    _write(folder, "search.py", _script(LANCE))
    _write(folder, "README.txt", LANCE_README)


# The text of the files, besides add_up.
SCRIPT = '''"""Searches what harp pack wrote: {usage} """

import json
import math
import os
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLAN = json.loads((HERE / "query.json").read_text(encoding="utf-8"))


def embed(query: str) -> list[float]:
    """The vector of a query. Requires sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(HERE / "encoder")).encode_query(query, normalize_embeddings=True).tolist()


{add_up}

{nearest}

{search}

if __name__ == "__main__":
    *where, query = sys.argv[1:]
    vector = embed(query) if (HERE / "encoder").exists() else []
    for docid, score in search(*where, query, vector)[:10]:
        print(f"{score:.3f}  {docid}")
'''
REST = '''def ask(index: str, searches: list[dict]) -> list[list[dict]]:
    """The hits of each search. `index`: URL of the server and index."""
    body = "".join("{}\\n" + json.dumps(each) + "\\n" for each in searches)
    headers = {"Content-Type": "application/x-ndjson"}
    if "AUTHORIZATION" in os.environ:
        headers["Authorization"] = os.environ["AUTHORIZATION"]
    with urllib.request.urlopen(urllib.request.Request(f"{index}/_msearch", body.encode(), headers)) as answer:
        found = json.load(answer)["responses"]
    if wrong := [each["error"] for each in found if "error" in each]:
        sys.exit(f"error: {wrong[0]}")
    return [each["hits"]["hits"] for each in found]


def search(index: str, query: str, vector: list[float]) -> list[tuple[str, float]]:
    """(id, score), best first."""
    filled = json.dumps(PLAN["queries"]).replace('"QUERY"', json.dumps(query)).replace('"VECTOR"', json.dumps(vector))
    queries = json.loads(filled)
    found = ask(index, [{"size": PLAN["depth"], "_source": False, "query": each} for each in queries.values()])
    ids = list({hit["_id"]: None for hits in found for hit in hits})
    # Every part scores all candidates.
    only, words = {"ids": {"values": ids}}, [part for part in queries if part != "vectors"]
    searches = [{"_source": False, "query": {"bool": {"must": queries[part], "filter": only}}} for part in words]
    searches.append({"_source": ["in_links", "passages"], "query": only})
    *found, candidates = ask(index, [{"size": max(1, len(ids)), **each} for each in searches])
    scores = {part: {hit["_id"]: hit["_score"] for hit in hits} for part, hits in zip(words, found)}
    rows = {hit["_id"]: hit["_source"] for hit in candidates}
    scores["in-links"] = {docid: math.log1p(row["in_links"]) for docid, row in rows.items()}
    if vector:
        scores["vectors"] = {d: nearest(vector, [each["vector"] for each in row["passages"]]) for d, row in rows.items()}
    return add_up(scores, PLAN["weights"])
'''
LANCE = '''def search(query: str, vector: list[float]) -> list[tuple[str, float]]:
    """(id, score), best first. Requires lancedb."""
    import lancedb
    from lancedb.query import MultiMatchQuery

    table, depth = lancedb.connect(str(HERE)).open_table("documents"), PLAN["depth"]
    words = {part: MultiMatchQuery(query, columns) for part, columns in PLAN["columns"].items()}
    found = [table.search(each, query_type="fts").select(["id", "_score"]).limit(depth).to_list() for each in words.values()]
    if vector:
        near = table.search(vector, vector_column_name="vectors").distance_type("cosine")
        found.append(near.select(["id", "_distance"]).limit(depth).to_list())
    ids = list({row["id"]: None for rows in found for row in rows})
    if not ids:
        return []
    # Every part scores all candidates.
    only = "id IN ({})".format(", ".join(repr_sql(docid) for docid in ids))
    scores = {}
    for part, each in words.items():
        rows = table.search(each, query_type="fts").where(only, prefilter=True)
        scores[part] = {row["id"]: row["_score"] for row in rows.select(["id", "_score"]).limit(len(ids)).to_list()}
    columns = ["id", "in_links", *(["vectors"] if vector else [])]
    rows = table.search().where(only).select(columns).limit(len(ids)).to_list()
    scores["in-links"] = {row["id"]: math.log1p(row["in_links"]) for row in rows}
    if vector:
        scores["vectors"] = {row["id"]: nearest(vector, row["vectors"]) for row in rows}
    return add_up(scores, PLAN["weights"])


def repr_sql(text: str) -> str:
    quote = chr(39)
    return quote + text.replace(quote, 2 * quote) + quote
'''
REST_README = """The documents and the query of a site made by harp, for {engine}

    SERVER=http://localhost:9200
    curl -X PUT -H Content-Type:application/json -d @index.json $SERVER/harp
    for file in documents-*; do curl -H Content-Type:application/x-ndjson --data-binary @$file -o /dev/null $SERVER/harp/_bulk; done
    python search.py $SERVER/harp "your query"

index.json: analysis, BM25's parameters, fields. query.json: the weights, and each part's query with QUERY and VECTOR to fill in.
search.py sends the queries and adds up the scores. It embeds the query with sentence-transformers and the model in encoder/.
For a server with a password: export AUTHORIZATION="Basic $(printf USER:PASSWORD | base64)".
"""
HYBRID_README = """
In one request (OpenSearch 2.19 or newer; a coarser sum, without in-links): fill in QUERY and VECTOR in hybrid.json.

    curl -X PUT -H Content-Type:application/json -d @pipeline.json $SERVER/_search/pipeline/harp
    curl -H Content-Type:application/json -d @hybrid.json "$SERVER/harp/_search?search_pipeline=harp"
"""
TYPESENSE_README = """The documents and the query of a site made by harp, for Typesense

    SERVER=http://localhost:8108 KEY="X-TYPESENSE-API-KEY: xyz"
    curl -H "$KEY" -d @schema.json $SERVER/collections
    for file in documents-*; do curl -H "$KEY" --data-binary @$file "$SERVER/collections/harp/documents/import?action=upsert"; done
    curl -H "$KEY" -d @query.json $SERVER/multi_search

In query.json replace QUERY, and VECTOR by the query's vector by the model in encoder/ (sentence-transformers: encode_query).
Typesense ranks words by rules of its own, so its ranking differs from harp's.
"""
LANCE_README = """The documents and the query of a site made by harp, as the table "documents" of LanceDB

    pip install lancedb sentence-transformers
    python search.py "your query"

query.json has the weights. search.py searches the words and the vectors, and adds up the scores; its functions can be imported.
"""


def _script(search: str) -> str:
    """The text of search.py."""
    usage = 'python search.py SERVER/INDEX "query"' if search is REST else 'python search.py "query"'
    parts = {"usage": usage, "search": search}
    parts |= {function.__name__: inspect.getsource(function) for function in (add_up, nearest)}
    text = SCRIPT
    for name, value in parts.items():
        text = text.replace("{" + name + "}", value)
    return text


def _query(settings: Settings, more: dict[str, Any]) -> dict[str, Any]:
    """The sum, for search.py."""
    weights = {part: weight for part, weight in settings.weights.items() if part not in settings.models}
    return {"weights": weights, "depth": settings.depth, **more}


def _fields(row: Record) -> dict[str, Any]:
    """What all engines store of a document, besides its id and vectors."""
    anchors = [{"text": text, "count": count} for text, count in row.anchors]
    return {
        "title": row.title, "body": row.body, "anchor_text": row.anchor_text, "in_links": row.in_links, "anchors": anchors,
    }  # fmt: skip


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def _write_lines(folder: str, suffix: str, lines: Iterable[str]) -> None:
    """documents-000SUFFIX, documents-001SUFFIX, … of about BULK bytes each."""
    lines = iter(lines)
    for number in itertools.count():
        first = next(lines, "")
        if not first:
            return
        with open(os.path.join(folder, f"documents-{number:03}{suffix}"), "w", encoding="utf-8") as file:
            file.write(first)
            while file.tell() < BULK and (line := next(lines, "")):
                file.write(line)


Writer = Callable[[Iterable[Record], Settings, str, str], None]
ENGINES: dict[str, Writer] = {
    "opensearch": _lucene, "elasticsearch": _lucene, "typesense": _typesense, "jsonl": _jsonl, "lancedb": _lancedb,
}  # fmt: skip
