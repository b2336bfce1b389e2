"""Nested random subsets of training queries, drawn several times: for few-shot curves.

A draw is an order of the queries by hash of (seed, draw, query), and a subset its first queries, so adding sizes or draws
changes no other subset. `--config.train_queries` accepts the files.
"""

import glob
import os
import re
from collections.abc import Mapping, Sequence

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.folds import select
from harp_jax.corpus.trec import Qrels, Run


def trainable(qrels: Qrels, docs: Documents | None = None, run: Run | None = None) -> Qrels:
    """The judgments of queries with a relevant document among `docs` and with candidates in `run`."""
    if docs is not None:
        present = {qid for qid, judged in qrels.items() if any(level > 0 and d in docs for d, level in judged.items())}
        qrels = select(qrels, present)
    return qrels if run is None else select(qrels, run.keys())


def judged_relevant(qrels: Qrels) -> list[str]:
    """The queries with a relevant document."""
    return [qid for qid, judged in qrels.items() if any(level > 0 for level in judged.values())]


MOST_DRAWS = 10_000


def draw_subsets(qrels: Qrels, sizes: Sequence[int], draws: int, seed: int = 0) -> list[dict[int, list[str]]]:
    """For each draw, size → queries with a relevant document; smaller subsets are prefixes of larger ones.

    Raises InputError if there are fewer queries than the largest size.
    """
    if not 1 <= draws <= MOST_DRAWS:
        raise InputError(f"draws={draws}: use 1 to {MOST_DRAWS}")
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
