"""Wins and losses: the queries whose rankings changed most against the baseline, with texts."""

from collections.abc import Mapping
from typing import Protocol

from harp_jax.corpus.trec import Qrels, Ranking, Run
from harp_jax.evaluation.report.content import Change, Hit

SHOWN = 5  # of each kind
SNIPPET = 220  # characters of a document


class Texts(Protocol):
    """Texts of documents by id."""

    def __getitem__(self, docid: str, /) -> str: ...

    def __contains__(self, docid: str, /) -> bool: ...


def changes(
    before: Mapping[str, float],
    after: Mapping[str, float],
    runs: tuple[Run, Run],
    qrels: Qrels,
    queries: Mapping[str, str],
    docs: Texts | None,
) -> tuple[list[Change], list[Change], tuple[int, int, int]]:
    """(wins, losses, queries that became better, worse and neither), the largest changes first.

    `before` and `after` are qid → the measure; `runs` are the rankings of both systems; texts that are unknown are left empty.
    """
    moved = sorted(before, key=lambda qid: before[qid] - after[qid])
    better = [qid for qid in moved if after[qid] > before[qid]]
    worse = [qid for qid in reversed(moved) if after[qid] < before[qid]]

    def change(qid: str) -> Change:
        old, new = (run.get(qid, Ranking()).ranked() for run in runs)
        relevant = [docid for docid, level in qrels[qid].items() if level > 0]
        # The relevant document that either system ranks best: the others explain less.
        places = {
            d: min(rank for rank in (_rank(old, d), _rank(new, d)) if rank) for d in relevant if d in {*old, *new}
        }
        best = min(places, key=places.__getitem__) if places else (relevant[0] if relevant else "")

        def hit(docid: str) -> Hit | None:
            return Hit(docid, snippet(docid, docs), _rank(old, docid), _rank(new, docid)) if docid else None

        first = [hit(ranking[0]) if ranking else None for ranking in (old, new)]
        return Change(qid, queries.get(qid, ""), before[qid], after[qid], hit(best), first[0], first[1])

    counts = (len(better), len(worse), len(moved) - len(better) - len(worse))
    return [change(qid) for qid in better[:SHOWN]], [change(qid) for qid in worse[:SHOWN]], counts


def _rank(ranking: list[str], docid: str) -> int:
    return ranking.index(docid) + 1 if docid in ranking else 0


def snippet(docid: str, docs: Texts | None, length: int = SNIPPET) -> str:
    """The start of a document, at a word's end; empty if it is unknown."""
    if docs is None or docid not in docs:
        return ""
    text = " ".join(docs[docid].split())
    return text if len(text) <= length else text[:length].rsplit(" ", 1)[0] + " …"
