"""The page's routes, including POST /v1/rerank, as an ASGI application on the loopback interface.

Requests are answered only if their Host header names the loopback interface, against DNS rebinding. Labels are accepted only
as JSON and only from this page. Errors are a status and {"error": "a sentence"}.

`POST /v1/rerank` has the format shared by Cohere, Jina, vLLM and Infinity:

    {"model": "any", "query": "…", "documents": ["…", {"text": "…"}], "top_n": 2, "return_documents": false}
    {"model": "ranker", "results": [{"index": 1, "relevance_score": 0.98}, {"index": 0, "relevance_score": 0.02}]}

Scores are sigmoids of a ranker's logits, or an encoder's cosines, best first, ties in the order of the documents. Long documents
are truncated. Unknown fields are ignored.
"""

import asyncio
import json
import logging
import signal
import socket
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.corpus.labels import LEVELS, LabelFile, tidy
from harp_jax.look.shelf import Shelf
from harp_jax.ranking.fuse import sum_in_words
from harp_jax.ranking.scorers import BiEncoderScorer

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

HOST = "127.0.0.1"
HOSTS = [HOST, "localhost"]
LONGEST_QUERY = 1000  # characters
LARGEST_BODY = 2_000_000  # bytes
MOST_DOCUMENTS = 1000  # per request
STATIC = {
    "/": ("look.html", "text/html"),
    "/look.css": ("look.css", "text/css"),
    "/look.js": ("look.js", "text/javascript"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
END = 2  # seconds for open requests when the server shuts down


@dataclass
class RequestError(Exception):
    """What is wrong with a request: the HTTP status and a sentence."""

    status: int
    message: str


def make_app(shelf: Shelf, labels: LabelFile) -> "Starlette":
    """The application. Raises InputError if Starlette is not installed."""
    with needs("the page", "starlette", "look"):
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.exceptions import HTTPException
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route

    def answer(content: Any, status: int = 200) -> Response:
        return JSONResponse(content, status, headers=HEADERS)

    async def static(request: "Request") -> Response:
        name, kind = STATIC[request.url.path]
        text = resources.files("harp_jax.look").joinpath("static", name).read_text("utf-8")
        return Response(text, media_type=kind, headers=HEADERS)

    async def about(_: "Request") -> Response:
        return answer(described(shelf, labels))

    async def search(request: "Request") -> Response:
        query = tidy(text_of(request.query_params.get("q", ""), "q", LONGEST_QUERY))
        found = await run_in_threadpool(shelf.search, query)
        return answer({**found, "levels": labels.of(query)})

    async def label(request: "Request") -> Response:
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{request.headers['host']}":
            raise RequestError(403, "labels are accepted from this page only")
        return answer(await run_in_threadpool(labelled, shelf, labels, await read_object(request)))

    async def rerank(request: "Request") -> Response:
        return answer(await run_in_threadpool(reranked, shelf, await read_object(request)))

    async def failed(_: "Request", error: Exception) -> Response:
        if isinstance(error, RequestError):
            return answer({"error": error.message}, error.status)
        if isinstance(error, HTTPException):
            return answer({"error": error.detail}, error.status_code)
        return answer({"error": str(error)}, 500)

    return Starlette(
        routes=[
            *(Route(path, static, methods=["GET"]) for path in STATIC),
            Route("/about", about, methods=["GET"]),
            Route("/search", search, methods=["GET"]),
            Route("/label", label, methods=["POST"]),
            Route("/v1/rerank", rerank, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
        exception_handlers=dict.fromkeys((RequestError, HTTPException, InputError, OSError), failed),
    )


async def read_object(request: "Request") -> dict[str, Any]:
    """The JSON object in a body. RequestError: 415 for another content type, 413 for a large body, 400 for invalid JSON."""
    from starlette.requests import ClientDisconnect

    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError(415, f"content type {kind or 'none'}: send application/json")
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_BODY:
                raise RequestError(413, f"the body is larger than {LARGEST_BODY:,} bytes; send fewer documents")
        found = json.loads(body)
    except (ClientDisconnect, asyncio.CancelledError) as error:  # cancelled: the server is shutting down
        raise RequestError(400, "the connection closed within the body") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body is not JSON ({error}); send an object") from error
    if not isinstance(found, dict):
        raise RequestError(422, "the body is JSON but not an object; send an object with named fields")
    return found


def text_of(value: object, name: str, longest: int, shortest: int = 1) -> str:
    """A string of valid length and Unicode. Raises RequestError 422."""
    if not isinstance(value, str) or not shortest <= len(value) <= longest or len(value.strip()) < shortest:
        raise RequestError(422, f"`{name}` must be a text of {shortest} to {longest:,} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RequestError(422, f"`{name}` contains half a surrogate pair; send valid Unicode") from None
    return value


def described(shelf: Shelf, labels: LabelFile) -> dict[str, Any]:
    """The answer to GET /about."""
    return {
        "documents": len(shelf.collection),
        "model": sum_in_words(shelf.combined.settings.weights) if shelf.combined else shelf.name,
        "weight": shelf.sources.weight,
        "verdict": shelf.sources.verdict,
        "queries": shelf.proposed,
        **_counts(labels),
    }


def _counts(labels: LabelFile) -> dict[str, Any]:
    return {"labels": len(labels), "labelled": labels.queries, "file": labels.path}


def labelled(shelf: Shelf, labels: LabelFile, found: dict[str, Any]) -> dict[str, Any]:
    """Stores a label and returns the answer to POST /label. Raises RequestError 422 for wrong fields."""
    query, docid = (text_of(found.get(name), name, LONGEST_QUERY) for name in ("query", "docid"))
    query, level = tidy(query), found.get("level")
    if "level" not in found or (level is not None and (type(level) is not int or level not in LEVELS)):
        raise RequestError(422, f"`level` must be one of {LEVELS}, or null to remove the label")
    if docid not in shelf.docs:
        raise RequestError(422, f"no document {docid!r}")
    labels.set(query, docid, level)
    return {"levels": labels.of(query), **_counts(labels)}


def reranked(shelf: Shelf, found: dict[str, Any]) -> dict[str, Any]:
    """The answer to POST /v1/rerank. Raises RequestError: 422 for wrong types, 413 for too many documents."""
    query, given = text_of(found.get("query"), "query", LONGEST_QUERY), found.get("documents")
    if not isinstance(given, list) or not given:
        raise RequestError(422, "`documents` must be a list of one or more texts")
    if len(given) > MOST_DOCUMENTS:
        raise RequestError(413, f"{len(given)} documents; send at most {MOST_DOCUMENTS}")
    documents = [entry.get("text") if isinstance(entry, dict) else entry for entry in given]
    texts = [text_of(document, "documents", LARGEST_BODY, 0) for document in documents]
    top, with_documents = found.get("top_n"), found.get("return_documents")
    if top is not None and (type(top) is not int or top < 1):
        raise RequestError(422, "`top_n` must be a whole number of 1 or more")
    if not isinstance(with_documents, bool | None):
        raise RequestError(422, "`return_documents` must be true or false")
    if shelf.scorer is None:
        raise RequestError(404, "this search has no model that scores texts; harp site --encoder or --train adds one")
    found_scores = shelf.scores(query, texts).astype(np.float64)
    cosines = isinstance(shelf.scorer, BiEncoderScorer)
    # The sigmoid of logits, without overflow.
    scores = np.clip(found_scores, 0.0, 1.0) if cosines else 0.5 * (1.0 + np.tanh(0.5 * found_scores))
    results: list[dict[str, Any]] = [
        {"index": i, "relevance_score": float(scores[i])} | ({"document": {"text": texts[i]}} if with_documents else {})
        for i in np.argsort(-found_scores, kind="stable")[:top].tolist()
    ]
    return {"model": shelf.name, "results": results}


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0: any free port. Raises InputError if the port is taken."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen()
    except (OSError, OverflowError) as error:
        found.close()
        raise InputError(f"--port={port}: {error}; choose another, or 0 for any free one") from error
    return found


def serve(app: "Starlette", listening: socket.socket) -> None:
    """Serves until the process is interrupted; requests still open `END` seconds later are dropped."""
    with needs("the page", "uvicorn", "look"):
        import uvicorn
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=END, lifespan="off"
    )
    # Requests that are dropped at the end are no errors.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # another Ctrl-C, while the last search ends, would print a traceback
        raise
