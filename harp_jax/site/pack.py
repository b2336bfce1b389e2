"""Writes the documents, vectors and query of a site for another search engine (`harp pack`): what it loads, and how.

OpenSearch and Elasticsearch rank nearly as `CombinedSearch` does:

    BM25F     The text and the anchor texts are two fields with their own BM25, and of each word the better field counts. With k1
              for the text and k1 / anchor_weight for anchors, that is BM25F for a word that occurs in one of the fields. Anchor
              texts are repeated for every link; a document without one has UNLINKED, so that mean length and idf are those over
              all documents.
    vectors   The cosine of the nearest passage.
    the sum   The candidates are the best `depth` of each query; every part then scores all of them (`packed_search`).

LanceDB's BM25 has fixed parameters, so there it only supplies candidates, and documents have the score of each of their terms
(`impacts`): the scores of a query are sums of these. Typesense ranks words by rules of its own; only vectors and weights are the
same. A ranker is left out: no engine computes it.
"""

import itertools
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import output_folder
from harp_jax.base.progress import progress
from harp_jax.corpus.documents import Documents
from harp_jax.ranking.first_stage import read_anchors
from harp_jax.ranking.fuse import ANCHORS, BM25, VECTORS
from harp_jax.ranking.lexical import MODELS
from harp_jax.ranking.vectors import PassageVectors, text_hashes
from harp_jax.site import packed_search
from harp_jax.site.search import (
    ANCHOR_TEXTS,
    DOCS,
    ENCODER,
    LEXICAL,
    VECTORS_FOLDER,
    CombinedSearch,
    Settings,
    documents,
)
from harp_jax.text.languages import ENGLISH, lexical_stopwords, primary, stemmer, word_patterns

UNLINKED = "unlinkeddocument"  # the anchor text of a document without links
MOST = 1000  # links of a document that are repeated; of more, each anchor text's share is kept
DIGITS = 5  # of numbers in JSON; vectors are stored as float16
COLUMNS = {BM25: ["text"], ANCHORS: ["text", "anchor_text"]}
NEIGHBOURS = 500  # searched by an approximate index
FETCHED = 200  # documents of each search that LanceDB's script scores
TIES = 0.1  # share of the worse field; BM25F is between 0 and 1, nearest here on two manuals
BULK = 20_000_000  # bytes per file of documents: engines limit a request
# Languages for which Lucene and Lance have Snowball stemmers of these names.
SNOWBALL = {
    "da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fi": "Finnish", "fr": "French", "hu": "Hungarian",
    "it": "Italian", "nl": "Dutch", "no": "Norwegian", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish",
    "tr": "Turkish",
}  # fmt: skip
BIGRAMS = frozenset({"ja", "ko", "zh"})
Rows = Iterator[dict[str, Any]]  # see `records`
Files = dict[str, Any]  # name → text, or a value to write as JSON


@dataclass(frozen=True)
class Packed:
    """The number of documents and passages, and the parts of the sum that the engine does not compute."""

    documents: int
    passages: int
    left_out: tuple[str, ...]


def pack(folder: str, engine: str, output: str) -> Packed:
    """Writes what `engine`, one of ENGINES, loads into the folder `output`. Raises InputError for an unfinished site, for one that
    only a ranker searches, and if a package is missing."""
    settings, docs = Settings.load(folder), documents(folder)
    weights = {part: weight for part, weight in settings.weights.items() if part not in settings.models}
    left_out = tuple(part for part in settings.weights if part not in weights)
    if not weights:
        raise InputError(f"{folder} ranks by {', '.join(left_out)} alone, which no engine computes")

    # The vectors of each document.
    vectors: Iterable[np.ndarray] = itertools.repeat(np.zeros((0, 0), np.float16))
    size = passages = 0
    if settings.encoder:
        place, encoder = (os.path.join(folder, name) for name in (VECTORS_FOLDER, ENCODER))
        stored = PassageVectors(place, encoder, settings.windows, text_hashes(docs))
        vectors, size, passages = map(stored.of, range(len(docs))), stored.encoder.size, int(stored.counts().sum())

    scored = impacts(folder) if engine in ("jsonl", "lancedb") else itertools.repeat(dict[str, list]())
    with output_folder(output) as new:
        rows, query = records(folder, vectors, scored), {"weights": weights, "depth": settings.depth}
        for name, content in ENGINES[engine](rows, size, settings, query, new).items():
            text = content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False)
            Path(new, name).write_text(text, encoding="utf-8")
        if engine not in ("jsonl", "typesense"):
            shutil.copyfile(packed_search.__file__, os.path.join(new, "search.py"))
        if settings.encoder:
            shutil.copytree(os.path.join(folder, ENCODER), os.path.join(new, ENCODER))
    return Packed(len(docs), passages, left_out)


