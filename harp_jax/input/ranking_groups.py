"""Judgments to groups: a relevant document and negatives from the first stage's candidates.

A *unit* is a (query, relevant document) pair; its negatives in an epoch are a pure function of (seed, epoch, query,
document). Negatives are candidates that are not judged relevant. Relevant documents that the first stage missed are left
out, unless `missed_positives` is on; evaluation re-ranks the candidates unchanged. A document that a lexical first stage missed
shares fewer words with the query than its negatives do: from such positives a model learns that matching words are bad. How often
the first stage prefers the positive is logged at the start.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.documents import Documents, Texts
from harp_jax.corpus.trec import Qrels, Run, read_qrels, read_queries, read_run, read_subset, select, split_queries
from harp_jax.input.packing import EncodedSequence, Group, fit
from harp_jax.text.tokenizer import NO_MARKS, Marks, Template, Tokenizer

if TYPE_CHECKING:
    from harp_jax.text.words import WordVocabulary

log = logging.getLogger(__name__)

HELD_OUT = 0.1  # share of the training queries that are held out for `select`; at most `config.select_queries`
CACHED_DOCUMENTS = 65_536  # maximum number of documents whose token ids are cached, 4 bytes per token
UNTAUGHT = "no teacher score"


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
    `missed_positives`) that were not retrieved. `agreement` is also logged, with a warning if the run contradicts most pairs. With
    a `teacher`, documents without its score are left out of the groups and counted; its scores are divided by their mean standard
    deviation within a query, so that logits, cosines and BM25 scores have the same scale. Raises InputError if no unit is left, and
    for candidates that `docs` lacks."""

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
        self.negatives, self.missed_positives = config.negatives, config.missed_positives
        self.teacher = teacher = read_run(config.teacher, queries=judged.qrels) if config.get("teacher", "") else None
        self.without = "no candidates" if teacher is None else "no candidates with a teacher score"
        of_queries = ("judged, not among the queries", "no relevant document", self.without)
        self.report = dict.fromkeys((*of_queries, "document not found", "not retrieved"), 0)
        self.report |= {} if teacher is None else {UNTAUGHT: 0}
        self.units = [(qid, docid) for qid in judged.qrels for docid in self._positives(qid)]
        for what, count in self.report.items():
            if count:
                noun = "queries" if what in of_queries else "relevant documents"
                log.warning("%d %s are left out of training: %s", count, noun, what)
        self._check_candidates()
        if not self.units:
            raise InputError(
                f"no query can be trained on ({self.report}); check that qrels, queries, candidates and docs match"
                + (", or set --config.missed_positives=True" if self.report["not retrieved"] else "")
            )
        self.scale = 1.0 if teacher is None else self._scale(teacher)
        self.agreement = self._agreement()
        log.info(
            "training pairs: the candidates' run ranks the relevant document above the negative in %.3f of them; "
            "%d relevant documents are trained on", self.agreement, len(self.units),
        )  # fmt: skip
        if self.agreement < 0.5:
            log.warning(
                "the candidates' run contradicts most training pairs: a model learns from them to rank against its scores"
                + ("; set --config.missed_positives=False" if self.missed_positives else "")
            )
        self._tokens: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.units)

    def unit(self, epoch: int, index: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """(query ids, document ids) of the positive, then of its negatives: int32, no special tokens, not yet truncated to a row.
        Negatives are drawn without replacement; fewer than `negatives` if the query has fewer candidates."""
        qid, positive, negatives = self.chosen(epoch, index)
        ids = self.tokenizer.encode_prefixes([self.queries[qid]], self.max_length)[0]
        query = self.marks.on_query(np.asarray(ids, np.int32))
        return [(query, document) for document in self._encode([positive, *negatives])]

    def chosen(self, epoch: int, index: int) -> tuple[str, str, list[str]]:
        """(query, relevant document, negatives) of a unit, as ids of the collection."""
        qid, positive = self.units[index]
        pool = self._negatives(qid)
        draw = generator(self.seed, "negatives", epoch, qid, positive)
        drawn = draw.choice(len(pool), min(self.negatives, len(pool)), replace=False)
        return qid, positive, [pool[i] for i in drawn]

    def taught(self, epoch: int, index: int) -> tuple[float, ...]:
        """The teacher's scores of a unit, in the order of `unit`; () without a teacher."""
        if self.teacher is None:
            return ()
        qid, positive, negatives = self.chosen(epoch, index)
        scores = dict(zip(self.teacher[qid].docids, self.teacher[qid].scores))
        return tuple(scores[docid] / self.scale for docid in (positive, *negatives))

    def _positives(self, qid: str) -> list[str]:
        relevant = [docid for docid, level in self.qrels[qid].items() if level > 0]
        present = [docid for docid in relevant if docid in self.docs]
        self.report["document not found"] += len(relevant) - len(present)
        for what, lacking in (
            ("judged, not among the queries", qid not in self.queries),
            ("no relevant document", not present),
            (self.without, not self._negatives(qid)),
        ):
            if lacking:
                self.report[what] += 1
                return []
        if not self.missed_positives:
            present = self._within(present, self.candidates, qid, "not retrieved")
        return present if self.teacher is None else self._within(present, self.teacher, qid, UNTAUGHT)

    def _within(self, docids: list[str], run: Run, qid: str, otherwise: str) -> list[str]:
        """The documents that a run ranks; the others are counted in the report."""
        known = set(run[qid].docids)
        self.report[otherwise] += sum(docid not in known for docid in docids)
        return [docid for docid in docids if docid in known]

    def _negatives(self, qid: str) -> list[str]:
        if qid not in self.candidates:
            return []
        judged = self.qrels[qid]
        negatives = [docid for docid in self.candidates[qid].docids if judged.get(docid, 0) <= 0]
        if self.teacher is None:
            return negatives
        known = set(self.teacher[qid].docids) if qid in self.teacher else ()
        return [docid for docid in negatives if docid in known]

    def _scale(self, teacher: Run) -> float:
        """The divisor of the teacher's scores. Logs how many candidates have none; InputError if all of a query are equal."""
        queries = dict.fromkeys(qid for qid, _ in self.units)
        candidates = sum(len(self.candidates[qid]) for qid in queries)
        known = sum(len({*self.candidates[qid].docids} & {*teacher[qid].docids}) for qid in queries)
        if known < candidates:
            log.warning(
                "%d of %d candidates are left out of training: the teacher has no score for them",
                candidates - known, candidates,
            )  # fmt: skip
        scale = float(np.mean([np.std(teacher[qid].scores) for qid in queries]))
        if not scale:
            raise InputError(
                "the teacher gives all documents of a query the same score; nothing can be learned from it"
            )
        return scale

    def _agreement(self) -> float:
        """The expected share of an epoch's (positive, negative) pairs that the candidates' run ranks as the judgments do: what a
        model can learn from its scores alone. Pairs whose positive it missed count as ranked wrongly."""
        place: dict[str, dict[str, int]] = {}
        pairs, above = 0, 0.0
        for qid, positive in self.units:
            if qid not in place:
                place[qid] = {docid: rank for rank, docid in enumerate(self.candidates[qid].ranked())}
            ranks, pool = place[qid], self._negatives(qid)
            drawn = min(self.negatives, len(pool))
            pairs += drawn
            if positive in ranks:
                above += drawn * sum(ranks[docid] > ranks[positive] for docid in pool) / len(pool)
        return above / pairs

    def _check_candidates(self) -> None:
        seen: set[str] = set()
        # Without units, check all judged queries: a run over other documents retrieves no relevant one.
        for qid in dict.fromkeys(qid for qid, _ in self.units) or self.qrels.keys() & self.candidates.keys():
            for docid in self.candidates[qid].docids:
                if docid not in seen and docid not in self.docs:
                    raise InputError(
                        f"candidate {docid} of query {qid} is not in {self.docs.path}; retrieve from these documents"
                    )
                seen.add(docid)

    def _encode(self, docids: list[str]) -> list[np.ndarray]:
        """Token ids of documents. Cached, since candidates repeat in every epoch; the cache is emptied when full."""
        if len(self._tokens) > CACHED_DOCUMENTS:
            self._tokens = {}
        tokens = self._tokens
        absent = [docid for docid in docids if docid not in tokens]
        encoded = self.tokenizer.encode_prefixes([self.docs[docid] for docid in absent], self.max_length)
        tokens.update((docid, self.marks.on_document(np.asarray(ids, np.int32))) for docid, ids in zip(absent, encoded))
        return [tokens[docid] for docid in docids]


class Epochs:
    """One endless sequence of permuted epochs of `size` units; lane ℓ reads every `lanes`-th of them."""

    def __init__(self, config: ConfigDict, stream: str, size: int) -> None:
        self.seed, self.stream, self.size = config.seed, stream, size
        self.lanes = config.lanes
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
        """See `packing.Reader`."""
        groups = []
        for epoch, number in self.epochs.units(lane, start, count):
            pairs = [fit(q, d, self.length, self.template) for q, d in self.data.unit(epoch, number)]
            sequences = [EncodedSequence(query, document, -1, -1, self.template) for query, document in pairs]
            teacher = self.data.taught(epoch, number)
            if self.predicting:
                sequences.insert(1, EncodedSequence(*pairs[0], 0, -1, self.template))
                teacher = (*teacher[:1], *teacher)
            groups.append(Group(0, tuple(sequences), teacher))
        return groups
