"""The routes of the page, as an ASGI application.

Only requests whose Host header names the loopback interface are answered: a web page elsewhere cannot read from here by
rebinding its name to 127.0.0.1. Labels are accepted as JSON from the page itself only.
"""

import os
from importlib import resources
from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import InputError, needs
from harp_jax.base.version import __version__
from harp_jax.corpus.labels import tidy
from harp_jax.look.bodies import RequestError, checked, read_object, text_field
from harp_jax.look.label_file import LEVELS, LabelFile
from harp_jax.look.rerank import MOST_TEXTS, parse, rerank
from harp_jax.look.shelf import Shelf

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

HOSTS = ["127.0.0.1", "localhost"]
LONGEST_QUERY = 1000  # characters
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


def make_app(shelf: Shelf, labels: LabelFile) -> "Starlette":
    """The application. Raises InputError where Starlette is not installed."""
    with needs("the page", "starlette", "look"):
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.exceptions import HTTPException
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route

    def json(content: Any) -> Response:
        return JSONResponse(content, headers=HEADERS)

    async def static(request: "Request") -> Response:
        name, kind = STATIC[request.url.path]
        text = resources.files("harp_jax.look").joinpath("static", name).read_text("utf-8")
        return Response(text, media_type=kind, headers=HEADERS)

    async def about(_: "Request") -> Response:
        return json(
            {
                "documents": len(shelf.collection),
                "model": os.path.basename(os.path.normpath(shelf.sources.model)),
                "depth": shelf.depth,
                "weight": shelf.sources.weight,
                "verdict": shelf.sources.verdict,
                "queries": shelf.proposed,
                **counts(),
            }
        )

    def counts() -> dict[str, Any]:
        return {"labels": len(labels), "labelled": labels.queries, "file": labels.path}

    async def search(request: "Request") -> Response:
        query = tidy(checked(request.query_params.get("q", ""), "q", LONGEST_QUERY))
        found = await run_in_threadpool(shelf.search, query)
        return json({**found, "levels": labels.of(query)})

    async def label(request: "Request") -> Response:
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{request.headers['host']}":
            raise RequestError(403, "Validation", "labels are accepted from this page only")
        found = await read_object(request)
        query, docid = tidy(text_field(found, "query", LONGEST_QUERY)), text_field(found, "docid", LONGEST_QUERY)
        level = found.get("level")
        if "level" not in found or (level is not None and (type(level) is not int or level not in LEVELS)):
            raise RequestError(422, "Validation", f"`level` must be one of {LEVELS}, or null to remove the label")
        if docid not in shelf.docs:
            raise RequestError(422, "Validation", f"no document {docid!r}")
        try:
            await run_in_threadpool(labels.set, query, docid, level)
        except (InputError, OSError) as error:
            raise RequestError(500, "Backend", f"the label was not written: {error}") from error
        return json({"levels": labels.of(query), **counts()})

    async def reranked(request: "Request") -> Response:
        parsed = parse(await read_object(request))

        def scored() -> list[dict[str, Any]]:
            with shelf.lock:
                return rerank(shelf.scorer, parsed)

        return json(await run_in_threadpool(scored))

    async def info(_: "Request") -> Response:
        kind = {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}}
        limits = {
            "max_input_length": shelf.scorer.max_length,
            "max_client_batch_size": MOST_TEXTS,
            "auto_truncate": False,
        }
        running = {
            "max_concurrent_requests": 1,
            "max_batch_tokens": 0,
            "max_batch_requests": None,
            "tokenization_workers": 1,
        }
        model = {"model_id": shelf.sources.model, "model_sha": None, "model_dtype": "float32", "model_type": kind}
        return json({**model, **limits, **running, "version": __version__, "sha": None, "docker_label": None})

    async def health(_: "Request") -> Response:
        return Response(headers=HEADERS)

    async def refused(_: "Request", error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return error.response()

    async def unknown(_: "Request", error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return RequestError(error.status_code, "Validation", error.detail).response()

    return Starlette(
        routes=[
            *(Route(path, static, methods=["GET"]) for path in STATIC),
            Route("/about", about, methods=["GET"]),
            Route("/search", search, methods=["GET"]),
            Route("/label", label, methods=["POST"]),
            Route("/rerank", reranked, methods=["POST"]),
            Route("/info", info, methods=["GET"]),
            Route("/health", health, methods=["GET"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
        exception_handlers={RequestError: refused, HTTPException: unknown},
    )
