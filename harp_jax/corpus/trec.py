"""Runs, relevance judgments and queries in the text formats of TREC and MS MARCO; subsets of queries by list and by fold.

Files may be plain, .gz, .bz2 or .xz, with Unix or Windows newlines, with or without a byte order mark. Errors are
InputErrors with the file and the line.
"""

import math
import os
import sys
from array import array
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import as_number, replacing
from harp_jax.base.randomness import hash64
from harp_jax.corpus.paths import dataset, is_irds, qrels_file, query_file
from harp_jax.corpus.sgml import topics
from harp_jax.corpus.text_files import checked_id, checked_text, columns, parse_object, records

TAG = "harp_jax"
# Column names in the header of BEIR's and other judgments; letters only.
_HEADER = {
    "queryid": "query", "qid": "query", "corpusid": "document", "docid": "document", "documentid": "document",
    "score": "level", "relevance": "level", "label": "level", "level": "level",
}  # fmt: skip
SMALLEST_STEP = 1e-20  # between two scores of a run; large enough not to be flushed to zero as a subnormal float32
LARGEST = 1e37  # largest score in a run, below float32's maximum
LARGEST_LEVEL = 10_000  # largest relevance level: trec_eval counts the documents of every level up to it


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
        """Indices by decreasing score, as trec_eval sorts: in single precision, ties by descending id. All readers of a run use
        this order; otherwise fusion alone could change a run's measures through its ties."""
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
    "scoreddocs" of a dataset, in their order without scores. Memory: about 24 bytes per candidate, and each document id once.
    """
    run: Run = {}
    if is_irds(path):
        with dataset(path, "scoreddocs") as dataset_:
            for number, one in enumerate(dataset_.scoreddocs_iter()):
                if queries is None or one.query_id in queries:
                    ranking = run.setdefault(one.query_id, Ranking())
                    ranking.docids.append(sys.intern(one.doc_id))
                    ranking.scores.append(float(getattr(one, "score", -number)))
        return run
    seen: set[str] = set()
    current = ""
    for number, parts in columns(path, "a run", (6, 3)):
        wrong = ""
        if len(parts) == 6:
            qid, _, docid, rank, text, tag = parts
            what, value = "score", as_number(text)
            # An id with a space shifts the columns: the rank is not an integer, or the tag begins with a second score.
            first, *more = tag.split()
            if math.isnan(as_number(rank, int)) or (more and not math.isnan(as_number(text, int) + as_number(first))):
                wrong = f"rank {rank!r}, score {text!r}, tag {tag[:40]!r} are shifted, as by an id with a space; "
                wrong += "write 'qid Q0 docid rank score tag'"
        else:
            qid, docid, text = parts
            what, value = "rank", -as_number(text, int)
        if not wrong and queries is not None and qid not in queries:
            continue
        if qid != current:
            # Tracks duplicates only within the current query; a query that reappears starts from its list.
            current, seen = qid, set(run[qid].docids) if qid in run else set()
        if docid in seen:
            wrong = wrong or f"document {docid} is listed twice for query {qid}; remove one"
        if not abs(value) <= LARGEST:
            wrong = wrong or f"{what} {text!r} is not a number within ±{LARGEST:g}; write the run again"
        if wrong:
            raise InputError(f"{path}, line {number}: {wrong}")
        seen.add(docid)
        ranking = run.setdefault(qid, Ranking())
        ranking.docids.append(sys.intern(docid))
        ranking.scores.append(value)
    return run


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Judgments qid → docid → level, from "qid iteration docid level" lines, or with a header such as BEIR's. A BEIR folder is read
    as its only split, "irds:ID" as an ir_datasets dataset (with subtopics, the highest level of any)."""
    path, qrels = os.fspath(path), Qrels()
    if is_irds(path):
        with dataset(path, "qrels") as dataset_:
            for judgment in dataset_.qrels_iter():
                levels, docid = qrels.setdefault(judgment.query_id, {}), sys.intern(judgment.doc_id)
                levels[docid] = max(int(judgment.relevance), levels.get(docid, int(judgment.relevance)))
        return qrels
    path = qrels_file(path)
    indices: tuple[int, ...] = ()
    for number, parts in columns(path, "qrels", (4, 3)):
        if not indices:
            header = [_HEADER.get("".join(filter(str.isalpha, part.lower())), "") for part in parts]
            if {"query", "document", "level"} <= set(header):
                indices = tuple(header.index(name) for name in ("query", "document", "level"))
                continue
            indices = (0, 2, 3)
        wrong = ""
        if max(indices) >= len(parts):
            wrong = "3 columns and no header; write 'qid 0 docid level', or begin with 'query-id corpus-id score'"
            raise InputError(f"{path}, line {number}: {wrong}")
        qid, docid, text = (parts[index] for index in indices)
        level, judged = as_number(text, int), qrels.setdefault(qid, {})
        if docid in judged:
            wrong = f"document {docid} is judged twice for query {qid}; remove one"
        elif not abs(level) <= LARGEST_LEVEL:
            wrong = f"relevance {text[:20]!r} is not an integer within ±{LARGEST_LEVEL}; correct the line"
        if wrong:
            raise InputError(f"{path}, line {number}: {wrong}")
        judged[sys.intern(docid)] = int(level)
    if not qrels:
        raise InputError(f"{path} has no judgments; write 'qid 0 docid level' lines")
    return qrels


