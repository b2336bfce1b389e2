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


@contextlib.contextmanager
def dataset(path: str, what: str) -> Iterator["ir_datasets.Dataset"]:
    """The dataset "irds:ID". InputError if it does not exist or has no `what` (docs, queries, …), and for what ir_datasets
    raises in the block, when it downloads and unpacks."""
    name = path.removeprefix(IRDS)
    with needs(path, "ir_datasets", "irds"):
        import ir_datasets
    try:
        found = ir_datasets.load(name)
    except KeyError:
        found = None
    if found is None or not getattr(found, f"has_{what}")():
        raise InputError(f"ir_datasets has no {what} of {name!r}; see ir-datasets.com for its ids, or use a file")
    try:
        yield found
    except (RuntimeError, OSError, EOFError, ValueError) as error:
        raise InputError(
            f"ir_datasets cannot serve {name}: {type(error).__name__}: {error}; check the network and the disk space of "
            "IR_DATASETS_HOME, or follow the instructions of ir-datasets.com for it"
        ) from error


class IrdsDocuments:
    """The same mapping docid → text as `documents.Documents`, over an ir_datasets store."""

    def __init__(self, path: str, fields: tuple[str, ...]) -> None:
        self.path, self.fields = path, fields
        self._store: Any = None
        with dataset(path, "docs"):
            pass

    def __reduce__(self) -> tuple[object, ...]:
        return IrdsDocuments, (self.path, self.fields)

    def __getitem__(self, docid: str) -> str:
        with dataset(self.path, "docs") as found:
            self._store = self._store or found.docs_store()  # the first call downloads and builds the store
            document = self._store.get(docid)
        return self._text(document)

    def __contains__(self, docid: str) -> bool:
        try:
            self[docid]
        except KeyError:
            return False
        return True

    def __len__(self) -> int:
        with dataset(self.path, "docs") as found:
            count = found.docs_count()
            if count is None:  # unknown before the store is built
                store = found.docs_store()
                store.build()
                count = store.count()
        return count

    def ids(self) -> Iterator[str]:
        with dataset(self.path, "docs") as found:
            for document in found.docs_iter():
                yield document.doc_id

    def texts(self) -> Iterator[tuple[str, str]]:
        with dataset(self.path, "docs") as found:
            for document in found.docs_iter():
                yield document.doc_id, self._text(document)

    def _text(self, document: Any) -> str:
        """The fields by harp_jax's names; the body is the first of BODIES, or ir_datasets' default text."""
        values = []
        for field in self.fields:
            names = [name for name in (BODIES if field == "body" else (field,)) if name in document._fields]
            text = getattr(document, names[0]) if names else document.default_text() if field == "body" else ""
            values.append(str(text or "").strip())
        return " ".join(value for value in values if value)


def queries(path: str) -> dict[str, str]:
    """qid → text."""
    with dataset(path, "queries") as found:
        return {query.query_id: query.default_text() for query in found.queries_iter()}


def qrels(path: str) -> dict[str, dict[str, int]]:
    """qid → docid → level; with subtopics, the highest level of any."""
    judged: dict[str, dict[str, int]] = {}
    with dataset(path, "qrels") as found:
        for judgment in found.qrels_iter():
            levels, level = judged.setdefault(judgment.query_id, {}), int(judgment.relevance)
            levels[sys.intern(judgment.doc_id)] = max(level, levels.get(judgment.doc_id, level))
    return judged


def candidates(path: str) -> Iterator[tuple[str, str, float]]:
    """(qid, docid, score) of the dataset's "scoreddocs"; without scores, ranked in their order."""
    with dataset(path, "scoreddocs") as found:
        for number, one in enumerate(found.scoreddocs_iter()):
            yield one.query_id, sys.intern(one.doc_id), float(getattr(one, "score", -number))
