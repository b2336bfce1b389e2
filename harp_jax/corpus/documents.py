"""Random access to documents by id, through an SQLite index that is built once in the user's cache.

Formats: MS MARCO's `docid, url, title, body` (tabs), `docid, text` (tabs), and JSONL with `id` or `_id`, `title`, `url`
and `text`, `body` or `contents`, and TREC's SGML (`sgml.py`). For plain files the index stores byte offsets into the file;
compressed files (.gz, .bz2, .xz) and SGML have no random access, so the index stores their records (zlib). A folder of such
files (BEIR's, or any) is one collection; "irds:ID" is a dataset of ir_datasets (`irds.py`).
"""

import contextlib
import hashlib
import itertools
import os
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from harp_jax.base.errors import InputError
from harp_jax.base.files import SUFFIXES, beside, cache_directory, check_readable, open_bytes, raw_lines
from harp_jax.base.progress import progress
from harp_jax.corpus import sgml
from harp_jax.corpus.irds import IrdsDocuments
from harp_jax.corpus.paths import document_files, is_irds, safe_name, state_of
from harp_jax.corpus.text_files import checked_id, checked_text, parse_object

FIELDS = ("title", "url", "body")
BODIES = ("text", "body", "contents")  # names of the body in JSONL; the first that is not null is used
HEAD = 1 << 20  # bytes of a file in its fingerprint, with size, mtime and ctime
OPEN_FILES = 16  # per thread
Row = tuple[str, int, int, int | None, bytes | None]  # id, file number, line, byte offset, record
BATCH = 10_000  # rows per insert
# SQLite errors that do not mean a damaged index: no file descriptor, no memory, I/O error.
LACKS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR)
T = TypeVar("T")


class Texts(Protocol):
    """Texts by document id, on disk (`Documents`) or in memory; `path` names them in messages."""

    path: str

    def __getitem__(self, docid: str, /) -> str: ...

    def __contains__(self, docid: str, /) -> bool: ...