def records(
    folder: str, vectors: Iterable[np.ndarray], scored: Iterable[Mapping[str, list]]
) -> Iterator[dict[str, Any]]:
    """The documents of a site; "anchor_text" has all anchor texts as one text, for BM25; then what is `scored` (see `impacts`).
    "vectors": those of its passages [passages, size] float16, no rows without an encoder."""
    anchors = read_anchors(os.path.join(folder, ANCHOR_TEXTS))
    titles, bodies = (Documents.open(os.path.join(folder, DOCS), (field,)) for field in ("title", "body"))
    rows = zip(titles.texts(), bodies.texts(), scored, vectors)
    for (docid, title), (_, body), terms, passages in progress(rows, total=len(titles), unit="documents", desc="pack"):
        links = anchors.get(docid, {})
        in_links = sum(links.values())
        share = min(1.0, MOST / max(1, in_links))
        repeated = ["\n".join([text] * math.ceil(count * share)) for text, count in links.items()]
        yield {
            "id": docid,
            "title": title,
            "body": body,
            "anchor_text": "\n".join(repeated) or UNLINKED,
            "in_links": in_links,
            "anchors": [{"text": text, "count": count} for text, count in links.items()],
            **terms,
            "vectors": passages,
        }


def impacts(site: str) -> Iterator[dict[str, list]]:
    """The terms of each document, and what each adds to the score of a query that has it: {"terms", "bm25", "bm25f"}. Terms are
    stems. The score of a query is the sum over its terms, with repetitions."""
    search = CombinedSearch(site, [BM25])
    terms, rows = list[str](), list[np.ndarray]()
    for term, number in progress(search.collection.vocabulary.items(), unit="terms", desc="impacts"):
        scores = [search.lexical[part].scores([number])[0] for part in LEXICAL]
        documents = np.flatnonzero(np.maximum(*scores)) if term else np.zeros(0, np.int64)
        rows.append(
            np.stack([documents, np.full(len(documents), len(terms)), *(each[documents] for each in scores)], 1)
        )
        terms.append(term)
    table = np.concatenate(rows)
    table = table[np.argsort(table[:, 0], kind="stable")]
    for each in np.split(table, np.searchsorted(table[:, 0], np.arange(1, len(search.ids)))):
        columns = np.round(each[:, 2:], DIGITS).T.tolist()
        yield {"terms": [terms[int(number)] for number in each[:, 1]], **dict(zip(LEXICAL.values(), columns))}