def read_queries(path: str | os.PathLike[str]) -> dict[str, str]:
    """qid → text, from "qid<TAB>text" lines, from JSONL with "_id" (or "id") and "text", or the titles of TREC topics. A BEIR
    folder is read as its queries.jsonl, "irds:ID" as an ir_datasets dataset."""
    path = os.fspath(path)
    if is_irds(path):
        with dataset(path, "queries") as dataset_:
            return {query.query_id: query.default_text() for query in dataset_.queries_iter()}
    path = query_file(path)
    queries: dict[str, str] = {}
    rows = records(path, "queries, 'qid<TAB>text' a line")
    for number, line in rows:
        where = f"{path}, line {number}"
        if not queries and line.lstrip().lower().startswith("<top>"):
            return topics(path, "\n".join([line, *(rest for _, rest in rows)]))
        if line.startswith("{"):
            record = parse_object(where, line)
            id_, text = record.get("_id", record.get("id")), checked_text(where, record.get("text"), "text")
        else:
            id_, tab, text = line.partition("\t")
            if not tab:
                raise InputError(f"{where}: no tab; write 'qid<TAB>text'")
            id_, text = id_.strip(), text.replace("\t", " ")
        if (qid := checked_id(where, id_, "query")) in queries:
            raise InputError(f"{where}: query {qid} is listed twice; remove one")
        if not text.strip():
            raise InputError(f"{where}: query {qid} has no text; correct or remove the line")
        queries[qid] = text.strip()
    return queries


def read_ids(path: str) -> list[str]:
    """Query ids: the first word of each line, without duplicates."""
    return list(dict.fromkeys(line.split()[0] for _, line in records(path, "query ids, one a line")))


def strictly_decreasing(scores: Sequence[float] | np.ndarray) -> np.ndarray:
    """Sorted scores [n] → strictly decreasing float32 [n]; ties keep their order. All evaluation tools then read the same ranking,
    even those that store scores as float32."""
    out = np.asarray(scores, np.float32).copy()
    for i in range(1, len(out)):
        if not out[i] < out[i - 1]:
            out[i] = out[i - 1] - max(np.spacing(np.abs(out[i - 1])), np.float32(SMALLEST_STEP))
    return out


def ordered(rankings: Iterable[ScoredQuery]) -> Iterator[tuple[str, Ranking]]:
    """Sorts each query by decreasing score (ties in the given order) and breaks ties, as written to a run file. Raises InputError
    for scores that are not finite or too large for float32, and for ids with white space."""
    for qid, docids, scores in rankings:
        checked_id("run", qid, "query")
        if " ".join(docids).split() != list(docids):
            for docid in docids:
                checked_id(f"run, query {qid}", docid, "document")
        values = np.asarray(scores, np.float64)
        if (bad := ~(np.abs(values) <= LARGEST)).any():
            first = int(np.argmax(bad))
            wrong = f"the score {values[first]:g} is not a number within ±{LARGEST:g}"
            raise InputError(f"query {qid}, document {docids[first]}: {wrong}; scale the scores, or check the model")
        order = np.argsort(-values, kind="stable")
        yield qid, Ranking.of([docids[i] for i in order], strictly_decreasing(values[order]))


def run_lines(rankings: Iterable[ScoredQuery], tag: str = TAG) -> Iterator[str]:
    """The lines of a TREC run. Raises InputError as `ordered` does."""
    for qid, ranking in ordered(rankings):
        for rank, (docid, score) in enumerate(zip(ranking.docids, ranking.scores), 1):
            # Nine significant digits reproduce every float32.
            yield f"{qid} Q0 {docid} {rank} {score:.9g} {tag}\n"


def write_run(path: str, rankings: Iterable[ScoredQuery], tag: str = TAG) -> None:
    """Writes (qid, docids, scores) as a TREC run, atomically, sorted by decreasing score with ties in the given order."""
    with replacing(path) as file:
        file.writelines(run_lines(rankings, tag))


