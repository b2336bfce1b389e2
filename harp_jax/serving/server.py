"""The routes of `harp serve` and `harp look` as an ASGI application, and the processes that serve it.

    GET /search?q=…&k=10    the best documents, with passages and scores (`SearchSession.search`); &explain=1: more of each
    POST /v1/rerank         scores of texts; also at /v2/rerank and /rerank
    GET /healthz            {"status": "ok", "documents": …, "model": …}, once everything is loaded

`POST /v1/rerank` has the format shared by Cohere, Jina, vLLM and Infinity:

    {"model": "any", "query": "…", "documents": ["…", {"text": "…"}], "top_n": 2, "return_documents": false}
    {"model": "ranker", "results": [{"index": 1, "relevance_score": 0.98}, {"index": 0, "relevance_score": 0.02}]}

With "texts" instead of "documents" it has that of Text Embeddings Inference: {"query": "…", "texts": ["…"], "return_text": false},
and [{"index": 1, "score": 0.98}, …]. Scores are sigmoids of a ranker's logits, or an encoder's cosines, best first, ties in the
order of the documents. Long documents are truncated. Unknown fields are ignored.

Errors are a status and {"error": "a sentence"}. On the loopback interface, requests are answered only if their Host header names
it, against DNS rebinding. The page of `harp look` and its labels (GET /about, POST /label) are served there only; labels are
accepted only as JSON and only from this page. The server has no passwords and no TLS: elsewhere put a proxy before it.
"""

import asyncio
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import threading
from importlib import resources
from types import FrameType
from typing import Any

import numpy as np

from harp_jax.base.cli import ending_well, keep_compiled
from harp_jax.base.errors import InputError, Terminated, needs
from harp_jax.base.steps import end_with_parent
from harp_jax.corpus.labels import LEVELS, LabelFile, tidy
from harp_jax.ranking.fuse import sum_in_words
from harp_jax.ranking.scorers import BiEncoderScorer
from harp_jax.serving.session import SearchSession, Sources

with needs("the server", "starlette", "look"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

HOST = "127.0.0.1"
LOOPBACK = [HOST, "localhost"]
LONGEST_QUERY = 1000  # characters
MOST_RESULTS = 100
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


def make_app(session: SearchSession, labels: LabelFile | None = None, host: str = HOST) -> Starlette:
    """The application; with `labels`, the page too."""
    site, weights = session.sources.site, session.combined.settings.weights
    summary = {"documents": len(session.collection), "model": sum_in_words(weights) if site else session.name}

    def answer(content: Any, status: int = 200) -> Response:
        return JSONResponse(content, status, headers=HEADERS)

    async def failed(_: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 500)  # of HTTPException
        return answer({"error": getattr(error, "detail", str(error))}, status)

    async def health(_: Request) -> Response:
        return answer({"status": "ok", **summary})

    def search(request: Request) -> Response:  # not async: Starlette runs it in a thread
        query = tidy(text_of(request.query_params.get("q", ""), "q", LONGEST_QUERY))
        k = request.query_params.get("k", "10")
        if not k.isascii() or not k.isdecimal() or len(k) > 3 or not 1 <= int(k) <= MOST_RESULTS:
            raise HTTPException(422, f"`k` must be a whole number of 1 to {MOST_RESULTS}")
        explain = request.query_params.get("explain", "") not in ("", "0", "false")
        results = session.search(query, int(k), explain)
        return answer(results if labels is None else {**results, "levels": labels.of(query)})

    async def rerank(request: Request) -> Response:
        return answer(await run_in_threadpool(reranked, session, await read_object(request)))

    routes = [
        Route("/search", search, methods=["GET"]),
        *(Route(path, rerank, methods=["POST"]) for path in ("/v1/rerank", "/v2/rerank", "/rerank")),
        Route("/healthz", health, methods=["GET"]),
    ]
    if labels is not None:  # the page

        async def static(request: Request) -> Response:
            name, kind = STATIC[request.url.path]
            text = resources.files("harp_jax.serving").joinpath("static", name).read_text("utf-8")
            return Response(text, media_type=kind, headers=HEADERS)

        async def about(_: Request) -> Response:
            shown = {"sum": "Recommended" if site else "Both", "reader": session.reader}
            proposed = {"verdict": session.verdict, "queries": session.suggested}
            return answer(summary | shown | proposed | counts(labels))

        async def label(request: Request) -> Response:
            origin = request.headers.get("origin")
            if origin is not None and origin != f"http://{request.headers['host']}":
                raise HTTPException(403, "labels are accepted from this page only")
            body = await read_object(request)
            query, docid = (text_of(body.get(name), name, LONGEST_QUERY) for name in ("query", "docid"))
            level = body.get("level")
            if "level" not in body or (level is not None and (type(level) is not int or level not in LEVELS)):
                raise HTTPException(422, f"`level` must be one of {LEVELS}, or null to remove the label")
            if docid not in session.docs:
                raise HTTPException(422, f"no document {docid!r}")
            await run_in_threadpool(labels.set, tidy(query), docid, level)
            return answer({"levels": labels.of(query), **counts(labels)})

        routes += [Route(path, static, methods=["GET"]) for path in STATIC]
        routes += [Route("/about", about, methods=["GET"]), Route("/label", label, methods=["POST"])]

    return Starlette(
        routes=routes,
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK if host in LOOPBACK else ["*"], www_redirect=False)
        ],
        exception_handlers=dict.fromkeys((HTTPException, InputError, OSError), failed),
    )