def _lucene(engine: str, rows: Rows, size: int, settings: Settings, query: Files, folder: str) -> Files:
    """OpenSearch and Elasticsearch."""

    def lines() -> Iterator[str]:
        for row in rows:
            vectors = [{"vector": vector} for vector in rounded(row.pop("vectors"))]
            yield f"{_json({'index': {'_id': row.pop('id')}})}\n{_json(row | {'passages': vectors})}\n"

    _write_lines(folder, ".ndjson", lines())

    # A query for each part, with QUERY and VECTOR in place of what is searched for. BM25 always supplies candidates.
    queries: dict[str, Any] = {
        part: {"multi_match": {"query": "QUERY", "type": "cross_fields", "fields": fields, "tie_breaker": TIES}}
        for part, fields in COLUMNS.items()
    }
    if size:
        near: dict[str, Any] = {"field": "passages.vector", "query_vector": "VECTOR", "num_candidates": NEIGHBOURS}
        if engine == "opensearch":
            near = {"passages.vector": {"vector": "VECTOR", "k": NEIGHBOURS}}
        queries[VECTORS] = {"nested": {"path": "passages", "score_mode": "max", "query": {"knn": near}}}
    return {
        "index.json": _index(settings, engine == "opensearch", size),
        "query.json": query | {"queries": queries},
        "README.txt": REST_README.format(engine=engine),
    }


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

    # BM25F's parameters as those of two fields.
    both = {**MODELS["bm25f"], **settings.parameters["bm25f"]}
    text = both if ANCHORS in settings.weights else {**MODELS["bm25"], **settings.parameters["bm25"]}
    similarity = {
        "text": {"type": "BM25", "k1": text["k1"], "b": text["b"]},
        "anchors": {"type": "BM25", "k1": both["k1"] / max(both["anchor_weight"], 1e-9), "b": both["anchor_b"]},
    }

    words: dict[str, Any] = {"type": "text", "analyzer": "words"}
    fields: dict[str, Any] = {
        "title": words | {"copy_to": "text"},
        "body": words | {"copy_to": "text"},
        "text": words | {"similarity": "text"},
        "anchor_text": words | {"similarity": "anchors"},
        "anchors": {"type": "object", "enabled": False},
        "in_links": {"type": "integer"},
    }
    vector = {"type": "dense_vector", "dims": size, "similarity": "cosine", "index_options": {"type": "hnsw"}}
    if opensearch:
        method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
        vector = {"type": "knn_vector", "dimension": size, "method": method}
    if size:
        fields["passages"] = {"type": "nested", "properties": {"vector": vector}}
    index = {
        "number_of_shards": 1,
        "similarity": similarity,
        "analysis": {"tokenizer": {"words": tokenizer}, "filter": filters, "analyzer": analyzer},
        **({"knn": True} if opensearch else {}),
    }
    return {"settings": {"index": index}, "mappings": {"dynamic": False, "properties": fields}}


def _typesense(rows: Rows, size: int, settings: Settings, query: Files, folder: str) -> Files:
    """Each passage is a document with the whole text, grouped by `document`: a field of Typesense has one vector."""

    def lines() -> Iterator[str]:
        for row in rows:
            docid, vectors = row.pop("id"), rounded(row.pop("vectors"))
            del row["anchor_text"]
            row |= {"document": docid, "anchors": [anchor["text"] for anchor in row["anchors"]]}
            for number, vector in enumerate(vectors or [[]]):
                yield _json(row | {"id": f"{docid} {number}"} | ({"vector": vector} if vector else {})) + "\n"

    _write_lines(folder, ".jsonl", lines())
    words: dict[str, Any] = {"locale": primary(settings.language)}
    words |= {"stem": True} if primary(settings.language) in SNOWBALL else {}
    fields: list[dict[str, Any]] = [
        {"name": "document", "type": "string", "facet": True},
        {"name": "in_links", "type": "int32"},
        *({"name": name, "type": "string", **words} for name in ("title", "body")),
        {"name": "anchors", "type": "string[]", **words},
    ]
    search: dict[str, Any] = {
        "collection": "harp", "q": "QUERY", "query_by": "anchors,title,body", "query_by_weights": "3,2,1", "group_by": "document",
        "group_limit": 1, "exclude_fields": "vector,body", "per_page": 10,
    }  # fmt: skip
    if size:
        fields.append({"name": "vector", "type": "float[]", "num_dim": size, "vec_dist": "cosine"})
        share = settings.weights.get(VECTORS, 0.0) / sum(settings.weights.values())
        search["vector_query"] = f"vector:(VECTOR, k: {settings.depth}, alpha: {share:.2f})"
    return {
        "schema.json": {"name": "harp", "fields": fields},
        "query.json": {"searches": [search]},
        "README.txt": TYPESENSE_README,
    }


def _jsonl(rows: Rows, size: int, settings: Settings, query: Files, folder: str) -> Files:
    _write_lines(folder, ".jsonl", (_json(row | {"vectors": rounded(row["vectors"])}) + "\n" for row in rows))
    words = {"impacts": LEXICAL, "words": query_words(settings.language)}
    return {"query.json": query | words, "README.txt": JSONL_README}


