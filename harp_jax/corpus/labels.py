"""Reads and edits files of relevance labels, one query<TAB>docid<TAB>level per line.

A missing level means 1, relevant. The last label of a pair counts. Lines that begin with # are comments.
"""

import os
import re

from harp_jax.base.errors import InputError
from harp_jax.base.files import alone_in, lines, replacing
from harp_jax.corpus.trec import LARGEST_LEVEL, Qrels

LEVELS = (0, 1)  # on the page of `harp look`: not relevant, relevant
_LEVEL = re.compile("-?[0-9]{1,9}")


def read_labels(path: str) -> tuple[dict[str, str], Qrels]:
    """(queries, judgments) with ids l1, l2, … in the order of the queries. InputError, with the line, for malformed lines."""
    ids: dict[str, str] = {}
    qrels: Qrels = {}
    for number, line in lines(path):
        if label := parse(line, path, number):
            query, docid, level = label
            qid = ids.setdefault(query, f"l{len(ids) + 1}")
            qrels.setdefault(qid, {})[docid] = level
    if not relevant_only(qrels):
        raise InputError(f"{path} labels no document as relevant; write lines of query<TAB>docid<TAB>1")
    return {qid: query for query, qid in ids.items()}, qrels


def parse(line: str, path: str, number: int) -> tuple[str, str, int] | None:
    """(query, docid, level) of a line; None for a comment or an empty line. InputError, with the line, if malformed."""
    if not line.strip() or line.startswith("#"):
        return None
    parts = [part.strip() for part in line.split("\t")]
    query, level, wrong = tidy(parts[0]), parts[2] if len(parts) == 3 else "1", ""
    if len(parts) not in (2, 3) or not query or not parts[1] or len(parts[1].split()) > 1:
        wrong = "not 'query<TAB>docid<TAB>level'; correct the line"
    elif not _LEVEL.fullmatch(level) or abs(int(level)) > LARGEST_LEVEL:
        wrong = f"level {level!r} is not a small integer; write 1 for relevant, 0 for not"
    if wrong:
        raise InputError(f"{path}, line {number}: {wrong}")
    return query, parts[1], int(level)


def tidy(query: str) -> str:
    """A query on one line, without repeated white space."""
    return " ".join(query.split())


def relevant_only(qrels: Qrels) -> Qrels:
    """The judgments of the queries with a relevant document."""
    return {qid: judged for qid, judged in qrels.items() if any(level > 0 for level in judged.values())}


def check_relevant(qrels: Qrels) -> None:
    """Raises InputError unless a query has a relevant document: else every measure is 0, and nothing can be tuned or compared."""
    if not relevant_only(qrels):
        wrong = f"none of the {len(qrels)} judged queries has a relevant document (level 1 or more); check the qrels"
        raise InputError(wrong)


class LabelFile:
    """A file of labels, read with every call, because an editor or another server may have changed it, and replaced atomically with
    every change. Safe for threads and processes. Keeps other lines and comments. Raises InputError for malformed lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.levels()  # malformed lines are found before the page is served

    def _lines(self) -> list[tuple[tuple[str, str, int] | None, str]]:
        numbered = lines(self.path) if os.path.exists(self.path) else ()
        return [(parse(line, self.path, number), line) for number, line in numbered]

    def levels(self) -> dict[tuple[str, str], int]:
        """(query, docid) → level."""
        return {label[:2]: label[2] for label, _ in self._lines() if label}

    def of(self, query: str) -> dict[str, int]:
        """docid → level for a query."""
        return {docid: level for (asked, docid), level in self.levels().items() if asked == tidy(query)}

    def set(self, query: str, docid: str, level: int | None) -> None:
        """Labels a document of a query, or removes its label (None). Raises InputError if the file cannot be read or written."""
        pair = (tidy(query), docid)
        with alone_in(os.path.dirname(os.path.abspath(self.path))):
            others = [line for label, line in self._lines() if not label or label[:2] != pair]
            if level is not None:
                # A leading space protects a query that begins with #, the mark of comments.
                others.append(f"{' ' if pair[0].startswith('#') else ''}{pair[0]}\t{docid}\t{level}")
            with replacing(self.path) as file:
                file.writelines(line + "\n" for line in others)