def counts(labels: LabelFile) -> dict[str, Any]:
    levels = labels.levels()
    return {"labels": len(levels), "labelled": len({query for query, _ in levels}), "file": labels.path}


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object in a body. HTTPException: 415 for another content type, 413 for a large body, 400 for invalid JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"content type {kind or 'none'}: send application/json")
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_BODY:
                raise HTTPException(413, f"the body is larger than {LARGEST_BODY:,} bytes; send fewer documents")
        parsed = json.loads(body)
    except (ClientDisconnect, asyncio.CancelledError) as error:  # cancelled: the server is shutting down
        raise HTTPException(400, "the connection closed within the body") from error
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON ({error}); send an object") from error
    if not isinstance(parsed, dict):
        raise HTTPException(422, "the body is JSON but not an object; send an object with named fields")
    return parsed


def text_of(value: object, name: str, longest: int, shortest: int = 1) -> str:
    """A string of valid length and Unicode. Raises HTTPException 422."""
    if not isinstance(value, str) or not shortest <= len(value) <= longest or len(value.strip()) < shortest:
        raise HTTPException(422, f"`{name}` must be a text of {shortest} to {longest:,} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise HTTPException(422, f"`{name}` contains half a surrogate pair; send valid Unicode") from None
    return value


def reranked(session: SearchSession, body: dict[str, Any]) -> dict[str, Any] | list[dict[str, Any]]:
    """The answer to POST /v1/rerank. Raises HTTPException: 422 for wrong types, 413 for too many documents."""
    # Two formats: with "texts", that of Text Embeddings Inference.
    name, returns, score = "documents", "return_documents", "relevance_score"
    if "texts" in body and "documents" not in body:
        name, returns, score = "texts", "return_text", "score"
    query, given = text_of(body.get("query"), "query", LONGEST_QUERY), body.get(name)
    if not isinstance(given, list) or not given:
        raise HTTPException(422, f"`{name}` must be a list of one or more texts")
    if len(given) > MOST_DOCUMENTS:
        raise HTTPException(413, f"{len(given)} documents; send at most {MOST_DOCUMENTS}")
    texts = [text_of(one.get("text") if isinstance(one, dict) else one, name, LARGEST_BODY, 0) for one in given]
    top, with_texts = body.get("top_n"), body.get(returns)
    if top is not None and (type(top) is not int or top < 1):
        raise HTTPException(422, "`top_n` must be a whole number of 1 or more")
    if not isinstance(with_texts, bool | None):
        raise HTTPException(422, f"`{returns}` must be true or false")
    if session.scorer is None:
        raise HTTPException(404, "this folder has no encoder and no ranker; harp site --encoder or --train adds one")
    raw = session.rerank(query, texts).astype(np.float64)
    # The sigmoid of logits, without overflow.
    scores = np.clip(raw, 0.0, 1.0) if isinstance(session.scorer, BiEncoderScorer) else 0.5 * (1.0 + np.tanh(0.5 * raw))
    results: list[dict[str, Any]] = []
    for i in np.argsort(-raw, kind="stable")[:top].tolist():
        text = {"text": texts[i]} if name == "texts" else {"document": {"text": texts[i]}}
        results.append({"index": i, score: float(scores[i])} | (text if with_texts else {}))
    return results if name == "texts" else {"model": session.name, "results": results}


def listen(host: str, port: int, shared: bool = False) -> socket.socket:
    """A listening socket; `shared`: several processes have one for this port. Raises InputError if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=shared)
    except (OSError, OverflowError) as error:
        raise InputError(f"--port={port} of {host}: {error}; choose another, or 0 for any free one") from error


def serve(sources: Sources, host: str = HOST, port: int = 0, page: bool = False, workers: int = 1) -> None:
    """Serves until this process is interrupted. `port`: 0 for any free one; `page`: with the page of `harp look`. Each of several
    `workers` is a process that loads the index; the vectors are one memory-mapped file. Raises InputError for a port that is taken,
    and a worker that was killed."""
    listening = listen(host, port)
    if workers == 1:
        load_and_run(sources, host, listening, page)
        return
    with listening:  # the port is free; every worker listens to it, and the system distributes the connections
        port = listening.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_worker, args=(sources, host, port, number)) for number in range(workers)]

    def terminated(_number: int, _frame: FrameType | None) -> None:
        raise Terminated("terminated")

    signal.signal(signal.SIGTERM, terminated)
    # Inherited: workers end with this process, without a traceback.
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    for process in processes:
        process.start()
    signal.signal(signal.SIGINT, interrupt)
    try:
        ended = multiprocessing.connection.wait([process.sentinel for process in processes])
        first = next(process for process in processes if process.sentinel in ended)
        first.join()  # the exit code follows a moment later
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
    if first.exitcode == -signal.SIGKILL:
        raise InputError("a worker was killed, probably for lack of memory; use fewer --workers")
    sys.exit(first.exitcode)  # the worker has said why


def _worker(sources: Sources, host: str, port: int, number: int) -> None:
    """One of several processes; the first one says where they serve."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # after the server has closed, end as usual
    threading.Thread(target=end_with_parent, daemon=True).start()
    with ending_well():
        load_and_run(sources, host, listen(host, port, shared=True), page=False, said=number == 0)


def load_and_run(sources: Sources, host: str, listening: socket.socket, page: bool, said: bool = True) -> None:
    """Loads everything, prints the address if it is to be `said`, and serves in this process."""
    labels = LabelFile(sources.labels or os.path.join(sources.site, "labels.tsv")) if page else None
    keep_compiled()
    app = make_app(SearchSession(sources), labels, host)
    name, port = listening.getsockname()[:2]
    if said:
        more = f"; labels go to {labels.path}" if labels is not None else ""
        print(f"http://{f'[{name}]' if ':' in name else name}:{port}  (Ctrl-C ends it{more})", flush=True)
    run(app, listening)


def run(app: Starlette, listening: socket.socket) -> None:
    """Serves until this process is interrupted. Requests that are still open `END` seconds later are dropped."""
    with needs("the server", "uvicorn", "look"):
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
        # Another Ctrl-C, while the last search ends, would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise
