"""Groups of clicked pairs for coarse-tuning: a clicked or replaced document for each query."""

from collections.abc import Mapping

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.randomness import generator
from harp_jax.corpus.clicks import Clicks
from harp_jax.corpus.documents import Documents
from harp_jax.input.packing import Group, Sequence, fit, text_sequence
from harp_jax.text.marks import Marks
from harp_jax.text.tokenizer import Tokenizer

STREAM = "clicks"

DRAWS = 20  # tries to draw a replacement that the query never clicked


class ClickReader:
    """Groups of one clicked or replaced pair, a `lanes.Reader`; a group's task is its label (0 clicked, 1 replaced)."""

    def __init__(self, config: ConfigDict, tokenizer: Tokenizer, docs: Documents, clicks: Clicks, marks: Marks) -> None:
        self.tokenizer, self.docs, self.clicks, self.marks = tokenizer, docs, clicks, marks
        self.template = tokenizer.template
        self.length, self.lanes, self.seed = config.row_length, config.lanes, config.seed
        self.replaced, self.documents_only = config.replaced, config.documents_only
        self.size = clicks.documents if self.documents_only else len(clicks)
        self.sizes: Mapping[str, int] = {STREAM: self.size}
        self._orders: dict[int, np.ndarray] = {}

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            # Lanes are at most one epoch apart.
            self._orders = {e: o for e, o in self._orders.items() if e >= epoch - 1}
            self._orders[epoch] = generator(self.seed, STREAM, epoch).permutation(self.size)
        return self._orders[epoch]

    def labelled(self, epoch: int, number: int) -> tuple[int, str, str]:
        """(label, query, docid) of pair `number` in an epoch.

        A replaced pair draws a document that the query never clicked, if one is found in DRAWS tries.
        """
        qid, query, docid = self.clicks.pair(number)
        draw = generator(self.seed, "replaced", epoch, number)
        if draw.random() < self.replaced:
            clicked = self.clicks.clicked(qid)
            for _ in range(DRAWS):
                _, _, other = self.clicks.pair(int(draw.integers(len(self.clicks))))
                if other not in clicked:
                    return 1, query, other
        return 0, query, docid

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        """See `lanes.Reader`."""
        step = self.lanes if self.size >= self.lanes else 1
        rows = []
        for position in range(start, start + count):
            # Lane ℓ reads every step-th pair of one endless sequence of permuted epochs.
            epoch, at = divmod(position * step + lane % step, self.size)
            number = int(self._order(epoch)[at])
            rows.append((0, "", self.clicks.document(number)) if self.documents_only else self.labelled(epoch, number))
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