def _lancedb(rows: Rows, size: int, settings: Settings, query: Files, folder: str) -> Files:
    """A table with the vectors of all passages in one column, and full text indices of texts and anchor texts."""
    with needs("--for=lancedb", "lancedb", "lancedb"):
        import lancedb
        from lancedb.index import FTS
    import pyarrow as pa

    columns: dict[str, Any] = {name: pa.string() for name in ("id", "title", "text", "anchor_text")}
    columns |= {"in_links": pa.int64(), "terms": pa.list_(pa.string())}
    columns |= {name: pa.list_(pa.float32()) for name in LEXICAL.values()}
    columns |= {"vectors": pa.list_(pa.list_(pa.float16(), size))} if size else {}
    schema = pa.schema(columns)

    def batches() -> Iterator[Any]:
        for row in rows:
            text = f"{row['title']} {row['body']}".strip()
            record = row | {"text": text, "vectors": [*map(list, row["vectors"])]}
            yield pa.RecordBatch.from_pylist([{name: record[name] for name in columns}], schema)

    table = lancedb.connect(folder).create_table("documents", pa.RecordBatchReader.from_batches(schema, batches()))
    code, unspaced = primary(settings.language), primary(settings.language) in BIGRAMS
    for column in COLUMNS[ANCHORS]:
        table.create_index(column, config=FTS(
            base_tokenizer="ngram" if unspaced else "simple", ngram_min_length=2, ngram_max_length=2, ascii_folding=False,
            language=SNOWBALL.get(code, "English"), stem=code in SNOWBALL, custom_stop_words=lexical_stopwords(settings.language),
        ))  # fmt: skip
    query |= {"columns": COLUMNS[ANCHORS], "fetched": FETCHED, "impacts": LEXICAL}
    return {"query.json": query | {"words": query_words(settings.language)}, "README.txt": LANCE_README}


def query_words(language: str) -> dict[str, Any]:
    """How `packed_search.terms_of` makes the terms of a query."""
    run, letter = (r"\b\w\w+\b", "(?!)") if primary(language) == ENGLISH else [each.pattern for each in word_patterns()]
    stems = primary(language) if stemmer(language) else ""
    return {"run": run, "letter": letter, "stopwords": lexical_stopwords(language), "stems": stems}


# What else is written.
REST_README = """The documents and the query of a site made by harp, for {engine}

    SERVER=http://localhost:9200
    curl -X PUT -H Content-Type:application/json -d @index.json $SERVER/harp
    for file in documents-*; do curl -H Content-Type:application/x-ndjson --data-binary @$file -o /dev/null $SERVER/harp/_bulk; done
    python search.py $SERVER/harp "your query"

index.json: analysis, BM25's parameters, fields. query.json: the weights, and each part's query with QUERY and VECTOR to fill in.
search.py sends the queries and adds up the scores. It embeds the query with sentence-transformers and the model in encoder/.
For a server with a password: export AUTHORIZATION="Basic $(printf USER:PASSWORD | base64)".
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

    pip install lancedb PyStemmer regex sentence-transformers
    python search.py "your query"

terms, bm25, bm25f: a document's terms, and what each adds to a score; the score of a query is the sum over its terms. query.json
has the weights of the parts. search.py adds up the scores; its functions can be imported.
"""
JSONL_README = """documents-*.jsonl: one document a line; vectors: of its passages, unit length; bm25, bm25f: what each of its terms
adds to a score. query.json: the weights of the sum, and how a query is split into terms.
"""


def rounded(vectors: np.ndarray) -> list[list[float]]:
    """Vectors for JSON."""
    return np.round(vectors.astype(np.float64), DIGITS).tolist()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


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


# Engine → a function of the documents, the size of vectors, settings, the beginning of query.json, and the folder, into which it
# writes the documents; it returns the other files.
ENGINES: dict[str, Callable[[Rows, int, Settings, Files, str], Files]] = {
    "opensearch": partial(_lucene, "opensearch"), "elasticsearch": partial(_lucene, "elasticsearch"), "typesense": _typesense,
    "jsonl": _jsonl, "lancedb": _lancedb,
}  # fmt: skip
