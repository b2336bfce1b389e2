"""Folds of queries, and nested random subsets of training queries.

Folds: given judgments, queries that share a relevant document, directly or through others, are in one fold: memorised documents
then do not help in testing. Where all queries are connected in this way (Cranfield's are), leave the judgments out and say so.

Subsets, for few-shot curves: a draw is an order of the queries by hash of (seed, draw, query), and a subset its first queries,
so adding sizes or draws changes no other subset. `--config.train_queries` accepts the files.
"""

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import Qrels, Run, components, select

MOST_DRAWS = 10_000


def connected(queries: Sequence[str], qrels: Qrels) -> list[list[str]]:
    """Groups of queries that share relevant documents; a query without judgments is a group of its own."""
    groups = components(select(qrels, queries))
    judged = {qid for group in groups for qid in group}
    return groups + [[qid] for qid in queries if qid not in judged]


def make_folds(groups: Iterable[list[str]], count: int = 5, seed: int = 0) -> dict[str, int]:
    """qid → fold (0 … count - 1): groups of queries in the order of a hash, largest first, each into the fold with fewest queries.

    Raises InputError for fewer than two folds and where a fold stays empty.
    """
    if count < 2:
        raise InputError(f"--count={count}: cross-validation needs at least two folds")
    groups = list(groups)
    if count > len(groups):
        raise InputError(f"{len(groups)} groups of queries fill no {count} folds; lower --count, or leave --qrels out")
    order = sorted(groups, key=lambda group: (-len(group), hash64(seed, "fold", min(group)), min(group)))
    sizes = [0] * count
    folds: dict[str, int] = {}
    for group in order:
        smallest = sizes.index(min(sizes))
        sizes[smallest] += len(group)
        folds |= dict.fromkeys(group, smallest)
    return folds


def trainable(qrels: Qrels, docs: Documents | None = None, run: Run | None = None) -> Qrels:
    """The judgments of queries with a relevant document among `docs` and with candidates in `run`."""
    if docs is not None:
        present = {qid for qid, judged in qrels.items() if any(level > 0 and d in docs for d, level in judged.items())}
        qrels = select(qrels, present)
    return qrels if run is None else select(qrels, run.keys())


def judged_relevant(qrels: Qrels) -> list[str]:
    """The queries with a relevant document."""
    return [qid for qid, judged in qrels.items() if any(level > 0 for level in judged.values())]


def draw_subsets(qrels: Qrels, sizes: Sequence[int], draws: int, seed: int = 0) -> list[dict[int, list[str]]]:
    """For each draw, size → queries with a relevant document; smaller subsets are prefixes of larger ones.

    Raises InputError if there are fewer queries than the largest size.
    """
    usable = judged_relevant(qrels)
    if max(sizes) > len(usable):
        raise InputError(f"{len(usable)} queries can be trained on, fewer than {max(sizes)}; lower --sizes")
    found = []
    for number in range(draws):
        order = sorted(usable, key=lambda qid: (hash64(seed, "subset", number, qid), qid))
        found.append({size: order[:size] for size in sizes})
    return found


def write_subsets(output: str, drawn: Sequence[Mapping[str, list[str]]]) -> None:
    """Writes OUTPUT/draw-03/10.txt for the subset "10" of draw 3, and so on: query ids, one a line.

    Lists that an earlier command left there are removed: those of two commands would not be nested.
    """
    for path in glob.glob(os.path.join(glob.escape(output), "draw-*", "*.txt")):
        if re.fullmatch(r"draw-\d+/\d+%?\.txt", os.path.relpath(path, output)):
            os.remove(path)
    for number, by_size in enumerate(drawn):
        for size, queries in by_size.items():
            with replacing(os.path.join(output, f"draw-{number:02d}", f"{size}.txt")) as file:
                file.writelines(f"{qid}\n" for qid in queries)
