"""Runs, relevance judgments and queries in the text formats of TREC and MS MARCO.

Files may be plain, .gz, .bz2 or .xz, with Unix or Windows newlines, with or without a byte order mark. Errors are
InputErrors with the file and the line.
"""

import math
import os
import sys
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, replacing
from harp_jax.corpus import irds
from harp_jax.corpus.jsonl import checked_id, checked_text, parse_object
from harp_jax.corpus.paths import is_irds, qrels_file, query_file

TAG = "harp_jax"
# Column names in the header of BEIR's and other judgments; letters only.
_HEADER = {
    "queryid": "query", "qid": "query", "corpusid": "document", "docid": "document", "documentid": "document",
    "score": "level", "relevance": "level", "label": "level", "level": "level",
}  # fmt: skip
SMALLEST_STEP = 1e-20  # between two scores of a run; large enough not to be flushed to zero as a subnormal float32
LARGEST = 1e37  # score in a run, below float32's maximum
LARGEST_LEVEL = 10_000  # of relevance: trec_eval counts the documents of every level up to the largest


@dataclass
class Ranking:
    """The candidates of one query in file order, with their scores (larger is better)."""

    docids: list[str] = field(default_factory=list)
    scores: array = field(default_factory=lambda: array("d"))

    @classmethod
    def of(cls, docids: Sequence[str], scores: Iterable[float]) -> "Ranking":
        return cls(list(docids), array("d", map(float, scores)))

    def __len__(self) -> int:
        return len(self.docids)

    def order(self) -> list[int]:
        """Indices by decreasing score, as trec_eval sorts: in single precision, ties by descending id.

        All readers of a run use this order; otherwise fusion alone could change a run's measures through its ties.
        """
        scored = list(zip(np.asarray(self.scores, np.float32).tolist(), self.docids))
        return sorted(range(len(self)), key=scored.__getitem__, reverse=True)

    def ranked(self) -> list[str]:
        """Document ids, best first."""
        return [self.docids[i] for i in self.order()]


Run = dict[str, Ranking]
Qrels = dict[str, dict[str, int]]
ScoredQuery = tuple[str, list[str], np.ndarray | array]  # qid, document ids, scores [n]; in any order


def read_run(path: str, queries: Container[str] | None = None) -> Run:
    """A TREC run (qid Q0 docid rank score tag) or an MS MARCO run (qid docid rank), optionally only of `queries`.

    TREC runs are ordered by score, not rank, as in trec_eval; MS MARCO ranks become scores -rank. "irds:ID" reads the
    candidates of an ir_datasets dataset. Memory: about 24 bytes per candidate, and each document id once.
    """
    run: Run = {}
    if is_irds(path):
        for qid, docid, given in irds.candidates(path):
            if queries is None or qid in queries:
                run.setdefault(qid, Ranking()).docids.append(docid)
                run[qid].scores.append(given)
        return run
    seen: set[str] = set()
    current = ""
    for number, parts in _columns(path, "a run", (6, 3)):
        qid, docid, score = (parts[0], parts[2], parts[4]) if len(parts) == 6 else (parts[0], parts[1], parts[2])
        if len(parts) == 6 and _shifted(parts):
            raise InputError(
                f"{path}, line {number}: rank {parts[3]!r}, score {score!r}, tag {parts[5][:40]!r} are shifted, as by an id with a "
                "space; write 'qid Q0 docid rank score tag'"
            )
        if queries is not None and qid not in queries:
            continue
        if qid != current:
            # Tracks duplicates only within the current query; a query that reappears starts from its list.
            current, seen = qid, set(run[qid].docids) if qid in run else set()
        if docid in seen:
            raise InputError(f"{path}, line {number}: document {docid} is listed twice for query {qid}; remove one")
        seen.add(docid)
        ranking = run.setdefault(qid, Ranking())
        ranking.docids.append(sys.intern(docid))
        ranking.scores.append(_score(score, len(parts), path, number))
    return run


