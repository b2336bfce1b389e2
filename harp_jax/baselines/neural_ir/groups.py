"""Batches of padded groups (a query, its relevant document, negatives) as word ids; checks that texts fit the vocabulary."""

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.input.packing import Group, Placement
from harp_jax.input.ranking_groups import Judged, RankingData, RankingReader
from harp_jax.text.words import WordVocabulary

log = logging.getLogger(__name__)

SAMPLE = 500  # texts of each kind to check
FEW, HALF = 0.05, 0.5  # shares of known words: below FEW training stops, below HALF there is a note


@dataclasses.dataclass(frozen=True)
class GroupLayout:
    """A lane's batch: a fixed number of groups, their texts padded with 0 (a `lanes.Layout`)."""

    groups: int  # per lane and microbatch
    group_size: int
    query_length: int
    document_length: int
    microbatches: int = 1  # per lane and step, accumulated

    def single(self) -> "GroupLayout":
        """The same without microbatches."""
        return dataclasses.replace(self, microbatches=1)

    def plan(self, lengths: list[tuple[int, ...]]) -> Iterator[list[Placement]]:
        """`groups` groups per batch, in order; the last batch of a window may have fewer."""
        for start in range(0, len(lengths), self.groups):
            yield [Placement(i, ()) for i in range(start, min(start + self.groups, len(lengths)))]

    def fill(self, groups: list[Group], placements: list[Placement], lane: int) -> dict[str, np.ndarray]:
        """query [groups, Lq], tokens [groups·size, Ld] int32: documents, the relevant one first; present [groups, size] bool.

        With several microbatches, they are the first axis of all arrays (`lanes.Batches` stacks them).
        """
        query = np.zeros((self.groups, self.query_length), np.int32)
        documents = np.zeros((self.groups, self.group_size, self.document_length), np.int32)
        present = np.zeros((self.groups, self.group_size), bool)
        for row, placement in enumerate(placements):
            for member, sequence in enumerate(groups[placement.group].sequences):
                assert sequence.document is not None
                query[row, : len(sequence.query)] = sequence.query
                documents[row, member, : len(sequence.document)] = sequence.document
                present[row, member] = True
        return {"query": query, "tokens": documents.reshape(-1, self.document_length), "present": present}


class GroupReader(RankingReader):
    """Groups of a relevant document and negatives, queries and documents truncated to the model's lengths."""

    def __init__(self, config: ConfigDict, words: WordVocabulary, judged: Judged) -> None:
        data = RankingData(config, words, judged)
        check_words(words, data, config.row_length)
        super().__init__(config, data)
        self.query_length = config.model.query_length

    def truncate(self, query: np.ndarray, document: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return query[: self.query_length], document[: self.length]


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
    for note in known_words(words, texts, length, FEW, remedy):
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
