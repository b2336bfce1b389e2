"""Batches of padded groups (a query, its relevant document, negatives) as word ids; checks that texts fit the vocabulary."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.input.ranking_groups import RankingData
from harp_jax.text.words import WordVocabulary

log = logging.getLogger(__name__)

SAMPLE = 500  # texts of each kind to check
ALMOST_NONE, HALF = 0.05, 0.5  # shares of known words: below ALMOST_NONE training stops, below HALF there is a note


@dataclass(frozen=True)
class GroupBatches:
    """Epochs of permuted (query, relevant document) pairs; the last batch of an epoch has fewer groups than the others.

    Query and documents are truncated to `query_length` and `document_length` words. Batch number n is a pure function of
    (seed, n), so that a run resumes with its number of steps as cursor.
    """

    data: RankingData
    groups: int  # per batch
    query_length: int
    document_length: int
    seed: int

    @property
    def per_epoch(self) -> int:
        return math.ceil(len(self.data) / self.groups)

    def after(self, start: int) -> Iterator[dict[str, np.ndarray]]:
        """Batches number `start`, `start + 1`, …, endlessly."""
        epoch, order = -1, np.zeros(0, np.int64)
        for number in count(start):
            if number // self.per_epoch != epoch:
                epoch = number // self.per_epoch
                order = generator(self.seed, "units", epoch).permutation(len(self.data))
            first = number % self.per_epoch * self.groups
            yield self.batch([self.data.unit(epoch, int(unit)) for unit in order[first : first + self.groups]])

    def batch(self, units: list[list[tuple[np.ndarray, np.ndarray]]]) -> dict[str, np.ndarray]:
        """query [groups, Lq], documents [groups, size, Ld] int32, padded with 0, the relevant document first; present
        [groups, size] bool. `units`: (query, document) of each member of a group."""
        size = 1 + self.data.negatives
        query = np.zeros((self.groups, self.query_length), np.int32)
        documents = np.zeros((self.groups, size, self.document_length), np.int32)
        present = np.zeros((self.groups, size), bool)
        for row, members in enumerate(units):
            words = members[0][0][: self.query_length]
            query[row, : len(words)] = words
            for member, (_, document) in enumerate(members):
                words = document[: self.document_length]
                documents[row, member, : len(words)] = words
                present[row, member] = True
        return {"query": query, "documents": documents, "present": present}


def check_words(words: WordVocabulary, data: RankingData, length: int) -> None:
    """Warns if the vocabulary has less than half of the words of the training texts; InputError if it has almost none."""
    queries = dict.fromkeys(qid for qid, _ in data.units)
    # The relevant documents and a candidate of each query, because the candidates of one query are similar.
    docids = (docid for qid, positive in data.units for docid in (positive, data.candidates[qid].docids[0]))
    texts = {
        "training queries": (data.queries[qid] for qid in queries),
        "documents to train on": (data.docs[docid] for docid in docids),
    }
    remedy = "make one of these documents (harp words), or leave --config.tokenizer out"
    for note in known_words(words, texts, length, ALMOST_NONE, remedy):
        log.warning(note)


def known_words(
    words: WordVocabulary, texts: Mapping[str, Iterable[str]], limit: int, least: float, remedy: str
) -> list[str]:
    """A note for each kind of texts (by name) with less than HALF of its words in the vocabulary.

    Counts the first `limit` words of the first SAMPLE texts. Raises InputError if none are in the vocabulary, or less than
    `least`: unknown words all have id 0, so documents would score the same.
    """
    notes = []
    for what, some in texts.items():
        ids = [i for text in islice(some, SAMPLE) for i in words.encode(text, limit)]
        known = sum(i > 0 for i in ids) / max(len(ids), 1)
        if not known or known < least:
            raise InputError(
                f"{known:.1%} of the words of the {what} are in the vocabulary ({words.size - 1} words, stemmer "
                f"{words.stemmer!r}); it comes from other texts or another stemmer: {remedy}"
            )
        if known < HALF:
            notes.append(
                f"only {known:.0%} of the words of the {what} are in the vocabulary; was it made from this collection?"
            )
    return notes
