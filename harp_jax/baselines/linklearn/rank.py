"""Ranks a collection by LinkLearn's term weights, or by Okapi BM25 tuned on the same links."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import progress
from harp_jax.baselines.linklearn.collection import Index, count
from harp_jax.baselines.linklearn.model import load
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import ScoredQuery, read_queries, write_run
from harp_jax.ranking.first_stage import candidates, excluded_of
from harp_jax.ranking.lexical import InvertedIndex
from harp_jax.text.languages import ENGLISH


@dataclass(frozen=True)
class Ranked:
    """The number of queries, and of those that match a document."""

    queries: int
    matched: int


@once
def rank_linklearn(
    model: InputPath,
    docs: InputPath,
    queries: InputPath,
    output: str,
    fields: tuple[str, ...] = FIELDS,
    language: str = ENGLISH,
    exclude: InputPath = "",
    k: int = 1000,
    okapi: bool = False,
) -> Ranked:
    """Writes a TREC run of the best `k` documents of each query, without the pairs of the file `exclude`.

    `model` is a workdir of `train.train`. Raises InputError for bad input.
    """
    name = "okapi" if okapi else "linklearn"
    weighting = load(model, okapi)  # a missing model is reported before the documents are read
    texts, excluded = read_queries(queries), excluded_of(exclude)
    documents = Documents.open(docs, fields)
    bar = progress(documents.texts(), total=len(documents), unit="documents", desc="index")
    collection = InvertedIndex(bar, language)
    index = Index(count(collection)).weigh(weighting)
    unmatched: list[str] = []

    def noted() -> Iterator[ScoredQuery]:
        for qid, query in progress(texts.items(), total=len(texts), unit="queries", desc=name):
            docids, scores = candidates(index, collection, query, k, excluded.get(qid, set()))
            if not docids:
                unmatched.append(qid)
            yield qid, docids, scores

    write_run(output, noted(), tag=name)
    if unmatched:
        print(f"note: {len(unmatched)} of {len(texts)} queries match no document: {unmatched[:5]}", file=sys.stderr)
    return Ranked(len(texts), len(texts) - len(unmatched))