class Documents:
    """A read-only mapping docid → text, for any number of threads and processes (each opens its own connection). The text is the
    record's `fields` in that order, joined by spaces; empty fields are skipped."""

    def __init__(self, path: str, index: str, fields: tuple[str, ...]):
        self.path, self.index, self.fields = path, index, fields
        self.files = document_files(path)
        self._opened = threading.local()

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], fields: tuple[str, ...] = FIELDS, cache_dir: str | None = None
    ) -> "Documents":
        """Opens `path`; builds its index in `cache_dir` (default: the user's cache) if necessary. Raises InputError, with the line,
        for unreadable records and duplicate document ids."""
        path = os.fspath(path)
        unknown = [field for field in fields if field not in FIELDS]
        if unknown or not fields:
            raise InputError(f"unknown document field {unknown}; choose from {', '.join(FIELDS)}")
        if is_irds(path):
            return cast(Documents, IrdsDocuments(path, tuple(fields)))  # same interface
        index = os.path.join(cache_dir or cache_directory("documents"), _fingerprint(path) + ".sqlite")
        if not os.path.exists(index):
            build_index(index, partial(_fill, path))
        return cls(path, index, tuple(fields))

    def __reduce__(self) -> tuple[object, ...]:
        return Documents, (self.path, self.index, self.fields)

    def _connection(self) -> sqlite3.Connection:
        # The process id: connections must not be shared across a fork.
        if getattr(self._opened, "pid", None) != os.getpid():
            uri = f"file:{_quoted(os.path.abspath(self.index))}?mode=ro&immutable=1"
            self._opened.connection = sqlite3.connect(uri, uri=True)
            self._opened.files = OrderedDict()
            self._opened.pid = os.getpid()
        return self._opened.connection

    def _line_at(self, number: int, start: int) -> bytes:
        """The line at a byte offset of file `number`; recently read files stay open."""
        files = self._opened.files
        file = files.pop(number, None) or open_bytes(self.files[number])
        files[number] = file
        if len(files) > OPEN_FILES:
            files.popitem(last=False)[1].close()
        file.seek(start)
        return file.readline()

    def __getitem__(self, docid: str) -> str:
        row = self._row("SELECT file, line, start, record FROM document WHERE id = ?", docid)
        if row is None:
            raise KeyError(docid)
        number, line, start, stored = row
        try:
            data = zlib.decompress(stored) if stored is not None else self._line_at(number, start)
        except (OSError, ValueError, zlib.error) as error:
            raise self._damaged(error) from error
        record = _parse(self.files[number], line, data)
        if record["id"] != docid:
            where, wrong = f"{self.files[number]}, line {line}", f"{docid!r} when the file was indexed"
            advice = "do not change the documents while a command reads them, and run it again"
            raise InputError(f"{where}: document {record['id']!r}, but {wrong}; {advice}")
        return _text(record, self.fields)

    def __contains__(self, docid: str) -> bool:
        return self._row("SELECT 1 FROM document WHERE id = ?", docid) is not None

    def __len__(self) -> int:
        return self._row("SELECT documents FROM total")[0]

    def ids(self) -> Iterator[str]:
        """Document ids in file order."""
        try:
            for (docid,) in self._connection().execute("SELECT id FROM document ORDER BY number"):
                yield docid
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _row(self, query: str, *values: str) -> Any:
        try:
            return self._connection().execute(query, values).fetchone()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InputError:
        if isinstance(error, OSError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in LACKS:
            wrong = f"cannot read {self.path} by the index {self.index}: {error}"
            return InputError(f"{wrong}; free files, memory or the disk, and try again")
        with contextlib.suppress(OSError):
            os.remove(self.index)
        return InputError(f"the index {self.index} was damaged ({error}) and has been removed; run the command again")

    def texts(self) -> Iterator[tuple[str, str]]:
        """(docid, text) in file order, streaming."""
        for path in self.files:
            for line, _, data in _records(path):
                record = _parse(path, line, data)
                yield record["id"], _text(record, self.fields)


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _fingerprint(path: str) -> str:
    """Name of the index: the collection's name and a hash of its files' state, and of the first megabyte of a single file. Of a
    folder, which may have thousands of files, only their state is hashed."""
    state = hashlib.blake2b(digest_size=12)
    for name in document_files(path):
        check_readable(name)
        if name == path:
            with open(name, "rb") as file:
                state.update(file.read(HEAD))
        state.update(state_of(name))
    return f"{safe_name(path)}-{state.hexdigest()}"


def _records(path: str) -> Iterator[tuple[int, int, bytes]]:
    """(line from 1, byte offset, bytes) of every non-blank line, without byte order mark and newline; of SGML every document."""
    if sgml.is_sgml(path):
        yield from ((line, 0, data) for line, data in sgml.documents(path))
        return
    start = 0
    for line, data in raw_lines(path):
        mark = 3 if line == 1 and data.startswith(b"\xef\xbb\xbf") else 0
        record = data[mark:].rstrip(b"\r\n")
        if record.strip():
            yield line, start + mark, record
        start += len(data)


def _parse(path: str, line: int, data: bytes, columns: tuple[int, ...] = (2, 4)) -> dict[str, str]:
    """A record's "id", "title", "url" and "body". `columns`: the allowed numbers of tab-separated columns."""
    where = f"{path}, line {line}"
    if data[: len(sgml.START)].upper() == sgml.START:
        record = sgml.parse(where, data)
        return record | {"id": checked_id(where, record["id"], "document")}
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 ({error.reason} at byte {error.start}); convert the file") from error
    if text.startswith("{"):
        return _json_record(where, text)
    parts = text.split("\t")
    if len(parts) not in columns:
        advice = "write 'docid<TAB>url<TAB>title<TAB>body', or 'docid<TAB>text', without tabs in the texts"
        raise InputError(f"{where}: {len(parts)} columns, not {' or '.join(map(str, columns))}; {advice}")
    url, title = parts[1:-1] or ("", "")
    return {"id": checked_id(where, parts[0].strip(), "document"), "title": title, "url": url, "body": parts[-1]}


def _json_record(where: str, line: str) -> dict[str, str]:
    record = parse_object(where, line)
    name = next((name for name in BODIES if record.get(name) is not None), None)
    # A null body is an error, a missing body is empty.
    name = name or next((name for name in BODIES if name in record), None)
    texts = {"title": record.get("title") or "", "url": record.get("url") or ""}
    fields = {field: checked_text(where, value, field) for field, value in texts.items()}
    docid = record["_id"] if "_id" in record else record.get("id", "")
    body = checked_text(where, record[name], name) if name else ""
    return {"id": checked_id(where, docid, "document"), **fields, "body": body}


def _text(record: dict[str, str], fields: tuple[str, ...]) -> str:
    return " ".join(part for part in (record[field].strip() for field in fields) if part)


def build_index(index: str, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Writes an SQLite file atomically, readable only by its owner: the collection may be private."""
    temporary = beside(index)
    try:
        os.makedirs(os.path.dirname(index), exist_ok=True)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(temporary)) as connection:
            connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
            fill(connection)
            connection.commit()
        os.replace(temporary, index)
    except sqlite3.OperationalError as error:
        raise InputError(f"cannot write the index {index}: {error}; set XDG_CACHE_HOME to another place") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


def _fill(path: str, connection: sqlite3.Connection) -> None:
    files = document_files(path)
    # Insert by number and index the ids at the end: one external sort instead of millions of random inserts.
    connection.executescript(
        "CREATE TABLE document (number INTEGER PRIMARY KEY, id TEXT NOT NULL, file INTEGER, line INTEGER,"
        " start INTEGER, record BLOB);"
        "CREATE TABLE total (documents INTEGER);"
    )
    count = 0
    with progress(unit="documents", desc=f"indexing {os.path.basename(os.path.normpath(path))}") as bar:
        for rows in batches(_rows(files)):
            connection.executemany("INSERT INTO document VALUES (NULL, ?, ?, ?, ?, ?)", rows)
            count += len(rows)
            bar.update(len(rows))
    if not count:
        raise InputError(f"{path} has no documents; use MS MARCO's docs.tsv, JSONL or TREC's SGML")
    connection.execute("INSERT INTO total VALUES (?)", (count,))
    try:
        connection.execute("CREATE UNIQUE INDEX by_id ON document (id)")
    except sqlite3.IntegrityError:
        docid, before, first, where, again = connection.execute(
            "SELECT twice.id, a.file, a.line, b.file, b.line FROM (SELECT id, min(number) AS first, max(number) AS last"
            " FROM document GROUP BY id HAVING count(*) > 1 ORDER BY last LIMIT 1) AS twice"
            " JOIN document AS a ON a.number = first JOIN document AS b ON b.number = last"
        ).fetchone()
        earlier = f"line {first}" if before == where else f"{files[before]}, line {first}"
        wrong = f"document {docid} is listed again (first in {earlier}); remove one"
        raise InputError(f"{files[where]}, line {again}: {wrong}") from None


def _rows(files: list[str]) -> Iterator[Row]:
    """(id, file number, line, byte offset, record): plain files have the offset, compressed ones the record."""
    for number, path in enumerate(files):
        stored = path.endswith(SUFFIXES) or sgml.is_sgml(path)
        columns: tuple[int, ...] = (2, 4)
        for line, start, data in _records(path):
            docid = _parse(path, line, data, columns)["id"]
            # All lines alike: two tabs in a passage would turn its beginning into a URL and a title.
            if not data.startswith((b"{", b"<")):
                columns = (data.count(b"\t") + 1,)
            yield (docid, number, line, None, zlib.compress(data, 1)) if stored else (docid, number, line, start, None)


def batches(rows: Iterator[T]) -> Iterator[list[T]]:
    """Rows in lists of at most BATCH."""
    while batch := list(itertools.islice(rows, BATCH)):
        yield batch
