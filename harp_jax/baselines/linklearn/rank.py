"""Ranks a collection by a trained LinkLearn, by the Okapi tuned on the same task, or by the Ranking SVM trained on the same links.

LinkLearn and Okapi weigh words by their counts, so the training corpus and the collection need not share a word. Ranking SVM
has a weight for each word, for the corpus that it was trained on and collections that share its words. idf and lengths are
those of the collection, and its index is held in memory (`collection.py`).
"""

import os
from collections.abc import Iterator, Mapping, Set

from harp_jax.base.digests import check_sums
from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json
from harp_jax.base.progress import progress
from harp_jax.baselines.linklearn import ranking_svm
from harp_jax.baselines.linklearn.collection import Index, Weighting, count
from harp_jax.baselines.linklearn.model import MODEL, LinkLearn
from harp_jax.baselines.linklearn.okapi import Okapi
from harp_jax.corpus.trec import ScoredQuery
from harp_jax.ranking.lexical.models import Collection, Model, search


def load(workdir: str, okapi: bool = False) -> Weighting:
    """The LinkLearn of a workdir of `train`, or the Okapi that was tuned on the same task.

    Raises InputError if there is none, or if the file was changed since it was written.
    """
    file = os.path.join(workdir, MODEL)
    if not os.path.isfile(file):
        raise InputError(f"cannot read {file}: no such file; set --model to a workdir of harp linklearn-train")
    check_sums(workdir, [MODEL])
    data = read_json(file, "train it again")
    try:
        return Okapi.from_json(data["okapi"]) if okapi else LinkLearn.from_json(data["linklearn"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is not a model ({error!r}); train it again") from error


def weighted_index(collection: Collection, weighting: Weighting) -> Index:
    """The collection indexed by a weighting of its words."""
    return Index(count(collection)).weigh(weighting)


def svm_index(
    collection: Collection, word_weights: Mapping[str, float], where: str = "the collection"
) -> tuple[ranking_svm.Metric, str]:
    """(the collection indexed by Ranking SVM's weights of words, how many of its words have one).

    `where` names the collection in messages. Raises InputError if no word has a weight above 0: all distances would be 0,
    and the ranking the collection's order.
    """
    weights = ranking_svm.of_words(word_weights, collection.vocabulary)
    words, weighted = sum(map(bool, collection.vocabulary)), int((weights > 0).sum())
    if not weighted:
        raise InputError(
            f"none of the {words} words of {where} has a weight above 0: --ranking_svm is for the collection it was "
            "trained on, with the same --stemmer; leave it out"
        )
    return ranking_svm.Metric(count(collection), weights), f"{weighted} of {words} words ({weighted / words:.0%})"


def rankings(
    model: Model,
    collection: Collection,
    queries: Mapping[str, str],
    k: int = 1000,
    excluded: Mapping[str, Set[str]] | None = None,
    desc: str = "linklearn",
) -> Iterator[ScoredQuery]:
    """(qid, docids, scores) of the best `k` documents of every query, without those that are `excluded` for it (qid → ids).

    A query that shares no word with any document has no documents.
    """
    for qid, query in progress(queries.items(), total=len(queries), unit="queries", desc=desc):
        barred = (excluded or {}).get(qid, frozenset())
        docids, scores = search(model, collection, query, k + len(barred))
        kept = [i for i, docid in enumerate(docids) if docid not in barred][:k]
        yield qid, [docids[i] for i in kept], scores[kept]
