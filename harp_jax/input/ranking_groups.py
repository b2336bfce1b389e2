"""Judgments to groups: a relevant document and negatives from the first stage's candidates.

A *unit* is a (query, relevant document) pair; its negatives in an epoch are a pure function of (seed, epoch, query,
document). Negatives are candidates that are not judged relevant. Relevant documents that the first stage missed are left
out, unless `missed_positives` is on; evaluation re-ranks the candidates unchanged. A document that a lexical first stage missed
shares fewer words with the query than its negatives do: from such positives a model learns that matching words are bad.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.documents import Documents, Texts
from harp_jax.corpus.trec import Qrels, Run, read_qrels, read_queries, read_run, read_subset, select, split_queries
from harp_jax.input.packing import EncodedSequence, Group, Pair, fit
from harp_jax.text.tokenizer import NO_MARKS, Marks, Template, Tokenizer

if TYPE_CHECKING:
    from harp_jax.text.words import WordVocabulary

log = logging.getLogger(__name__)

HELD_OUT = 0.1  # share of the training queries that are held out for `select`; at most `config.select_queries`
CACHED_DOCUMENTS = 65_536  # maximum number of documents whose token ids are cached, 4 bytes per token
UNTAUGHT = "no teacher score"
OF_DOCUMENTS = ("document not found", "not retrieved", UNTAUGHT)


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
        tokenizer: "Tokenizer | WordVocabulary",
        judged: RankingDataset,
        marks: Marks = NO_MARKS,
    ) -> None:
        self.docs, self.queries = judged.docs, judged.queries
        self.qrels, self.candidates = judged.qrels, judged.candidates
        self.tokenizer, self.max_length, self.seed, self.marks = tokenizer, config.row_length, config.seed, marks
        self.negatives = config.negatives
        self.teacher = teacher = read_run(config.teacher, queries=judged.qrels) if config.get("teacher", "") else None
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
                runs = {} if config.missed_positives else {"not retrieved": self.candidates}
                for without, run in (runs if teacher is None else runs | {UNTAUGHT: teacher}).items():
                    known = set(run[qid].docids)
                    self.report[without] += sum(docid not in known for docid in present)
                    present = [docid for docid in present if docid in known]
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
                    raise InputError(
                        f"candidate {docid} of query {qid} is not in {self.docs.path}; retrieve from these documents"
                    )
                seen.add(docid)
        if not self.units:
            raise InputError(
                f"no query can be trained on ({dict(self.report)}); check that qrels, queries, candidates and docs match"
                + (", or set --config.missed_positives=True" if self.report["not retrieved"] else "")
            )

        # The scale of the teacher's scores.
        self.scale = 1.0
        if teacher is not None:
            total = sum(len(self.candidates[qid]) for qid in queries)
            scored = sum(len({*self.candidates[qid].docids} & {*teacher[qid].docids}) for qid in queries)
            if scored < total:
                said = "%d of %d candidates are left out of training: the teacher has no score for them"
                log.warning(said, total - scored, total)
            self.scale = float(np.mean([np.std(teacher[qid].scores) for qid in queries]))
            if not self.scale:
                raise InputError(
                    "the teacher gives all documents of a query the same score; nothing can be learned from it"
                )

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

        scores = dict(zip(self.teacher[qid].docids, self.teacher[qid].scores)) if self.teacher is not None else {}
        teacher = tuple(scores[docid] / self.scale for docid in docids) if scores else ()
        return [(query, self._tokens[docid]) for docid in docids], teacher

    def _pool(self, qid: str) -> list[str]:
        """The candidates that may be negatives."""
        if qid not in self.candidates:
            return []
        levels = self.qrels[qid]
        pool = [docid for docid in self.candidates[qid].docids if levels.get(docid, 0) <= 0]
        if self.teacher is None:
            return pool
        known = set(self.teacher[qid].docids) if qid in self.teacher else ()
        return [docid for docid in pool if docid in known]


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
