"""Clicks to groups: a query and a clicked or a replaced document, or a clicked document alone."""

from collections.abc import Mapping

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.randomness import generator
from harp_jax.corpus.clicks import Clicks
from harp_jax.corpus.documents import Documents
from harp_jax.input.packing import Group, Sequence, fit, text_sequence
from harp_jax.input.ranking_groups import Epochs
from harp_jax.text.tokenizer import Marks, Tokenizer

STREAM = "clicks"
REPLACED = 0.5  # fraction of the pairs whose document is replaced by another (NotPair)
DRAWS = 20  # tries to draw a replacement that the query never clicked


class ClickReader:
    """Groups of one clicked or replaced pair, a `packing.Reader`; a group's task is its label (0 clicked, 1 replaced)."""

    def __init__(self, config: ConfigDict, tokenizer: Tokenizer, docs: Documents, clicks: Clicks, marks: Marks) -> None:
        self.tokenizer, self.docs, self.clicks, self.marks = tokenizer, docs, clicks, marks
        self.template = tokenizer.template
        self.length, self.seed = config.row_length, config.seed
        self.documents_only = config.documents_only
        size = clicks.documents if self.documents_only else len(clicks)
        self.sizes: Mapping[str, int] = {STREAM: size}
        self.epochs = Epochs(config, STREAM, size)

    def labelled(self, epoch: int, number: int) -> tuple[int, str, str]:
        """(label, query, docid) of pair `number` in an epoch. A replaced pair draws a document that the query never clicked, if one
        is found in DRAWS tries."""
        qid, query, docid = self.clicks.pair(number)
        draw = generator(self.seed, "replaced", epoch, number)
        if draw.random() < REPLACED:
            clicked = self.clicks.clicked(qid)
            for _ in range(DRAWS):
                _, _, other = self.clicks.pair(int(draw.integers(len(self.clicks))))
                if other not in clicked:
                    return 1, query, other
        return 0, query, docid

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        """See `packing.Reader`."""
        rows = [
            (0, "", self.clicks.document(number)) if self.documents_only else self.labelled(epoch, number)
            for epoch, number in self.epochs.units(lane, start, count)
        ]
        texts = [self.docs[docid] for _, _, docid in rows]
        documents = [np.asarray(ids, np.int32) for ids in self.tokenizer.encode_prefixes(texts, self.length)]
        if self.documents_only:
            return [Group(0, (text_sequence(document, self.length, self.template),)) for document in documents]
        queries = [np.asarray(e.ids, np.int32) for e in self.tokenizer.encode_batch([query for _, query, _ in rows])]
        groups = []
        for (label, _, _), query, document in zip(rows, queries, documents):
            fitted = fit(self.marks.on_query(query), self.marks.on_document(document), self.length, self.template)
            groups.append(Group(label, (Sequence(*fitted, 0, 1, self.template),)))
        return groups
