"""Labels on disk: lines of query<TAB>docid<TAB>level, which `harp site --labels` and fine-tuning read."""

import os
import re
import threading

from harp_jax.errors import InputError
from harp_jax.files import lines, replacing

LEVEL = re.compile("-?[0-9]{1,5}")
LEVELS = (0, 1)  # not relevant, relevant
LEVEL = re.compile(r"-?[0-9]{1,9}")  # of a line


class LabelFile:
    """The labels of a file, which is written anew, complete or not at all, with every change. Safe for threads.

    Lines of other queries and documents, and comments, are kept unchanged. Raises InputError for lines of another form.
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
        if not line.strip() or (line.startswith("#") and "\t" not in line):  # a query may begin with #
            self._lines.append((None, line))
            return
        parts = [part.strip() for part in line.split("\t")]
        level = parts[2] if len(parts) == 3 else "1"
        if len(parts) not in (2, 3) or not parts[0] or not parts[1] or not LEVEL.fullmatch(level):
            raise InputError(f"{self.path}, line {number}: no 'query<TAB>docid<TAB>level'; correct the line")
        pair = (tidy(parts[0]), parts[1])
        self._lines.append((pair, line))
        self._levels[pair] = int(level)

    def __len__(self) -> int:
        return len(self._levels)

    @property
    def queries(self) -> int:
        """Queries with labels."""
        return len({query for query, _ in self._levels})

    def of(self, query: str) -> dict[str, int]:
        """docid → level of a query."""
        with self._lock:
            return {docid: level for (asked, docid), level in self._levels.items() if asked == tidy(query)}

    def set(self, query: str, docid: str, level: int | None) -> None:
        """Labels a document of a query, or removes its label (None). Raises InputError if the file cannot be read or written."""
        pair = (tidy(query), docid)
        with self._lock:
            self._read()  # an editor may have changed it
            kept = [(other, line) for other, line in self._lines if other != pair]
            if level is not None:
                kept.append((pair, f"{pair[0]}\t{docid}\t{level}"))
            with replacing(self.path) as file:
                file.writelines(line + "\n" for _, line in kept)
            self._lines = kept
            self._levels.pop(pair, None)
            if level is not None:
                self._levels[pair] = level


def tidy(query: str) -> str:
    """A query on one line, without repeated white space."""
    return " ".join(query.split())
