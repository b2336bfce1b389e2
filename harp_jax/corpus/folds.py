"""Folds of queries: with judgments, no two folds share a relevant document."""

from collections.abc import Iterable, Sequence

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import hash64
from harp_jax.corpus.trec import Qrels, components, select


def connected(queries: Sequence[str], qrels: Qrels) -> list[list[str]]:
    """Groups of queries that share relevant documents; a query without judgments is a separate group."""
    groups = components(select(qrels, queries))
    judged = {qid for group in groups for qid in group}
    return groups + [[qid] for qid in queries if qid not in judged]


def make_folds(groups: Iterable[list[str]], count: int = 5, seed: int = 0) -> dict[str, int]:
    """qid → fold (0 … count - 1): groups of queries in the order of a hash, largest first, each into the fold with fewest queries.

    Raises InputError for fewer than two folds, and if a fold would be empty.
    """
    groups = list(groups)
    if not 2 <= count <= len(groups):
        raise InputError(
            f"{len(groups)} groups of queries cannot fill {count} folds; use another --count, or leave --qrels out"
        )
    order = sorted(groups, key=lambda group: (-len(group), hash64(seed, "fold", min(group)), min(group)))
    sizes = [0] * count
    folds: dict[str, int] = {}
    for group in order:
        smallest = sizes.index(min(sizes))
        sizes[smallest] += len(group)
        folds |= dict.fromkeys(group, smallest)
    return folds
