"""Relevance labels, one query<TAB>docid<TAB>level per line.

A missing level means 1, relevant. The last label of a pair counts. Lines that begin with # are comments.
"""

import os
import re

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, output_path, replacing
from harp_jax.corpus.trec import LARGEST_LEVEL, Qrels

_LEVEL = re.compile(r"-?\d{1,9}")


def read_labels(path: str) -> tuple[dict[str, str], Qrels]:
    """(queries, judgments) with ids l1, l2, … in the order of the queries. InputError, with the line, for other lines."""
    ids: dict[str, str] = {}
    qrels: Qrels = {}
    for number, line in lines(path):
        if label := parse(line, path, number):
            query, docid, level = label
            qid = ids.setdefault(query, f"l{len(ids) + 1}")
            qrels.setdefault(qid, {})[docid] = level
    if not any(level > 0 for judged in qrels.values() for level in judged.values()):
        raise InputError(f"{path} labels no document as relevant; write lines of query<TAB>docid<TAB>1")
    return {qid: query for query, qid in ids.items()}, qrels


def parse(line: str, path: str, number: int) -> tuple[str, str, int] | None:
    """(query, docid, level) of a line; None for a comment or an empty line. InputError, with the line, for other lines."""
    if not line.strip() or line.startswith("#"):
        return None
    parts = [part.strip() for part in line.split("\t")]
    query = tidy(parts[0])
    if len(parts) not in (2, 3) or not query or not parts[1] or len(parts[1].split()) > 1:
        raise InputError(f"{path}, line {number}: no 'query<TAB>docid<TAB>level'; correct the line")
    level = parts[2] if len(parts) == 3 else "1"
    if not _LEVEL.fullmatch(level) or abs(int(level)) > LARGEST_LEVEL:
        raise InputError(f"{path}, line {number}: level {level!r} is no small integer; write 1 for relevant, 0 for not")
    return query, parts[1], int(level)


def as_line(query: str, docid: str, level: int) -> str:
    """The line of a label. A leading space protects a query that begins with #, the mark of comments."""
    return f"{' ' if query.startswith('#') else ''}{query}\t{docid}\t{level}"


def tidy(query: str) -> str:
    """A query on one line, without repeated white space."""
    return " ".join(query.split())


def write_collection(path: str, folder: str) -> tuple[int, int]:
    """Writes queries.tsv and qrels.txt for the queries with a relevant document; returns (queries, labels)."""
    queries, qrels = read_labels(path)
    kept = {qid: judged for qid, judged in qrels.items() if any(level > 0 for level in judged.values())}
    os.makedirs(folder, exist_ok=True)
    for name in ("queries.tsv", "qrels.txt"):
        output_path(os.path.join(folder, name), [path])
    with replacing(os.path.join(folder, "queries.tsv")) as file:
        file.writelines(f"{qid}\t{queries[qid]}\n" for qid in kept)
    with replacing(os.path.join(folder, "qrels.txt")) as file:
        file.writelines(f"{qid} 0 {docid} {n}\n" for qid, judged in kept.items() for docid, n in judged.items())
    return len(kept), sum(map(len, kept.values()))
