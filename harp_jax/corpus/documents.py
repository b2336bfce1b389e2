"""Random access to documents by id, through an SQLite index that is built once in the user's cache.

Formats: MS MARCO's `docid, url, title, body` (tabs), `docid, text` (tabs), and JSONL with `id` or `_id`, `title`, `url`
and `text`, `body` or `contents`, and TREC's SGML (`sgml.py`). For plain files the index stores byte offsets into the file;
compressed files (.gz, .bz2, .xz) and SGML have no random access, so the index stores their records (zlib). A folder of such
files (BEIR's, or any) is one collection; "irds:ID" is a dataset of ir_datasets.
"""

import contextlib
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from harp_jax.base.errors import InputError
from harp_jax.base.files import SUFFIXES, beside, cache_directory, open_bytes, raw_lines
from harp_jax.base.progress import progress
from harp_jax.corpus import sgml
from harp_jax.corpus.paths import cache_name, dataset, document_files, is_irds
from harp_jax.corpus.text_files import checked_id, checked_text, parse_object

FIELDS = ("title", "url", "body")
BODIES = ("text", "body", "contents")  # names of the body in JSONL; the first that is not null is used
IRDS_BODIES = ("body", "text", "contents", "abstract")
OPEN_FILES = 16  # per thread
# SQLite errors that do not mean a damaged index: no file descriptor, no memory, I/O error.
LACKS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR)


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
    def open(cls, path: str | os.PathLike[str], fields: tuple[str, ...] = FIELDS) -> "Documents":
        """Opens `path`; builds its index in the user's cache if necessary. Raises InputError, with the line, for unreadable records
        and duplicate document ids."""
        path = os.fspath(path)
        unknown = [field for field in fields if field not in FIELDS]
        if unknown or not fields:
            raise InputError(f"unknown document field {unknown}; choose from {', '.join(FIELDS)}")
        if is_irds(path):
            return IrdsDocuments(path, tuple(fields))
        files = document_files(path)
        index = os.path.join(cache_directory("documents"), cache_name(path, files) + ".sqlite")
        if not os.path.exists(index):
            build_index(index, lambda connection: _fill(path, files, connection))
        return cls(path, index, tuple(fields))

    def __reduce__(self) -> tuple[object, ...]:
        return Documents, (self.path, self.index, self.fields)

    def __getitem__(self, docid: str) -> str:
        with self._connection() as connection:
            row = connection.execute("SELECT file, line, start, record FROM document WHERE id = ?", (docid,)).fetchone()
            if row is None:
                raise KeyError(docid)
            number, line, start, stored = row
            if stored is not None:
                data = zlib.decompress(stored)
            else:
                # Recently read files stay open.
                files = self._opened.files
                if number not in files and len(files) == OPEN_FILES:
                    files.pop(next(iter(files))).close()
                file = files.setdefault(number, files.get(number) or open_bytes(self.files[number]))
                file.seek(start)
                data = file.readline()
        record = _parse(self.files[number], line, data)
        if record["id"] != docid:
            where, wrong = f"{self.files[number]}, line {line}", f"{docid!r} when the file was indexed"
            advice = "do not change the documents while a command reads them, and run it again"
            raise InputError(f"{where}: document {record['id']!r}, but {wrong}; {advice}")
        return joined(record, self.fields)

    def __contains__(self, docid: str) -> bool:
        with self._connection() as connection:
            return connection.execute("SELECT 1 FROM document WHERE id = ?", (docid,)).fetchone() is not None

    def __len__(self) -> int:
        with self._connection() as connection:
            return connection.execute("SELECT max(number) FROM document").fetchone()[0]

    def ids(self) -> Iterator[str]:
        """Document ids in file order."""
        with self._connection() as connection:
            for (docid,) in connection.execute("SELECT id FROM document ORDER BY number"):
                yield docid

    def texts(self) -> Iterator[tuple[str, str]]:
        """(docid, text) in file order, streaming."""
        for path in self.files:
            for line, _, data in _records(path):
                record = _parse(path, line, data)
                yield record["id"], joined(record, self.fields)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """The connection of this thread and process. InputError if the index or a file cannot be read; removes a damaged index."""
        try:
            if getattr(self._opened, "pid", None) != os.getpid():  # connections must not be shared across a fork
                uri = f"{Path(self.index).absolute().as_uri()}?mode=ro&immutable=1"
                self._opened.connection = sqlite3.connect(uri, uri=True)
                self._opened.files, self._opened.pid = {}, os.getpid()
            yield self._opened.connection
        except (sqlite3.DatabaseError, OSError, ValueError, zlib.error) as error:
            if isinstance(error, OSError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in LACKS:
                wrong = f"cannot read {self.path} by the index {self.index}: {error}"
                raise InputError(f"{wrong}; free files, memory or the disk, and try again") from error
            with contextlib.suppress(OSError):
                os.remove(self.index)
            wrong = f"the index {self.index} was damaged ({error}) and has been removed"
            raise InputError(f"{wrong}; run the command again") from error


class IrdsDocuments(Documents):
    """The same over the store of an ir_datasets dataset, which has random access."""

    def __init__(self, path: str, fields: tuple[str, ...]) -> None:
        self.path, self.index, self.fields, self.files = path, path, fields, list[str]()
        self._store: Any = None
        with dataset(path, "docs"):
            pass

    def __reduce__(self) -> tuple[object, ...]:
        return IrdsDocuments, (self.path, self.fields)

    def __getitem__(self, docid: str) -> str:
        with dataset(self.path, "docs") as dataset_:
            self._store = self._store or dataset_.docs_store()  # the first call downloads and builds the store
            return self._text(self._store.get(docid))

    def __contains__(self, docid: str) -> bool:
        try:
            self[docid]
        except KeyError:
            return False
        return True

    def __len__(self) -> int:
        with dataset(self.path, "docs") as dataset_:
            count = dataset_.docs_count()
            if count is None:  # unknown before the store is built
                store = dataset_.docs_store()
                store.build()
                count = store.count()
        return count

    def ids(self) -> Iterator[str]:
        return (docid for docid, _ in self.texts())

    def texts(self) -> Iterator[tuple[str, str]]:
        with dataset(self.path, "docs") as dataset_:
            for document in dataset_.docs_iter():
                yield document.doc_id, self._text(document)

    def _text(self, document: Any) -> str:
        """The fields by harp_jax's names; the body is the first of IRDS_BODIES, or ir_datasets' default text."""
        bodies = [getattr(document, name) for name in IRDS_BODIES if name in document._fields]
        record = {field: getattr(document, field, "") for field in FIELDS}
        record["body"] = bodies[0] if bodies else document.default_text()
        return joined({field: str(value or "") for field, value in record.items()}, self.fields)


def joined(record: dict[str, str], fields: tuple[str, ...]) -> str:
    """The text of a document: its fields that are not empty."""
    return " ".join(part for part in (record[field].strip() for field in fields) if part)


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
    if not text.startswith("{"):
        parts = text.split("\t")
        if len(parts) not in columns:
            advice = "write 'docid<TAB>url<TAB>title<TAB>body', or 'docid<TAB>text', without tabs in the texts (of HTML, a WARC or "
            advice += "a MediaWiki dump, `harp documents` writes the documents)"
            raise InputError(f"{where}: {len(parts)} columns, not {' or '.join(map(str, columns))}; {advice}")
        url, title = parts[1:-1] or ("", "")
        return {"id": checked_id(where, parts[0].strip(), "document"), "title": title, "url": url, "body": parts[-1]}

    json_record = parse_object(where, text)
    # A null body is an error, a missing body is empty.
    present = [name for name in BODIES if name in json_record]
    name = next((name for name in present if json_record[name] is not None), present[0] if present else "")
    docid = json_record["_id"] if "_id" in json_record else json_record.get("id", "")
    return {
        "id": checked_id(where, docid, "document"),
        "title": checked_text(where, json_record.get("title") or "", "title"),
        "url": checked_text(where, json_record.get("url") or "", "url"),
        "body": checked_text(where, json_record[name], name) if name else "",
    }


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


def _fill(path: str, files: list[str], connection: sqlite3.Connection) -> None:
    # Insert by number and index the ids at the end: one external sort instead of millions of random inserts.
    connection.execute(
        "CREATE TABLE document (number INTEGER PRIMARY KEY, id TEXT NOT NULL,"
        " file INTEGER, line INTEGER, start INTEGER, record BLOB)"
    )
    with progress(_rows(files), unit="documents", desc=f"indexing {os.path.basename(os.path.normpath(path))}") as rows:
        connection.executemany("INSERT INTO document VALUES (NULL, ?, ?, ?, ?, ?)", rows)
    if not connection.execute("SELECT 1 FROM document").fetchone():
        raise InputError(f"{path} has no documents; use MS MARCO's docs.tsv, JSONL or TREC's SGML")
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


def _rows(files: list[str]) -> Iterator[tuple[str, int, int, int | None, bytes | None]]:
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
