"""Plain Python data to what the rooms take: dicts, pandas frames and paths to runs, judgments, queries and documents.

Frames have the columns of PyTerrier (qid, docno, score or label, query, text) or ir-measures (query_id, doc_id, score or
relevance).
"""

import math
import numbers
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from harp_jax.base.errors import InputError
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import LARGEST, Qrels, Ranking, Run, read_qrels, read_queries, read_run


@runtime_checkable
class Frame(Protocol):
    """A table with named columns, such as pandas.DataFrame."""

    @property
    def columns(self) -> Iterable[Any]:
        """The names of the columns."""

    def __getitem__(self, name: Any, /) -> Any:
        """A column: its values are iterated over."""


Value = TypeVar("Value")
Path: TypeAlias = str | os.PathLike[str]
RunData: TypeAlias = Mapping[str, Mapping[str, float]] | Mapping[str, Ranking] | Frame | Path
QrelsData: TypeAlias = Mapping[str, Mapping[str, int]] | Frame | Path
QueriesData: TypeAlias = Mapping[str, str] | Frame | Path
DocumentsData: TypeAlias = Mapping[str, str] | Documents | Frame | Path

QID = ("qid", "query_id")
DOCID = ("docno", "docid", "doc_id")
SCORE = ("score",)
LEVEL = ("label", "relevance")
QUERY = ("query", "text")
TEXT = ("text", "body", "contents")


class Texts(dict[str, str]):
    """Documents in memory, with the attributes of `Documents` that ranking uses."""

    path = "docs"

    def texts(self) -> Iterator[tuple[str, str]]:
        """(docid, text) in order."""
        return iter(self.items())


def to_run(given: RunData) -> Run:
    """A run from {qid: {docid: score}}, a frame, or a path to a TREC or MS MARCO run."""
    if isinstance(given, str | os.PathLike):
        return read_run(os.fspath(given))
    if isinstance(given, Mapping):
        return {qid: found if isinstance(found, Ranking) else ranking_of(qid, found) for qid, found in given.items()}
    run: dict[str, dict[str, float]] = {}
    for qid, docid, score in columns(given, QID, DOCID, SCORE):
        once(run.setdefault(id_of(qid), {}), id_of(docid), number(score, qid, docid), f"query {qid!r}")
    return {qid: Ranking.of([*found], [*found.values()]) for qid, found in run.items()}


def ranking_of(qid: str, found: Mapping[str, float]) -> Ranking:
    """A ranking from {docid: score}. Raises InputError for anything else, and for scores that are not finite."""
    if not isinstance(found, Mapping):
        raise InputError(f"query {qid!r}: {type(found).__name__} given; a run is {{qid: {{docid: score}}}}")
    check_ids((qid, *found))
    return Ranking.of([*found], [number(score, qid, docid) for docid, score in found.items()])


def check_ids(ids: Iterable[Any]) -> None:
    """Raises InputError for the first id that is no string: 1 and "1" would be two queries."""
    for key in ids:
        if not isinstance(key, str):
            raise InputError(
                f"the id {key!r} is no string; use str() for the ids of runs, judgments, queries and documents"
            )


def number(score: Any, qid: str, docid: str) -> float:
    """The score as a float. Raises InputError for one that is no finite number."""
    try:
        value = float(score)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= LARGEST:
        raise InputError(
            f"query {qid!r}, document {docid!r}: the score {score!r} is no finite number up to {LARGEST:g}"
        )
    return value


def level_of(level: Any, qid: str, docid: str) -> int:
    """The level as an int. Raises InputError for one that is no whole number."""
    value = number(level, qid, docid)
    if value != int(value):
        raise InputError(f"query {qid!r}, document {docid!r}: the level {level!r} is no whole number")
    return int(value)


def texts_of(given: Mapping[str, str], kind: str) -> Iterator[tuple[str, str]]:
    """(id, text) with half surrogate pairs replaced, as in files. Raises InputError for a text that is no string."""
    if not isinstance(given, Mapping):
        raise InputError(f"{kind}s: {type(given).__name__} given; use {{id: text}}")
    check_ids(given)
    for key, text in given.items():
        if not isinstance(text, str):
            raise InputError(f"{kind} {key!r}: {type(text).__name__} given; use a string")
        yield key, text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not text.isascii() else text


def to_qrels(given: QrelsData) -> Qrels:
    """Judgments from {qid: {docid: level}}, a frame, or a path."""
    if isinstance(given, str | os.PathLike):
        return read_qrels(os.fspath(given))
    if isinstance(given, Mapping):
        for qid, judged in given.items():
            if not isinstance(judged, Mapping):
                raise InputError(
                    f"query {qid!r}: {type(judged).__name__} given; judgments are {{qid: {{docid: level}}}}"
                )
            check_ids((qid, *judged))
        return {
            qid: {docid: level_of(level, qid, docid) for docid, level in judged.items()}
            for qid, judged in given.items()
        }
    qrels: Qrels = {}
    for qid, docid, level in columns(given, QID, DOCID, LEVEL):
        once(qrels.setdefault(id_of(qid), {}), id_of(docid), level_of(level, qid, docid), f"query {qid!r}")
    return qrels


def to_queries(given: QueriesData) -> dict[str, str]:
    """Queries from {qid: text}, a frame, or a path."""
    if isinstance(given, str | os.PathLike):
        return read_queries(os.fspath(given))
    if isinstance(given, Mapping):
        return dict(texts_of(given, "query"))
    return dict(texts_of(frame_texts(given, QID, QUERY), "query"))


def to_documents(given: DocumentsData) -> Documents | Texts:
    """Documents from {docid: text}, a frame, a path, or `Documents` themselves."""
    if isinstance(given, str | os.PathLike):
        return Documents.open(os.fspath(given))
    if isinstance(given, Documents | Texts):
        return given
    if isinstance(given, Mapping):
        return Texts(texts_of(given, "document"))
    return Texts(texts_of(frame_texts(given, DOCID, TEXT), "document"))


def frame_texts(frame: Frame, ids: tuple[str, ...], texts: tuple[str, ...]) -> dict[str, str]:
    """id → text of two columns of a frame."""
    found: dict[str, str] = {}
    for key, text in columns(frame, ids, texts):
        once(found, id_of(key), text, "the frame")
    return found


def id_of(given: Any) -> str:
    """An id of a frame as a string; whole numbers too. InputError for missing ids and for floats: 7.0 is not the id "7"."""
    if isinstance(given, str):
        return given
    if isinstance(given, numbers.Integral) and not isinstance(given, bool):
        return str(int(given))
    raise InputError(f"the id {given!r} is neither text nor a whole number; read the column as text, without gaps")


def once(found: dict[str, Value], key: str, value: Value, where: str) -> None:
    """Adds an entry. Raises InputError if there is one: one of both would be lost."""
    if key in found:
        raise InputError(f"{where} lists {key!r} twice; drop the duplicates")
    found[key] = value


def columns(frame: Frame, *names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """The rows of some columns of a frame, each the first that it has of several names; InputError for a missing one."""
    if not isinstance(frame, Frame):
        raise InputError(f"{type(frame).__name__} given; use a dict, a pandas frame, or a path")
    held = [str(name) for name in frame.columns]
    chosen = [next((name for name in some if name in held), "") for some in names]
    for name, some in zip(chosen, names):
        if not name:
            raise InputError(f"the frame has no column {' or '.join(some)}, only {', '.join(sorted(held))}; rename one")
        if held.count(name) > 1:
            raise InputError(f"the frame has {held.count(name)} columns {name}; drop all but one")
    return zip(*(frame[name] for name in chosen))
