"""Judgments and clicks to groups: a relevant document and negatives from the first stage's candidates, or one labelled pair.

A *unit* is a (query, relevant document) pair; its negatives in an epoch are a pure function of (seed, epoch, query,
document). Negatives are candidates that are not judged relevant. Relevant documents that the first stage missed are left
out, unless `missed_positives` is on; evaluation re-ranks the candidates unchanged.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.clicks import Clicks
from harp_jax.corpus.documents import Documents, Texts
from harp_jax.corpus.trec import Qrels, Run, read_qrels, read_queries, read_run, read_subset, select, split_queries
from harp_jax.input.packing import EncodedSequence, Group, Pair, fit, text_sequence
from harp_jax.text.tokenizer import NO_MARKS, Marks, Template, Tokenizer, Vocabulary

log = logging.getLogger(__name__)

HELD_OUT = 0.1  # share of the training queries that are held out for `select`; at most `config.select_queries`
CACHED_DOCUMENTS = 65_536  # maximum number of documents whose token ids are cached, 4 bytes per token
UNTAUGHT = "no teacher score"
OF_DOCUMENTS = ("document not found", "not retrieved", UNTAUGHT)
CLICKS = "clicks"  # the stream of `PairReader` in coarse-tuning
REPLACED = 0.5  # fraction of clicked pairs whose document is replaced by another (NotPair)
DRAWS = 20  # tries to draw a replacement that the query never clicked


@dataclass(frozen=True)
class RankingDataset:
    """Training data of a ranker: judged queries, first-stage candidates and their texts, from files or in memory."""

    docs: Texts
    queries: Mapping[str, str]
    qrels: Qrels
    candidates: Run

    @classmethod
    def read(cls, config: ConfigDict) -> "RankingDataset":
        """Reads a config's files; in fine-tuning only the judgments of its training folds and of its `train_queries` file."""
        qrels = read_qrels(config.qrels)
        if "train_queries" in config:
            # In the order of the qrels, not of the list, because it determines the order of the units.
            qrels = select(qrels, read_subset(qrels, config.train_queries, config.folds, config.train_folds))
        docs = Documents.open(config.docs, tuple(config.fields))
        candidates = read_run(config.candidates, queries=qrels) if config.candidates else {}
        return cls(docs, read_queries(config.queries), qrels, candidates)


def held_out(config: ConfigDict, judged: RankingDataset) -> tuple[RankingDataset, RankingDataset]:
    """Splits into (training, selection) queries without a common relevant document; InputError if impossible."""
    queries = len(judged.qrels)
    fraction = min(HELD_OUT, config.select_queries / max(queries, 1))
    train, kept_back = split_queries(judged.qrels, fraction, config.seed)
    if not kept_back:
        raise InputError(
            f"no group of the {queries} training queries is small enough to be held out ({fraction:.2f} of them); "
            "set --config.select=''"
        )
    return replace(judged, qrels=train), replace(judged, qrels=kept_back)


