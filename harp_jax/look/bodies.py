"""Bodies of requests: read up to a limit, parsed, checked; every error is a status and a JSON object."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import JSONResponse

LARGEST_BODY = 2_000_000  # bytes, as in Text Embeddings Inference


@dataclass
class RequestError(Exception):
    """What is wrong with a request: the HTTP status, Text Embeddings Inference's name of the error, and a sentence."""

    status: int
    kind: str
    message: str

    def response(self) -> "JSONResponse":
        """The answer."""
        from starlette.responses import JSONResponse

        return JSONResponse({"error": self.message, "error_type": self.kind}, self.status)


async def read_object(request: "Request") -> dict[str, Any]:
    """The JSON object in a body. Raises RequestError: 415 for another content type, 413 for a large body, 400 for no JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError(415, "Validation", f"content type {kind or 'none'}: send application/json")
    from starlette.requests import ClientDisconnect

    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_BODY:
                raise RequestError(
                    413, "Validation", f"the body is larger than {LARGEST_BODY:,} bytes; send fewer texts"
                )
    except ClientDisconnect as error:
        raise RequestError(400, "Validation", "the connection closed within the body") from error
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, "Validation", f"the body is no JSON ({error}); send an object") from error
    if not isinstance(found, dict):
        raise RequestError(422, "Validation", "the body is JSON, but no object; send an object with named fields")
    return found


def text_field(found: dict[str, Any], name: str, longest: int) -> str:
    """A field with a text that is not empty. Raises RequestError 422."""
    value = found.get(name)
    if not isinstance(value, str):
        raise RequestError(422, "Validation", f"`{name}` must be a text" + ("" if name in found else "; it is absent"))
    return checked(value, name, longest)


def checked(value: str, name: str, longest: int) -> str:
    """A text that is not empty, not too long, and can be encoded. Raises RequestError 422."""
    if not value.strip():
        raise RequestError(422, "Validation", f"`{name}` is empty")
    if len(value) > longest:
        raise RequestError(
            422, "Validation", f"`{name}` has {len(value):,} characters; at most {longest:,} are allowed"
        )
    return encodable(value, name)


def encodable(value: str, name: str) -> str:
    """A text without half surrogate pairs, which no tokenizer reads. Raises RequestError 422."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RequestError(422, "Validation", f"`{name}` contains half a surrogate pair; send valid Unicode") from None
    return value


def flag_field(found: dict[str, Any], name: str) -> bool:
    """A field that is true or false; absent and null mean false. Raises RequestError 422."""
    value = found.get(name)
    if value is not None and not isinstance(value, bool):
        raise RequestError(422, "Validation", f"`{name}` must be true or false")
    return bool(value)