def read_folds(path: str) -> dict[str, str]:
    """qid → fold, from "qid<TAB>fold" lines."""
    if not path:
        raise InputError("no folds file; set --folds (or --config.folds) to a file of qid<TAB>fold lines")
    folds: dict[str, str] = {}
    for number, (qid, fold) in columns(path, "a file of 'qid<TAB>fold' lines", (2,)):
        if qid in folds:
            raise InputError(f"{path}, line {number}: query {qid} is listed twice; remove one")
        folds[qid] = fold
    return folds


def outside(folds: Mapping[str, str], fold: str, queries: Iterable[str]) -> list[str]:
    """The queries of other folds. InputError if there are none."""
    others = [qid for qid in queries if qid in folds and folds[qid] != fold]
    if not others:
        raise InputError(f"no judged query lies outside fold {fold}; use --folds for the queries of --qrels")
    return others


def chosen_queries(only: str = "", folds: str = "", wanted: Iterable[int | str] = ()) -> set[str] | None:
    """Query ids from the first column of the file `only`, or from the `wanted` folds of the file `folds`; None: all queries. Raises
    InputError if both are given, or only one of folds and `wanted`, and for a fold without queries."""
    names = {str(fold) for fold in wanted} - {""}
    if folds and (only or not names):
        raise InputError("choose queries with either --only, or --folds and --fold")
    if not names:
        return set(read_ids(only)) if only else None
    fold_of = read_folds(folds)
    if unknown := names - set(fold_of.values()):
        known = ", ".join(sorted(set(fold_of.values())))
        raise InputError(f"{folds} has no fold {min(unknown)}; its folds are {known}")
    return {qid for qid, fold in fold_of.items() if fold in names}


def read_subset(qrels: Qrels, listed: str = "", folds: str = "", wanted: Collection[int | str] = ()) -> Qrels:
    """The judgments of the queries in the first column of the file `listed`, in its order (default: all, in qrels order).

    If folds are `wanted`, only the queries in these folds. Raises InputError for a listed query without judgments, and for a
    fold without queries.
    """
    if listed:
        ids = read_ids(listed)
        if unjudged := [qid for qid in ids if qid not in qrels]:
            wrong = f"{len(unjudged)} queries have no judgments, such as {unjudged[0]}"
            raise InputError(f"{listed}: {wrong}; correct the list or the qrels")
        qrels = {qid: qrels[qid] for qid in ids}
    return select(qrels, chosen_queries("", folds, wanted) or qrels) if wanted else qrels


def select(qrels: Qrels, queries: Collection[str]) -> Qrels:
    """The judgments of some queries, in qrels order."""
    return {qid: judged for qid, judged in qrels.items() if qid in queries}


def with_texts(run: Run, queries: Mapping[str, str], where: str) -> tuple[Run, str]:
    """The queries of a run that have a text, and a note on the others ("" if none). Raises InputError if no query of the run has a
    text; `where` names the queries."""
    known = {qid: ranking for qid, ranking in run.items() if qid in queries}
    without = [qid for qid in run if qid not in queries]
    if not known:
        first = f", such as {without[0]}" if without else ""
        raise InputError(f"{where} has no text for any of the {len(run)} queries of the run{first}; check both")
    note = f"{len(without)} of {len(run)} queries of the run are not in {where} and are left out: {abbreviate(without)}"
    return known, note if without else ""


def abbreviate(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def split_queries(qrels: Qrels, fraction: float, seed: int) -> tuple[Qrels, Qrels]:
    """(training, held-out) judgments; holds out at most `fraction` of the queries.

    Queries that share a relevant document, directly or transitively, stay together, so that memorised documents do not help
    on held-out queries. Whole groups are held out in the order of a hash of (seed, first query id).
    """
    order = sorted(components(qrels), key=lambda group: (hash64(seed, "held out", min(group)), min(group)))
    room = round(fraction * len(qrels))
    held: set[str] = set()
    for group in order:
        if len(held) + len(group) <= room:
            held.update(group)
    return select(qrels, qrels.keys() - held), select(qrels, held)


def components(qrels: Qrels) -> list[list[str]]:
    """Groups of queries connected by shared relevant documents, in the order of their first queries."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first: dict[str, int] = {}  # document → the first query that it is relevant for
    relevant = [(n, d) for n, levels in enumerate(qrels.values()) for d, level in levels.items() if level > 0]
    edges = np.array([(n, first.setdefault(docid, n)) for n, docid in relevant], np.int64).reshape(-1, 2)
    graph = coo_array((np.ones(len(edges)), tuple(edges.T)), shape=(len(qrels), len(qrels)))
    groups: dict[int, list[str]] = {}
    for qid, number in zip(qrels, connected_components(graph, directed=False)[1].tolist()):
        groups.setdefault(number, []).append(qid)
    return list(groups.values())
