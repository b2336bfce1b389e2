"""Coarse-tuning (Keyaki and Keyaki): query-document pair prediction and MLM on clicked pairs, between pre-training and
fine-tuning; and its control, MLM on the clicked documents alone (continual pre-training).

Half of the pairs get another document (NotPair): one that was clicked for some query, drawn by clicks, so that how popular a
document is says nothing. A pair's fate in an epoch is a pure function of (seed, epoch, number).
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from harp_jax.corpus.clicks import Clicks
from harp_jax.corpus.documents import Documents
from harp_jax.errors import InputError
from harp_jax.input.lanes import epoch_window
from harp_jax.input.layout import make_layout
from harp_jax.input.packing import Group, Sequence, fit, text_sequence
from harp_jax.model.bert import BertConfig
from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.coarse_tune import Coarse
from harp_jax.objectives.masking import slots
from harp_jax.randomness import generator
from harp_jax.stages.pretrain import NoReader, Stage, encoder_and_tokenizer, starting_params
from harp_jax.text.marks import Marks, marks_of
from harp_jax.text.tokenizer import Tokenizer

LABELS = ("clicked", "replaced")  # the tasks of a group: IsPair and NotPair
STREAM = "clicks"
DRAWS = 20  # of a replacement, before a query's own clicks are taken for all there is


def coarse_tune(config: ConfigDict, with_data: bool = True) -> Stage:
    """Coarse-tuning, or continual pre-training with `documents_only`."""
    bert, tokenizer, loaded = encoder_and_tokenizer(config)
    if not 0 <= config.replaced <= 1:
        raise InputError(f"replaced={config.replaced}: give the share of the pairs that get another document, 0 to 1")
    marks = marks_of(tokenizer, config.query_mark, config.document_mark)
    reader: Any = NoReader((STREAM,))
    if with_data:
        for name in ("docs", "clicks"):
            if not config[name]:
                raise InputError(f"{name} is empty; set --config.{name} to a file")
        docs = Documents.open(config.docs, tuple(config.fields))
        reader = ClickReader(
            config, tokenizer, docs, Clicks.open(config.clicks, docs, config.sample, config.seed), marks
        )

    def objective(shape: BertConfig) -> Coarse:
        return Coarse(
            ranker=Ranker(shape),
            qdpp_weight=0.0 if config.documents_only else config.qdpp_weight,
            mlm_weight=config.mlm_weight,
            mlm_rate=config.mlm_rate,
            mlm_slots=slots(config.row_length, config.mlm_rate),
            mask_token=tokenizer.mask,
            vocab_size=tokenizer.size,
            marks=marks.ids,
        )

    shares = {STREAM: 1.0}
    pairs, size = config.batch_pairs, reader.sizes[STREAM]
    window = epoch_window(config.window, size, config.lanes) if with_data else config.window
    layout = make_layout(config, tokenizer, reader, shares, group_size=1, sequences=pairs, window=window)
    steps = config.steps or math.ceil(config.epochs * size / (layout.step_groups or pairs))
    start = starting_params(loaded, (), tokenizer.size)
    tasks = () if config.documents_only else LABELS
    return Stage(tokenizer, bert, tasks, objective, reader, None, layout, shares, steps, start, window=window)


class ClickReader:
    """Groups of one sequence, as `lanes.Reader` asks for them; a group's task is its label."""

    def __init__(self, config: ConfigDict, tokenizer: Tokenizer, docs: Documents, clicks: Clicks, marks: Marks) -> None:
        self.tokenizer, self.docs, self.clicks, self.marks = tokenizer, docs, clicks, marks
        self.length, self.lanes, self.seed = config.row_length, config.lanes, config.seed
        self.replaced, self.alone = config.replaced, config.documents_only
        self.size = clicks.documents if self.alone else len(clicks)
        self.sizes: Mapping[str, int] = {STREAM: self.size}
        self._orders: dict[int, np.ndarray] = {}

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            # Lanes are an epoch apart at most.
            self._orders = {e: o for e, o in self._orders.items() if e >= epoch - 1}
            self._orders[epoch] = generator(self.seed, STREAM, epoch).permutation(self.size)
        return self._orders[epoch]

    def labelled(self, epoch: int, number: int) -> tuple[int, str, str]:
        """(label, query, docid) of a pair in an epoch."""
        qid, query, docid = self.clicks.pair(number)
        draw = generator(self.seed, "replaced", epoch, number)
        if draw.random() < self.replaced:
            own = self.clicks.clicked(qid)
            for _ in range(DRAWS):
                _, _, other = self.clicks.pair(int(draw.integers(len(self.clicks))))
                if other not in own:
                    return 1, query, other
        return 0, query, docid

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        step = self.lanes if self.size >= self.lanes else 1
        rows = []
        for position in range(start, start + count):
            # Lane ℓ takes every step-th pair of one endless sequence of permuted epochs.
            epoch, at = divmod(position * step + lane % step, self.size)
            number = int(self._order(epoch)[at])
            rows.append((0, "", self.clicks.document(number)) if self.alone else self.labelled(epoch, number))
        texts = [self.docs[docid] for _, _, docid in rows]
        documents = [np.asarray(ids, np.int32) for ids in self.tokenizer.encode_prefixes(texts, self.length)]
        if self.alone:
            return [Group(0, (text_sequence(document, self.length),)) for document in documents]
        queries = [np.asarray(e.ids, np.int32) for e in self.tokenizer.encode_batch([query for _, query, _ in rows])]
        groups = []
        for (label, _, _), query, document in zip(rows, queries, documents):
            fitted = fit(self.marks.on_query(query), self.marks.on_document(document), self.length)
            groups.append(Group(label, (Sequence(*fitted, 0, 1),)))
        return groups
