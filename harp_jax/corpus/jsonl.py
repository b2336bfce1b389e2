"""Parses one line of JSONL, and checks that its id is valid in runs and its texts are valid Unicode."""

import json
import re
from typing import Any

from harp_jax.base.errors import InputError

LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # valid in JSON, not in UTF-8


def parse_object(where: str, line: str) -> dict[str, Any]:
    """The record on a line; `where` (file and line) begins every error."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not a JSON object ({error}); write one object a line") from error
    if not isinstance(record, dict):
        raise InputError(f"{where}: not a JSON object ({_quoted(record)}); write one object a line")
    return record


def checked_id(where: str, value: object, what: str) -> str:
    """The id of a `what` (document, query), valid in a run: a string or integer, not empty, without white space."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{where}: {what} id is {_quoted(value)}, neither a text nor an integer; correct the record")
    found = str(value)
    if found.split() != [found]:
        # The columns of a run are separated by white space.
        raise InputError(f"{where}: {what} id {found!r} is empty or contains white space; rename the {what}")
    if LONE_SURROGATE.search(found):
        raise InputError(f"{where}: {what} id {found!r} contains half a surrogate pair; rename the {what}")
    return found


def checked_text(where: str, value: object, name: str) -> str:
    """The text of the field `name`; lone surrogates, from truncated UTF-16, become U+FFFD."""
    if value is None:
        raise InputError(f'{where}: {name} is null; write "" for an empty text, or remove the record')
    if not isinstance(value, str):
        raise InputError(f"{where}: {name} is {_quoted(value)}, not a text; correct the record")
    try:
        value.encode()  # much faster than a search, and nearly all texts pass
    except UnicodeEncodeError:
        return LONE_SURROGATE.sub("\ufffd", value)
    return value


def _quoted(value: object) -> str:
    """A value as quoted in errors, at most 60 characters."""
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
