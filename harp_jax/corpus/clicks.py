"""A click log as training pairs: ORCAS' `qid, query, docid, url` (tabs), sampled, with random access through SQLite.

ORCAS has 19 M pairs; the index of a sample is built once, streaming, in the user's cache (about 70 bytes per pair, plus
its query).
"""

import hashlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator

from harp_jax.base.errors import InputError
from harp_jax.base.files import as_stored, cache_directory, check_readable
from harp_jax.base.progress import progress
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import Documents, batches, build_index
from harp_jax.corpus.paths import safe_name, state_of
from harp_jax.corpus.text_files import records

log = logging.getLogger(__name__)


class Clicks:
    """Pairs of a query and a clicked document, numbered from 0 to len - 1, and documents, from 0 to documents - 1."""

    def __init__(self, index: str) -> None:
        self.index = index
        self._opened = threading.local()
        self.pairs, self.documents = self._connection().execute("SELECT pairs, documents FROM total").fetchone()

    @classmethod
    def open(cls, path: str, docs: Documents, sample: float, seed: int, cache_dir: str | None = None) -> "Clicks":
        """Samples a fraction `sample` of the log's pairs by hash of (seed, query id, document id). Leaves out duplicate pairs and
        pairs whose document is not in `docs`, and logs their numbers. Raises InputError for malformed lines, and if no pair is
        left."""
        index = os.path.join(cache_dir or cache_directory("documents"), _name(path, docs, sample, seed))
        if not os.path.exists(index):
            build_index(index, lambda connection: _fill(connection, path, docs, sample, seed))
        return cls(index)

    def __reduce__(self) -> tuple[object, ...]:
        return Clicks, (self.index,)  # each process opens its own connection

    def __len__(self) -> int:
        return self.pairs

    def _connection(self) -> sqlite3.Connection:
        if not hasattr(self._opened, "connection"):
            self._opened.connection = sqlite3.connect(self.index)
        return self._opened.connection

    def pair(self, number: int) -> tuple[str, str, str]:
        """(qid, query, docid)."""
        query = "SELECT qid, query, docid FROM click WHERE number = ?"
        return self._connection().execute(query, (number,)).fetchone()

    def clicked(self, qid: str) -> set[str]:
        """The sampled documents of a query."""
        return {docid for (docid,) in self._connection().execute("SELECT docid FROM click WHERE qid = ?", (qid,))}

    def document(self, number: int) -> str:
        """The id of clicked document `number`; each document has one number."""
        return self._connection().execute("SELECT docid FROM document WHERE number = ?", (number,)).fetchone()[0]


def _name(path: str, docs: Documents, sample: float, seed: int) -> str:
    check_readable(as_stored(path))
    about_docs = getattr(docs, "index", docs.path)
    what = state_of(path) + f" {about_docs} {sample} {seed}".encode("utf-8", "surrogateescape")
    digest = hashlib.blake2b(what, digest_size=12).hexdigest()
    return f"{safe_name(path)}-{digest}.clicks.sqlite"


def _fill(connection: sqlite3.Connection, path: str, docs: Documents, sample: float, seed: int) -> None:
    connection.execute("CREATE TEMP TABLE line (number INTEGER PRIMARY KEY, qid TEXT, query TEXT, docid TEXT)")
    number = absent = 0
    for batch in batches(sampled_clicks(path, sample, seed)):
        known = [click for click in batch if click[2] in docs]
        rows = ((number + place, *click) for place, click in enumerate(known))
        connection.executemany("INSERT INTO line VALUES (?, ?, ?, ?)", rows)
        number, absent = number + len(known), absent + len(batch) - len(known)
    if not number:
        raise InputError(f"{path}: no pair is left ({absent} of the sample name documents that {docs.path} lacks)")
    # Keep the first line of each query and document.
    connection.executescript(
        "CREATE TABLE click (number INTEGER PRIMARY KEY, qid TEXT, query TEXT, docid TEXT);"
        "INSERT INTO click SELECT row_number() OVER (ORDER BY first) - 1, qid, query, docid"
        " FROM (SELECT min(number) AS first, qid, query, docid FROM line GROUP BY qid, docid);"
        "CREATE INDEX by_qid ON click (qid, docid);"
        "CREATE TABLE document (number INTEGER PRIMARY KEY, docid TEXT);"
        "INSERT INTO document SELECT row_number() OVER (ORDER BY docid) - 1, docid FROM (SELECT DISTINCT docid FROM click);"
        "CREATE TABLE total (pairs INTEGER, documents INTEGER);"
        "INSERT INTO total SELECT (SELECT count(*) FROM click), (SELECT count(*) FROM document);"
    )
    left = "%d clicks of %s are left out: %s"
    if absent:
        log.warning(left, absent, path, f"their documents are not in {docs.path}")
    if repeated := number - connection.execute("SELECT pairs FROM total").fetchone()[0]:
        log.warning(left, repeated, path, "they repeat an earlier query and document")


def sampled_clicks(path: str, sample: float, seed: int) -> Iterator[tuple[str, str, str]]:
    """(qid, query, docid) of the sampled lines; every line is checked."""
    below = int(sample * 2**64)
    lines = records(path, "a click log")
    for number, line in progress(lines, unit="clicks", desc=f"indexing {os.path.basename(path)}"):
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 4 or not all(parts[:3]):
            wrong = "not in ORCAS' format 'qid<TAB>query<TAB>docid<TAB>url'; correct or remove it"
            raise InputError(f"{path}, line {number}: {wrong}")
        qid, query, docid, _ = parts
        if hash64(seed, "click", qid, docid) < below:
            yield qid, query, docid
