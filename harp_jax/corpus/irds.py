"""Collections by their ir_datasets id (extra [irds]): irds:msmarco-document/dev is accepted wherever a file is.

ir_datasets downloads missing data to IR_DATASETS_HOME (default: ~/.ir_datasets) and keeps documents in a store with random
access.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import InputError, needs
from harp_jax.corpus.paths import IRDS

if TYPE_CHECKING:
    import ir_datasets

BODIES = ("body", "text", "contents", "abstract")


def load(path: str, what: str) -> "ir_datasets.Dataset":
    """The dataset "irds:ID"; InputError if it does not exist, or has no `what` (docs, queries, …)."""
    name = path.removeprefix(IRDS)
    with needs(path, "ir_datasets", "irds"):
        import ir_datasets
    try:
        dataset = ir_datasets.load(name)
    except KeyError:
        dataset = None
    if dataset is None or not getattr(dataset, f"has_{what}")():
        raise InputError(f"ir_datasets has no {what} of {name!r}; see ir-datasets.com for its ids, or use a file")
    return dataset


@contextlib.contextmanager
def _served(path: str) -> Iterator[None]:
    """Turns ir_datasets' errors in downloading and unpacking into InputError."""
    try:
        yield
    except (RuntimeError, OSError, EOFError, ValueError) as error:
        raise InputError(
            f"ir_datasets cannot serve {path.removeprefix(IRDS)}: {type(error).__name__}: {error}; check the network and "
            "the disk space of IR_DATASETS_HOME, or follow the instructions of ir-datasets.com for it"
        ) from error


def _served_each(path: str, what: str) -> Iterator[Any]:
    """Every record of `what` (docs, queries, …)."""
    dataset = load(path, what)
    with _served(path):
        yield from getattr(dataset, f"{what}_iter")()


class IrdsDocuments:
    """The same mapping docid → text as `documents.Documents`, over an ir_datasets store."""

    def __init__(self, path: str, fields: tuple[str, ...]) -> None:
        self.path, self.fields = path, fields
        self._dataset = load(path, "docs")
        self._opened: Any = None

    def __reduce__(self) -> tuple[object, ...]:
        return IrdsDocuments, (self.path, self.fields)

    @property
    def _store(self) -> Any:
        if self._opened is None:
            with _served(self.path):
                self._opened = self._dataset.docs_store()
        return self._opened

    def __getitem__(self, docid: str) -> str:
        return self._text(self._get(docid))

    def __contains__(self, docid: str) -> bool:
        try:
            self._get(docid)
        except KeyError:
            return False
        return True

    def _get(self, docid: str) -> Any:
        """The document; the first call downloads and builds the store. KeyError if missing."""
        store = self._store
        with _served(self.path):
            return store.get(docid)

    def __len__(self) -> int:
        with _served(self.path):
            count = self._dataset.docs_count()
            if count is None:  # unknown before the store is built
                self._store.build()
                count = self._store.count()
        return count

    def ids(self) -> Iterator[str]:
        for document in _served_each(self.path, "docs"):
            yield document.doc_id

    def texts(self) -> Iterator[tuple[str, str]]:
        for document in _served_each(self.path, "docs"):
            yield document.doc_id, self._text(document)

    def _text(self, document: Any) -> str:
        return " ".join(part for part in (self._field(document, field).strip() for field in self.fields) if part)

    def _field(self, document: Any, field: str) -> str:
        """A field by harp_jax's name; the body is the first of BODIES, or ir_datasets' default text."""
        if field != "body":
            return str(getattr(document, field, "") or "")
        name = next((name for name in BODIES if name in document._fields), None)
        return str(getattr(document, name) if name else document.default_text())


def queries(path: str) -> dict[str, str]:
    """qid → text."""
    return {query.query_id: query.default_text() for query in _served_each(path, "queries")}


def qrels(path: str) -> dict[str, dict[str, int]]:
    """qid → docid → level; with subtopics, the highest level of any."""
    judged: dict[str, dict[str, int]] = {}
    for judgment in _served_each(path, "qrels"):
        levels, level = judged.setdefault(judgment.query_id, {}), int(judgment.relevance)
        levels[sys.intern(judgment.doc_id)] = max(level, levels.get(judgment.doc_id, level))
    return judged


def candidates(path: str) -> Iterator[tuple[str, str, float]]:
    """(qid, docid, score) of the dataset's "scoreddocs"; without scores, ranked in their order."""
    for number, one in enumerate(_served_each(path, "scoreddocs")):
        yield one.query_id, sys.intern(one.doc_id), float(getattr(one, "score", -number))