def _shifted(parts: list[str]) -> bool:
    """Whether a space in an id shifts the columns: the rank is not an integer, or the tag begins with a second score."""
    _, _, _, rank, score, tag = parts
    first, space, _ = tag.partition(" ")
    return not _is_integer(rank) or (bool(space) and _is_integer(score) and _is_number(first))


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _score(text: str, columns: int, path: str, number: int) -> float:
    try:
        score = float(text) if columns == 6 else -float(int(text))
    except (ValueError, OverflowError):
        score = math.nan
    what = "score" if columns == 6 else "rank"
    if not math.isfinite(score):
        raise InputError(f"{path}, line {number}: {what} {text!r} is not a finite number; write the run again")
    if abs(score) > LARGEST:
        raise InputError(f"{path}, line {number}: {what} {text!r} is beyond ±{LARGEST:g}; scale the scores")
    return score


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Judgments qid → docid → level, from "qid iteration docid level" lines, or with a header such as BEIR's.

    A BEIR folder is read as its only split, "irds:ID" as an ir_datasets dataset.
    """
    path = os.fspath(path)
    if is_irds(path):
        return irds.qrels(path)
    path = qrels_file(path)
    qrels: Qrels = {}
    query, document, relevance = 0, 2, 3
    for row, (number, parts) in enumerate(_columns(path, "qrels", (4, 3))):
        header = [_HEADER.get("".join(filter(str.isalpha, part.lower())), "") for part in parts] if not row else []
        if {"query", "document", "level"} <= set(header):
            query, document, relevance = (header.index(name) for name in ("query", "document", "level"))
            continue
        if len(parts) == 3 and not row:
            raise InputError(
                f"{path}, line {number}: 3 columns and no header; write 'qid 0 docid level', or begin with "
                "'query-id corpus-id score'"
            )
        qid, docid, level = parts[query], parts[document], parts[relevance]
        judged = qrels.setdefault(qid, {})
        if docid in judged:
            raise InputError(f"{path}, line {number}: document {docid} is judged twice for query {qid}; remove one")
        try:
            judged[sys.intern(docid)] = int(level)
        except ValueError:
            raise InputError(
                f"{path}, line {number}: relevance {level!r} is not an integer; correct the line"
            ) from None
        if abs(judged[docid]) > LARGEST_LEVEL:
            raise InputError(
                f"{path}, line {number}: relevance {level[:20]} is beyond ±{LARGEST_LEVEL}; correct the line"
            )
    if not qrels:
        raise InputError(f"{path} is empty; it should have judgments, 'qid 0 docid level' a line")
    return qrels


def _columns(path: str, what: str, allowed: tuple[int, ...]) -> Iterator[tuple[int, list[str]]]:
    """(line number, columns) of a white-space-separated file; all lines have the same number of columns."""
    columns = 0
    for number, line in lines(path):
        # As in trec_eval, a run's tag is the rest of the line and may contain spaces.
        parts = line.split(maxsplit=5)
        if not parts:
            continue
        columns = columns or len(parts)
        if len(parts) not in allowed or len(parts) != columns:
            wanted = " or ".join(map(str, allowed)) if columns not in allowed else str(columns)
            raise InputError(f"{path}, line {number}: {len(parts)} columns, {what} has {wanted}; correct the line")
        yield number, parts
    if not columns:
        raise InputError(f"{path} is empty; it should be {what}")


def read_queries(path: str | os.PathLike[str]) -> dict[str, str]:
    """qid → text, from "qid<TAB>text" lines or from JSONL with "_id" (or "id") and "text".

    A BEIR folder is read as its queries.jsonl, "irds:ID" as an ir_datasets dataset.
    """
    path = os.fspath(path)
    if is_irds(path):
        return irds.queries(path)
    path = query_file(path)
    queries: dict[str, str] = {}
    for number, line in lines(path):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        qid, text = _json_query(where, line) if line.startswith("{") else _tab_query(where, line)
        if qid in queries:
            raise InputError(f"{path}, line {number}: query {qid} is listed twice; remove one")
        if not text.strip():
            raise InputError(f"{path}, line {number}: query {qid} has no text; correct or remove the line")
        queries[qid] = text.strip()
    if not queries:
        raise InputError(f"{path} is empty; it should have queries, 'qid<TAB>text' a line")
    return queries


def _tab_query(where: str, line: str) -> tuple[str, str]:
    qid, tab, text = line.partition("\t")
    if not tab:
        raise InputError(f"{where}: no tab; write 'qid<TAB>text'")
    return checked_id(where, qid.strip(), "query"), text.replace("\t", " ")


def _json_query(where: str, line: str) -> tuple[str, str]:
    record = parse_object(where, line)
    name = "_id" if "_id" in record else "id"
    if name not in record or "text" not in record:
        raise InputError(
            f"{where}: fields {', '.join(record) or 'none'}; a query has '_id' and 'text': correct the line"
        )
    return checked_id(where, record[name], "query"), checked_text(where, record["text"], "text")


def read_ids(path: str) -> list[str]:
    """Query ids: the first word of each line, without duplicates."""
    found = list(dict.fromkeys(line.split()[0] for _, line in lines(path) if line.strip()))
    if not found:
        raise InputError(f"{path} is empty; it should have query ids, one a line")
    return found


def strictly_decreasing(scores: Sequence[float] | np.ndarray) -> np.ndarray:
    """Sorted scores [n] → strictly decreasing float32 [n]; ties keep their order.

    All evaluation tools then read the same ranking, even those that store scores as float32.
    """
    out = np.asarray(scores, np.float32).copy()
    for i in range(1, len(out)):
        if not out[i] < out[i - 1]:
            out[i] = out[i - 1] - max(np.spacing(np.abs(out[i - 1])), np.float32(SMALLEST_STEP))
    return out


def ordered(rankings: Iterable[ScoredQuery]) -> Iterator[tuple[str, Ranking]]:
    """Sorts each query by decreasing score (ties in the given order) and breaks ties, as written to a run file.

    Raises InputError for scores that are not finite or too large for float32, and for ids with white space.
    """
    for qid, docids, scores in rankings:
        checked_id("run", qid, "query")
        if " ".join(docids).split() != list(docids):
            for docid in docids:
                checked_id(f"run, query {qid}", docid, "document")
        values = np.asarray(scores, np.float64)
        if not np.isfinite(values).all():
            bad = docids[int(np.flatnonzero(~np.isfinite(values))[0])]
            raise InputError(f"query {qid}, document {bad}: the score is not finite; the model is broken, retrain it")
        if len(values) and np.abs(values).max() > LARGEST:
            bad = docids[int(np.abs(values).argmax())]
            raise InputError(
                f"query {qid}, document {bad}: the score is beyond ±{LARGEST:g}, where runs end; scale the scores"
            )
        order = np.argsort(-values, kind="stable")
        yield qid, Ranking.of([docids[i] for i in order], strictly_decreasing(values[order]))


def write_run(path: str, rankings: Iterable[ScoredQuery], tag: str = TAG) -> None:
    """Writes (qid, docids, scores) as a TREC run, atomically, sorted by decreasing score with ties in the given order.

    Raises InputError as `ordered` does.
    """
    with replacing(path) as file:
        file.writelines(run_lines(rankings, tag))


def run_lines(rankings: Iterable[ScoredQuery], tag: str = TAG) -> Iterator[str]:
    """The lines of `write_run`."""
    for qid, ranking in ordered(rankings):
        for rank, (docid, score) in enumerate(zip(ranking.docids, ranking.scores), 1):
            # Nine significant digits reproduce every float32.
            yield f"{qid} Q0 {docid} {rank} {score:.9g} {tag}\n"
