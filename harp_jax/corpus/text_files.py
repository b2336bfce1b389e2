"""Checked records of text files: lines, columns, JSON objects, and ids and texts that are valid in runs and in UTF-8."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines

LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # valid in JSON, not in UTF-8


def records(path: str, what: str) -> Iterator[tuple[int, str]]:
    """(line number from 1, line) of the non-blank lines. InputError if there are none; it says `what` the file should be."""
    empty = True
    for number, line in lines(path):
        if line.strip():
            empty = False
            yield number, line
    if empty:
        raise InputError(f"{path} is empty; it should be {what}")


def columns(path: str, what: str, allowed: tuple[int, ...]) -> Iterator[tuple[int, list[str]]]:
    """(line number, columns) of a file of white-space-separated columns; all lines have the same number of columns."""
    width = 0
    for number, line in records(path, what):
        # As in trec_eval, a run's tag is the rest of the line and may contain spaces.
        parts = line.split(maxsplit=5)
        width = width or len(parts)
        if len(parts) != width or width not in allowed:
            wanted = str(width) if width in allowed else " or ".join(map(str, allowed))
            raise InputError(f"{path}, line {number}: {len(parts)} columns, {what} has {wanted}; correct the line")
        yield number, parts


def parse_object(where: str, line: str) -> dict[str, Any]:
    """The JSON object on a line; `where` (file and line) begins every error."""
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise ValueError(_quoted(record))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not a JSON object ({error}); write one object a line") from error
    return record


def checked_id(where: str, value: object, what: str) -> str:
    """The id of a `what` (document, query), valid in a run: a string or integer, not empty, without white space."""
    docid, wrong = str(value), ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        wrong = f"is {_quoted(value)}, neither a text nor an integer"
    elif docid.split() != [docid]:  # the columns of a run are separated by white space
        wrong = f"{docid!r} is empty or contains white space"
    elif LONE_SURROGATE.search(docid):
        wrong = f"{docid!r} contains half a surrogate pair"
    if wrong:
        raise InputError(f"{where}: {what} id {wrong}; rename the {what}")
    return docid


def checked_text(where: str, value: object, name: str) -> str:
    """The text of the field `name`; lone surrogates, from truncated UTF-16, become U+FFFD."""
    if not isinstance(value, str):
        wrong = f'{name} is {_quoted(value)}, not a text; correct the record, or write "" for no text'
        raise InputError(f"{where}: {wrong}")
    try:
        value.encode()  # much faster than a search, and nearly all texts pass
    except UnicodeEncodeError:
        return LONE_SURROGATE.sub("\ufffd", value)
    return value


def _quoted(value: object) -> str:
    """A value as quoted in errors, at most 60 characters."""
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def checked_texts(what: str, texts: Iterable[str]) -> list[str]:
    """A caller's texts, lone surrogates replaced. InputError for one text, and for whatever else is no list of texts."""
    if isinstance(texts, str | Mapping) or not isinstance(texts, Iterable):
        raise InputError(f"{what}: {type(texts).__name__} given; use a list of texts")
    return [checked_text(f"{what}[{number}]", text, "text") for number, text in enumerate(texts)]
