"""A click log as training pairs: ORCAS' `qid, query, docid, url` (tabs), sampled, with random access through SQLite.

ORCAS has 19 M pairs; the index of a sample is built once, streaming, in the user's cache (about 70 bytes per pair, plus
its query).
"""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator

from harp_jax.base.errors import InputError
from harp_jax.base.files import cache_directory
from harp_jax.base.progress import progress
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import Documents, build_index
from harp_jax.corpus.paths import cache_name
from harp_jax.corpus.text_files import records

log = logging.getLogger(__name__)


class Clicks:
    """Pairs of a query and a clicked document, numbered from 0 to len - 1, and documents, from 0 to documents - 1."""

    def __init__(self, index: str) -> None:
        self.index = index
        self._opened = threading.local()
        self.pairs = self._row("SELECT max(number) + 1 FROM click")[0]
        self.documents = self._row("SELECT max(number) + 1 FROM document")[0]

    @classmethod
    def open(cls, path: str, docs: Documents, sample: float, seed: int) -> "Clicks":
        """Samples a fraction `sample` of the log's pairs by hash of (seed, query id, document id). Leaves out duplicate pairs and
        pairs whose document is not in `docs`, and logs their numbers. Raises InputError for malformed lines, and if no pair is
        left."""
        name = cache_name(path, [path], f"{docs.index} {sample} {seed}") + ".clicks.sqlite"
        index = os.path.join(cache_directory("documents"), name)
        if not os.path.exists(index):
            build_index(index, lambda connection: _fill(connection, path, docs, sample, seed))
        return cls(index)

    def __reduce__(self) -> tuple[object, ...]:
        return Clicks, (self.index,)  # each process opens its own connection

    def __len__(self) -> int:
        return self.pairs

    def pair(self, number: int) -> tuple[str, str, str]:
        """(qid, query, docid)."""
        return self._row("SELECT qid, query, docid FROM click WHERE number = ?", number)

    def clicked(self, qid: str) -> set[str]:
        """The sampled documents of a query."""
        return {docid for (docid,) in self._select("SELECT docid FROM click WHERE qid = ?", qid)}

    def document(self, number: int) -> str:
        """The id of clicked document `number`; each document has one number."""
        return self._row("SELECT docid FROM document WHERE number = ?", number)[0]

    def _row(self, query: str, *values: object) -> tuple:
        return self._select(query, *values).fetchone()

    def _select(self, query: str, *values: object) -> sqlite3.Cursor:
        if not hasattr(self._opened, "connection"):
            self._opened.connection = sqlite3.connect(self.index)
        return self._opened.connection.execute(query, values)


def _fill(connection: sqlite3.Connection, path: str, docs: Documents, sample: float, seed: int) -> None:
    absent = 0

    def known() -> Iterator[tuple[str, str, str]]:
        nonlocal absent
        for click in sampled_clicks(path, sample, seed):
            if click[2] in docs:
                yield click
            else:
                absent += 1

    connection.execute("CREATE TEMP TABLE line (number INTEGER PRIMARY KEY, qid TEXT, query TEXT, docid TEXT)")
    connection.executemany("INSERT INTO line VALUES (NULL, ?, ?, ?)", known())
    # Keep the first line of each query and document.
    connection.executescript(
        "CREATE TABLE click (number INTEGER PRIMARY KEY, qid TEXT, query TEXT, docid TEXT);"
        "INSERT INTO click SELECT row_number() OVER (ORDER BY first) - 1, qid, query, docid"
        " FROM (SELECT min(number) AS first, qid, query, docid FROM line GROUP BY qid, docid);"
        "CREATE INDEX by_qid ON click (qid, docid);"
        "CREATE TABLE document (number INTEGER PRIMARY KEY, docid TEXT);"
        "INSERT INTO document SELECT row_number() OVER (ORDER BY docid) - 1, docid FROM (SELECT DISTINCT docid FROM click);"
    )
    pairs, lines = connection.execute("SELECT (SELECT count(*) FROM click), (SELECT count(*) FROM line)").fetchone()
    if not pairs:
        raise InputError(f"{path}: no pair is left ({absent} of the sample name documents that {docs.path} lacks)")
    left = "%d clicks of %s are left out: %s"
    if absent:
        log.warning(left, absent, path, f"their documents are not in {docs.path}")
    if lines > pairs:
        log.warning(left, lines - pairs, path, "they repeat an earlier query and document")


def sampled_clicks(path: str, sample: float, seed: int) -> Iterator[tuple[str, str, str]]:
    """(qid, query, docid) of the sampled lines; every line is checked."""
    below = int(sample * 2**64)
    rows = records(path, "a click log")
    for number, line in progress(rows, unit="clicks", desc=f"indexing {os.path.basename(path)}"):
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 4 or not all(parts[:3]):
            wrong = "not in ORCAS' format 'qid<TAB>query<TAB>docid<TAB>url'; correct or remove it"
            raise InputError(f"{path}, line {number}: {wrong}")
        qid, query, docid, _ = parts
        if hash64(seed, "click", qid, docid) < below:
            yield qid, query, docid
