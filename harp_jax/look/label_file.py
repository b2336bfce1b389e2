"""Labels on disk: lines of query<TAB>docid<TAB>level, which `harp site --labels` and fine-tuning read."""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator

from harp_jax.base.files import lines, replacing
from harp_jax.corpus.labels import as_line, parse, tidy

LEVELS = (0, 1)  # not relevant, relevant


class LabelFile:
    """A file of labels, rewritten atomically with every change. Safe for threads and processes.

    Keeps other lines and comments unchanged. Raises InputError for malformed lines.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._read()

    def _read(self) -> None:
        self._lines: list[tuple[tuple[str, str] | None, str]] = []  # (query and document, the line)
        self._levels: dict[tuple[str, str], int] = {}
        for number, line in lines(self.path) if os.path.exists(self.path) else ():
            self._keep(line.rstrip("\r\n"), number)

    def _keep(self, line: str, number: int) -> None:
        label = parse(line, self.path, number)
        self._lines.append((label and label[:2], line))
        if label:
            self._levels[label[:2]] = label[2]

    def __len__(self) -> int:
        with self._lock:
            return len(self._levels)

    @property
    def queries(self) -> int:
        """Number of queries with labels."""
        with self._lock:
            return len({query for query, _ in self._levels})

    def of(self, query: str) -> dict[str, int]:
        """docid → level of a query."""
        with self._lock:
            return {docid: level for (asked, docid), level in self._levels.items() if asked == tidy(query)}

    def set(self, query: str, docid: str, level: int | None) -> None:
        """Labels a document of a query, or removes its label (None). Raises InputError if the file cannot be read or written."""
        pair = (tidy(query), docid)
        with self._lock, alone_in(os.path.dirname(os.path.abspath(self.path))):
            self._read()  # an editor or another server may have changed it
            kept = [(other, line) for other, line in self._lines if other != pair]
            if level is not None:
                kept.append((pair, as_line(*pair, level)))
            with replacing(self.path) as file:
                file.writelines(line + "\n" for _, line in kept)
            self._lines = kept
            self._levels.pop(pair, None)
            if level is not None:
                self._levels[pair] = level


@contextlib.contextmanager
def alone_in(directory: str) -> Iterator[None]:
    """Locks a directory against other processes, without a lock file."""
    os.makedirs(directory, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
