"""Labelled pairs to groups of one: a query and a clicked or a replaced document, a clicked document alone, or a judged pair."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.clicks import Clicks
from harp_jax.corpus.documents import Texts
from harp_jax.input.packing import EncodedSequence, Group, fit, text_sequence
from harp_jax.input.ranking_groups import Epochs, RankingDataset
from harp_jax.text.tokenizer import Marks, Tokenizer

log = logging.getLogger(__name__)

STREAM = "clicks"
REPLACED = 0.5  # fraction of the pairs whose document is replaced by another (NotPair)
DRAWS = 20  # tries to draw a replacement that the query never clicked


# (label, query, docid). Label 0: clicked, relevant; 1: not. Query None: the document alone.
LabelledPair = tuple[int, str | None, str]


@dataclass(frozen=True)
class ClickedPairs:
    """Clicks, half of them with another document (label 1); with `documents_only` each clicked document alone."""

    clicks: Clicks
    seed: int
    documents_only: bool = False

    def __len__(self) -> int:
        return self.clicks.documents if self.documents_only else len(self.clicks)

    def labelled(self, epoch: int, number: int) -> LabelledPair:
        """Pair `number` of an epoch. A replaced one has a document that the query never clicked, if DRAWS tries find one."""
        if self.documents_only:
            return 0, None, self.clicks.document(number)
        qid, query, docid = self.clicks.pair(number)
        draw = generator(self.seed, "replaced", epoch, number)
        if draw.random() < REPLACED:
            clicked = self.clicks.clicked(qid)
            for _ in range(DRAWS):
                _, _, other = self.clicks.pair(int(draw.integers(len(self.clicks))))
                if other not in clicked:
                    return 1, query, other
        return 0, query, docid


class JudgedPairs:
    """All judged pairs, relevant (level 1 and more) or not. Logs how many lack a text; InputError if none is left."""

    def __init__(self, judged: RankingDataset) -> None:
        queries, docs = judged.queries, judged.docs
        every = [(qid, docid, level) for qid, levels in judged.qrels.items() for docid, level in levels.items()]
        self.pairs = [(int(level <= 0), queries[q], d) for q, d, level in every if q in queries and d in docs]
        if len(self.pairs) < len(every):
            log.warning("%d judged pairs are left out: no text of query or document", len(every) - len(self.pairs))
        if not self.pairs:
            raise InputError("no judged pair has a query and a document; check that qrels, queries and docs match")

    def __len__(self) -> int:
        return len(self.pairs)

    def labelled(self, epoch: int, number: int) -> LabelledPair:
        return self.pairs[number]


class PairReader:
    """Groups of one pair, a `packing.Reader`; a group's task is its label."""

    def __init__(
        self,
        config: ConfigDict,
        tokenizer: Tokenizer,
        docs: Texts,
        pairs: ClickedPairs | JudgedPairs,
        marks: Marks,
        stream: str = STREAM,
    ) -> None:
        self.tokenizer, self.docs, self.pairs, self.marks = tokenizer, docs, pairs, marks
        self.length, self.epochs = config.row_length, Epochs(config, stream, len(pairs))
        self.sizes: Mapping[str, int] = {stream: len(pairs)}

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        rows = [self.pairs.labelled(epoch, number) for epoch, number in self.epochs.units(lane, start, count)]
        texts = self.tokenizer.encode_prefixes([self.docs[docid] for _, _, docid in rows], self.length)
        queries = self.tokenizer.encode_batch([query or "" for _, query, _ in rows])
        template, groups = self.tokenizer.template, []
        for (label, query, _), encoding, ids in zip(rows, queries, texts):
            document = np.asarray(ids, np.int32)
            if query is None:
                sequence = text_sequence(document, self.length, template)
            else:
                asked = self.marks.on_query(np.asarray(encoding.ids, np.int32))
                pair = fit(asked, self.marks.on_document(document), self.length, template)
                sequence = EncodedSequence(*pair, 0, 1, template)
            groups.append(Group(label, (sequence,)))
        return groups
