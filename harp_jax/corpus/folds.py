"""Subsets of queries: by list, by fold, or held out without a common relevant document."""

from collections.abc import Collection, Iterable

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines
from harp_jax.base.randomness import hash64
from harp_jax.corpus.trec import Qrels, read_ids


def read_folds(path: str) -> dict[str, str]:
    """qid → fold, from "qid<TAB>fold" lines."""
    if not path:
        raise InputError("no folds file; set --folds (or --config.folds) to a file of qid<TAB>fold lines")
    folds: dict[str, str] = {}
    for number, line in lines(path):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 2:
            raise InputError(f"{path}, line {number}: {len(parts)} columns; write 'qid<TAB>fold'")
        if parts[0] in folds:
            raise InputError(f"{path}, line {number}: query {parts[0]} is listed twice; remove one")
        folds[parts[0]] = parts[1]
    if not folds:
        raise InputError(f"{path} is empty; write 'qid<TAB>fold', a query a line")
    return folds


def in_folds(folds: dict[str, str], wanted: Iterable[int | str], where: str = "folds") -> set[str]:
    """The queries in the wanted folds; InputError for a fold without queries. `where` names the file in messages."""
    names = {str(fold) for fold in wanted}
    unknown = names - set(folds.values())
    if unknown:
        raise InputError(f"{where} has no fold {min(unknown)}; its folds are {', '.join(sorted(set(folds.values())))}")
    return {qid for qid, fold in folds.items() if fold in names}


def chosen_queries(only: str = "", folds: str = "", wanted: Iterable[int | str] = ()) -> set[str] | None:
    """Query ids from the first column of the file `only`, or from the `wanted` folds of the file `folds`; None: all queries.

    Raises InputError if both are given, or only one of folds and `wanted`.
    """
    names = [fold for fold in wanted if str(fold)]
    if bool(folds) != bool(names) or (folds and only):
        raise InputError("choose queries by --only, or by --folds with --fold, or not at all")
    if folds:
        return in_folds(read_folds(folds), names, folds)
    return set(read_ids(only)) if only else None


def read_subset(qrels: Qrels, listed: str = "", folds: str = "", wanted: Collection[int | str] = ()) -> Qrels:
    """The judgments of the queries in the first column of the file `listed`, in its order (default: all, in qrels order);
    if folds are `wanted`, only those in these folds.

    Raises InputError for a listed query without judgments, and for a fold without queries.
    """
    if listed:
        ids = read_ids(listed)
        unjudged = [qid for qid in ids if qid not in qrels]
        if unjudged:
            raise InputError(
                f"{listed}: {len(unjudged)} queries have no judgments, {unjudged[0]} first; correct the list or the qrels"
            )
        qrels = {qid: qrels[qid] for qid in ids}
    return select(qrels, in_folds(read_folds(folds), wanted, folds)) if wanted else qrels


def select(qrels: Qrels, queries: Collection[str]) -> Qrels:
    """The judgments of some queries, in qrels order."""
    return {qid: judged for qid, judged in qrels.items() if qid in queries}


def split_queries(qrels: Qrels, fraction: float, seed: int) -> tuple[Qrels, Qrels]:
    """(training, held-out) judgments; holds out at most `fraction` of the queries.

    Queries that share a relevant document, directly or transitively, stay together, so that memorised documents do not help
    on held-out queries. Whole groups are held out in the order of a hash of (seed, first query id).
    """
    groups = components(qrels)
    order = sorted(groups, key=lambda group: (hash64(seed, "held out", min(group)), min(group)))
    room = round(fraction * len(qrels))
    held: set[str] = set()
    for group in order:
        if len(held) + len(group) <= room:
            held.update(group)
    return select(qrels, qrels.keys() - held), select(qrels, held)


def components(qrels: Qrels) -> list[list[str]]:
    """Groups of queries connected by shared relevant documents (union-find)."""
    parent = {qid: qid for qid in qrels}

    def root(qid: str) -> str:
        while parent[qid] != qid:
            parent[qid] = parent[parent[qid]]
            qid = parent[qid]
        return qid

    first: dict[str, str] = {}
    for qid, judged in qrels.items():
        for docid, level in judged.items():
            if level > 0:
                parent[root(qid)] = root(first.setdefault(docid, qid))
    groups: dict[str, list[str]] = {}
    for qid in qrels:
        groups.setdefault(root(qid), []).append(qid)
    return list(groups.values())
