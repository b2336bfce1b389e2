"""Queries for an experiment: the judged ones of a collection, folds, and nested random subsets for few-shot curves.

Folds: with judgments, queries that share a relevant document, directly or through others, are in the same fold, so memorised
documents do not help in testing. If this connects all queries, as in Cranfield, leave the judgments out and report it.

Subsets: a draw is an order of the queries by hash of (seed, draw, query), and a subset its first queries, so adding sizes or draws
changes no other subset. `config.train_queries` accepts the files.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harp_jax.base.errors import InputError
from harp_jax.base.files import output_folder, output_path, replacing
from harp_jax.base.made import InputPath, once
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.labels import check_relevant, relevant_only
from harp_jax.corpus.paths import qrels_file, query_file
from harp_jax.corpus.trec import Qrels, components, read_qrels, read_queries, read_run, read_subset, select

QUERIES, QRELS = "queries.tsv", "qrels.txt"  # written to a folder of judged queries


@dataclass(frozen=True)
class Folds:
    """The number of queries, and the size of the largest group of queries that share relevant documents."""

    queries: int
    largest_group: int


@once
def judged_queries(queries: InputPath, qrels: InputPath, output: str) -> None:
    """Writes the queries that have judgments to OUTPUT/queries.tsv and OUTPUT/qrels.txt; the others need no ranking. Raises
    InputError if no judged query has a text or none a relevant document, or if an input would be lost."""
    judged = read_qrels(qrels)
    texts = {qid: text for qid, text in read_queries(queries).items() if qid in judged}
    if not texts:
        wrong = f"has no text for any of the {len(judged)} judged queries, such as {next(iter(judged))}"
        raise InputError(f"{queries} {wrong}; check both")
    check_relevant(select(judged, texts))
    os.makedirs(output, exist_ok=True)
    contents = {
        QUERIES: [f"{qid}\t{' '.join(text.split())}\n" for qid, text in texts.items()],
        QRELS: [f"{qid} 0 {docid} {level}\n" for qid in texts for docid, level in judged[qid].items()],
    }
    for name in contents:
        output_path(os.path.join(output, name), [query_file(queries), qrels_file(qrels)])
    for name, rows in contents.items():
        with replacing(os.path.join(output, name)) as file:
            file.writelines(rows)


@once
def fold_queries(queries: InputPath, output: str, qrels: InputPath = "", count: int = 5, seed: int = 0) -> Folds:
    """Writes qid<TAB>fold lines; with `qrels` no two folds share a relevant document. Raises InputError as `make_folds`."""
    qids = list(read_queries(queries))
    groups = connected(qids, read_qrels(qrels)) if qrels else [[qid] for qid in qids]
    fold_of = make_folds(groups, count, seed)
    with replacing(output) as file:
        file.writelines(f"{qid}\t{fold_of[qid]}\n" for qid in qids)
    return Folds(len(qids), max(map(len, groups)))


@once
def subset_queries(
    qrels: InputPath,
    output: str,
    sizes: tuple[str, ...],
    draws: int,
    folds: InputPath = "",
    train_folds: tuple[str, ...] = (),
    run: InputPath = "",
    docs: InputPath = "",
) -> None:
    """Writes nested subsets of training queries: OUTPUT/draw-03/10.txt for size "10" of draw 3, query ids, one per line. `sizes`
    are numbers of queries, or shares such as "25%". Drawn from the queries with a relevant document: only those in `train_folds` of
    the file `folds`, with candidates in `run`, and with a relevant document in `docs`. Raises InputError if these are fewer than
    the largest size."""
    judged = read_subset(read_qrels(qrels), "", folds, train_folds)
    if docs:
        known = Documents.open(docs)
        judged = {q: levels for q, levels in judged.items() if any(n > 0 and d in known for d, n in levels.items())}
    if run:
        judged = select(judged, read_run(run, queries=judged))
    usable = list(relevant_only(judged))
    wanted = {size: number_of(size, len(usable)) for size in sizes}
    if max(wanted.values()) > len(usable):
        wrong = f"only {len(usable)} queries can be trained on, fewer than {max(wanted.values())}"
        raise InputError(f"{wrong}; lower --sizes")
    with output_folder(output) as folder:  # lists of a killed command with other options would not be nested with these
        for number in range(draws):
            order = sorted(usable, key=lambda qid: (hash64(0, "subset", number, qid), qid))
            for size, count in wanted.items():
                with replacing(os.path.join(folder, f"draw-{number:02d}", f"{size}.txt")) as file:
                    file.writelines(f"{qid}\n" for qid in order[:count])


def number_of(size: str, usable: int) -> int:
    """The number of queries for a size such as "10" or "25%" of `usable` queries. Raises InputError for anything else."""
    digits, share = size.removesuffix("%"), size.endswith("%")
    if not (digits.isascii() and digits.isdecimal() and 0 < int(digits) <= (100 if share else 10**18)):
        raise InputError(f"size {size!r}: use a number of queries from 1, or a share from 1% to 100%")
    return max(1, round(int(digits) / 100 * usable)) if share else int(digits)


def connected(queries: Sequence[str], qrels: Qrels) -> list[list[str]]:
    """Groups of queries that share relevant documents; a query without judgments is a separate group."""
    return components({qid: qrels.get(qid, {}) for qid in queries})


def make_folds(groups: Iterable[list[str]], count: int = 5, seed: int = 0) -> dict[str, int]:
    """qid → fold (0 … count - 1): groups of queries in the order of a hash, largest first, each into the fold with fewest queries.
    Raises InputError for fewer than two folds, and if a fold would be empty."""
    groups = list(groups)
    if not 2 <= count <= len(groups):
        wrong = f"{len(groups)} groups of queries cannot fill {count} folds"
        raise InputError(f"{wrong}; use another --count, or leave --qrels out")
    order = sorted(groups, key=lambda group: (-len(group), hash64(seed, "fold", min(group)), min(group)))
    sizes = [0] * count
    folds: dict[str, int] = {}
    for group in order:
        smallest = sizes.index(min(sizes))
        sizes[smallest] += len(group)
        folds |= dict.fromkeys(group, smallest)
    return folds
