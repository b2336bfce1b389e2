"""A line of JSONL: a record with an id and texts, each checked for being what runs and tokenisers can take."""

import json
import re
from typing import Any

from harp_jax.errors import InputError

LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can name half of a pair; no encoding can write it


def parse_object(where: str, line: str) -> dict[str, Any]:
    """The record of a line; `where` (file and line) begins every error."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: no JSON object ({error}); write one a line") from error
    if not isinstance(record, dict):
        raise InputError(f"{where}: no JSON object but {_shown(record)}; write one a line")
    return record


def checked_id(where: str, value: Any, what: str) -> str:
    """The id of a `what` (document, query), which a run can hold: a text or an integer, not empty, without white space."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{where}: {what} id is {_shown(value)}, neither a text nor an integer; mend the record")
    found = str(value)
    if found.split() != [found]:
        # Runs are separated by white space: such an id could never be written to one.
        raise InputError(f"{where}: {what} id {found!r} is empty or holds white space; rename the {what}")
    if LONE_SURROGATE.search(found):
        raise InputError(f"{where}: {what} id {found!r} holds half a surrogate pair; rename the {what}")
    return found


def checked_text(where: str, value: Any, name: str) -> str:
    """The text of the field `name`; half a surrogate pair, as cutting a text in UTF-16 leaves behind, becomes U+FFFD."""
    if value is None:
        raise InputError(f'{where}: {name} is null; write "" for an empty text, or remove the record')
    if not isinstance(value, str):
        raise InputError(f"{where}: {name} is {_shown(value)}, not a text; mend the record")
    try:
        value.encode()  # much faster than looking for them, and nearly every text has none
    except UnicodeEncodeError:
        return LONE_SURROGATE.sub("\ufffd", value)
    return value


def _shown(value: Any) -> str:
    """A value as its error names it, cut to a few words."""
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
