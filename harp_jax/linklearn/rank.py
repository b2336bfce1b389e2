"""Ranks a collection by a trained LinkLearn, or by the Okapi tuned beside it: its corpus and this one need not share a word.

Ranking SVM's weights are of words: --ranking_svm is for the collection it was trained on, or one that shares its words.

    python -m harp_jax.linklearn.rank --model=runs/linklearn --docs=docs.tsv --queries=queries.tsv --output=linklearn.trec

idf and lengths are this collection's. The index is held in memory (`collection.py`).
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator

import numpy as np

from harp_jax.cli import run
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import read_queries, write_run
from harp_jax.errors import InputError
from harp_jax.linklearn import ranking_svm
from harp_jax.linklearn.collection import Index, Weighting, count
from harp_jax.linklearn.model import LinkLearn
from harp_jax.linklearn.okapi import Okapi
from harp_jax.progress import progress
from harp_jax.ranking.first_stage import excluded_of
from harp_jax.ranking.lexical import Collection, Model, search


def load(workdir: str, okapi: bool = False) -> Weighting:
    """The LinkLearn of a workdir of `train`, or the Okapi that was tuned on the same task."""
    file = os.path.join(workdir, "model.json")
    try:
        with open(file, encoding="utf-8") as stream:
            data = json.load(stream)
        return Okapi(**data["okapi"]) if okapi else LinkLearn.from_json(data["linklearn"])
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; give --model a workdir of linklearn.train") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is no model ({error!r}); train it again") from error


def main(arguments: argparse.Namespace) -> None:
    if arguments.k < 1:
        raise InputError(f"--k={arguments.k}: give the number of documents a query, 1 at least")
    name = "okapi" if arguments.okapi else "ranking_svm" if arguments.ranking_svm else "linklearn"
    # Before the documents are read: what is not there is found at once.
    svm = ranking_svm.load(arguments.model) if arguments.ranking_svm else None
    weighting = load(arguments.model, arguments.okapi)
    queries = read_queries(arguments.queries)
    excluded = excluded_of(arguments.exclude)
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    texts = progress(docs.texts(), total=len(docs), unit="documents", desc="index")
    collection = Collection(texts, arguments.stemmer)
    counts = count(collection)
    index: Model = Index(counts).weigh(weighting)
    if svm is not None:
        weights = ranking_svm.of_words(svm, collection.vocabulary)
        words, weighed = sum(map(bool, collection.vocabulary)), int((weights > 0).sum())
        if not weighed:
            # All distances would be 0, and the run the collection in its order.
            raise InputError(
                f"none of the {words} words of {arguments.docs} has a weight above 0 in {arguments.model}: --ranking_svm is for "
                "the collection it was trained on, with the same --stemmer; leave it out"
            )
        print(f"note: {weighed} of {words} words ({weighed / words:.0%}) have a weight above 0", file=sys.stderr)
        index = ranking_svm.Metric(counts, weights)
    without: list[str] = []

    def rankings() -> Iterator[tuple[str, list[str], np.ndarray]]:
        for qid, query in progress(queries.items(), total=len(queries), unit="queries", desc=name):
            barred = excluded.get(qid, set())
            docids, scores = search(index, collection, query, arguments.k + len(barred))
            kept = [i for i, docid in enumerate(docids) if docid not in barred][: arguments.k]
            if not kept:
                without.append(qid)
            yield qid, [docids[i] for i in kept], scores[kept]

    write_run(arguments.output, rankings(), tag=name)
    if without:
        print(f"note: {len(without)} of {len(queries)} queries match no document: {without[:5]}", file=sys.stderr)
    print(f"{arguments.output}: {len(queries) - len(without)} queries ranked by {name}")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harp_jax.linklearn.rank", description="Ranks a collection.")
    parser.add_argument("--model", required=True, help="workdir of harp_jax.linklearn.train")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--okapi", action="store_true", help="rank by the Okapi BM25 tuned beside the model instead")
    other.add_argument("--ranking_svm", action="store_true", help="rank by the Ranking SVM trained beside it instead")
    parser.add_argument("--exclude", default="", help="qid<TAB>docid: pairs that are no candidates")
    parser.add_argument("--docs", required=True, help="documents: MS MARCO docs.tsv, or JSONL; may be compressed")
    parser.add_argument("--queries", required=True, help="queries: qid<TAB>text, or JSONL")
    parser.add_argument("--output", required=True, help="the TREC run to write")
    parser.add_argument("--k", type=int, default=1000, help="documents a query (1000)")
    parser.add_argument("--stemmer", default="english", help="Snowball stemmer, '' for none (english)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    return parser


if __name__ == "__main__":
    run(main, arguments_parser())