class RankingData:
    """The units of the judged queries, and their texts as token ids; `config` is for fine-tuning or a neural ranker. `report`
    counts what is left out: queries without text, relevant document or candidates, relevant documents that `docs` lacks or (without
    `missed_positives`) that were not retrieved. With a `teacher`, documents without its score are left out of the groups and
    counted; its scores are divided by their mean standard deviation within a query, so that logits, cosines and BM25 scores have
    the same scale. Raises InputError if no unit is left, and for candidates that `docs` lacks."""

    def __init__(
        self,
        config: ConfigDict,
        tokenizer: Vocabulary,
        judged: RankingDataset,
        marks: Marks = NO_MARKS,
    ) -> None:
        self.docs, self.queries = judged.docs, judged.queries
        self.qrels, self.candidates = judged.qrels, judged.candidates
        self.tokenizer, self.max_length, self.seed, self.marks = tokenizer, config.row_length, config.seed, marks
        self.negatives = config.negatives
        self.teacher = teacher = None
        if config.get("teacher", ""):
            run = read_run(config.teacher, queries=judged.qrels)
            self.teacher = teacher = {qid: dict(zip(of.docids, of.scores)) for qid, of in run.items()}
        self._tokens: dict[str, np.ndarray] = {}

        # Units. What is left out is counted, and said once.
        self.units: list[tuple[str, str]] = []
        self.report: Counter[str] = Counter()
        for qid, levels in self.qrels.items():
            relevant = [docid for docid, level in levels.items() if level > 0]
            present = [docid for docid in relevant if docid in self.docs]
            self.report["document not found"] += len(relevant) - len(present)
            if qid not in self.queries:
                self.report["judged, not among the queries"] += 1
            elif not present:
                self.report["no relevant document"] += 1
            elif not self._pool(qid):
                self.report["no candidates" if teacher is None else "no candidates with a teacher score"] += 1
            else:
                known = {} if config.missed_positives else {"not retrieved": set(self.candidates[qid].docids)}
                for without, docids in (known if teacher is None else known | {UNTAUGHT: {*teacher[qid]}}).items():
                    self.report[without] += sum(docid not in docids for docid in present)
                    present = [docid for docid in present if docid in docids]
                self.units += [(qid, docid) for docid in present]
        self.report = +self.report  # without zeros
        for what, count in self.report.items():
            noun = "relevant documents" if what in OF_DOCUMENTS else "queries"
            log.warning("%d %s are left out of training: %s", count, noun, what)

        # Candidates. Without units, check all judged queries: a run over other documents retrieves no relevant one.
        queries = [*dict.fromkeys(qid for qid, _ in self.units)]
        seen: set[str] = set()
        for qid in queries or self.qrels.keys() & self.candidates.keys():
            for docid in self.candidates[qid].docids:
                if docid not in seen and docid not in self.docs:
                    wrong = f"candidate {docid} of query {qid} is not in {self.docs.path}"
                    raise InputError(f"{wrong}; retrieve from these documents")
                seen.add(docid)
        if not self.units:
            raise InputError(
                f"no query can be trained on ({dict(self.report)}); check that qrels, queries, candidates and docs match"
                + (", or set --config.missed_positives=True" if self.report["not retrieved"] else "")
            )

        # The scale of the teacher's scores.
        self.scale = 1.0
        if teacher is not None:
            scored = [docid in teacher[qid] for qid in queries for docid in self.candidates[qid].docids]
            if not all(scored):
                said = "%d of %d candidates are left out of training: the teacher has no score for them"
                log.warning(said, scored.count(False), len(scored))
            self.scale = float(np.mean([np.std(list(teacher[qid].values())) for qid in queries]))
            if not self.scale:
                wrong = "the teacher gives all documents of a query the same score"
                raise InputError(f"{wrong}; nothing can be learned from it")

    def __len__(self) -> int:
        return len(self.units)

    def unit(self, epoch: int, index: int) -> tuple[list[Pair], tuple[float, ...]]:
        """(query ids, document ids) of the positive, then of its negatives: int32, no special tokens, not yet truncated to a row.
        Then the teacher's scores of these documents, () without a teacher. Negatives are drawn without replacement; fewer than
        `negatives` if the query has fewer candidates."""
        qid, positive = self.units[index]
        pool = self._pool(qid)
        draw = generator(self.seed, "negatives", epoch, qid, positive)
        chosen = draw.choice(len(pool), min(self.negatives, len(pool)), replace=False)
        docids = [positive, *(pool[i] for i in chosen)]

        (ids,) = self.tokenizer.encode_prefixes([self.queries[qid]], self.max_length)
        query = self.marks.on_query(np.asarray(ids, np.int32))
        # Documents are cached, since candidates repeat in every epoch; the cache is emptied when full.
        if len(self._tokens) > CACHED_DOCUMENTS:
            self._tokens = {}
        absent = [docid for docid in docids if docid not in self._tokens]
        encoded = self.tokenizer.encode_prefixes([self.docs[docid] for docid in absent], self.max_length)
        for docid, ids in zip(absent, encoded):
            self._tokens[docid] = self.marks.on_document(np.asarray(ids, np.int32))

        teacher = tuple(self.teacher[qid][docid] / self.scale for docid in docids) if self.teacher is not None else ()
        return [(query, self._tokens[docid]) for docid in docids], teacher

    def _pool(self, qid: str) -> list[str]:
        """The candidates that may be negatives."""
        if qid not in self.candidates:
            return []
        levels = self.qrels[qid]
        pool = [docid for docid in self.candidates[qid].docids if levels.get(docid, 0) <= 0]
        return pool if self.teacher is None else [docid for docid in pool if docid in self.teacher.get(qid, ())]


class Epochs:
    """One endless sequence of permuted epochs of `size` units; lane ℓ reads every `lanes`-th of them."""

    def __init__(self, config: ConfigDict, stream: str, size: int) -> None:
        self.seed, self.stream, self.size, self.lanes = config.seed, stream, size, config.lanes
        self.step = self.lanes if size >= self.lanes else 1
        self._orders: dict[int, np.ndarray] = {}

    def units(self, lane: int, start: int, count: int) -> Iterator[tuple[int, int]]:
        """(epoch, unit) of the lane's positions `start` … `start + count - 1`."""
        for position in range(start, start + count):
            epoch, at = divmod(position * self.step + lane % self.step, self.size)
            if epoch not in self._orders:
                # Lanes are at most one epoch apart.
                self._orders = {e: o for e, o in self._orders.items() if e >= epoch - 1}
                self._orders[epoch] = generator(self.seed, self.stream, epoch).permutation(self.size)
            yield epoch, int(self._orders[epoch][at])


class RankingReader:
    """Groups of a positive and its negatives, a `packing.Reader`. With masked query prediction, the second sequence of a group is
    the positive again, with a query that may be masked."""

    def __init__(self, config: ConfigDict, data: RankingData, template: Template) -> None:
        self.data, self.template = data, template
        self.length, self.predicting = config.row_length, config.mqp_weight > 0
        self.sizes: Mapping[str, int] = {"rank": len(self.data)}
        self.epochs = Epochs(config, "units", len(self.data))

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        groups = []
        for epoch, number in self.epochs.units(lane, start, count):
            unit, teacher = self.data.unit(epoch, number)
            pairs = [fit(q, d, self.length, self.template) for q, d in unit]
            sequences = [EncodedSequence(query, document, -1, -1, self.template) for query, document in pairs]
            if self.predicting:
                sequences.insert(1, EncodedSequence(*pairs[0], 0, -1, self.template))
                teacher = (*teacher[:1], *teacher)
            groups.append(Group(0, tuple(sequences), teacher))
        return groups


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
        stream: str = CLICKS,
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
