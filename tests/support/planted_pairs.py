"""Pairs with a planted signal, and the accuracy of a training run on held-out pairs."""

import dataclasses
import os
from collections.abc import Callable, Mapping

import jax
import numpy as np
from ml_collections import ConfigDict

from harp_jax import config as defaults
from harp_jax.base.randomness import generator
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.input.packing import Group, pair_sequences
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Template, Tokenizer
from harp_jax.training.stages.pretrain import pretrain_stage
from harp_jax.training.train import train
from tests.support.synthetic import EMPTY
from tests.support.tiny_run import with_pairs

Pair = tuple[np.ndarray, np.ndarray, np.ndarray]  # token ids of query, positive and negative document
Pairs = Callable[[str, int, int], Pair]  # by split, lane and number; no pair repeats
TASK, BLANK = "qdm", "rqp"  # BLANK: the same pairs, but held-out ones have an uninformative query
VOCABULARY = 1000  # words of a model from scratch
CONCEPTS, DOCUMENT = 40, 10  # of `bridge`: number of concepts; words of a document


def exact_match(sample: int, length: int, split: str, lane: int, number: int) -> Pair:
    """Three query words, all in the positive document and none in the negative; both have `length` words."""
    rng = generator("exact", sample, split, lane, number)
    words = rng.permutation(np.arange(len(SPECIAL_TOKENS), VOCABULARY))[: 2 * length].astype(np.int32)
    positive, negative = np.split(words, 2)
    return rng.permutation(positive)[:3], positive, negative


def bridge(words: np.ndarray, split: str, lane: int, number: int) -> Pair:
    """Concepts with one word for queries and another for documents, paired at random, so only training tells which belong together.

    A query names two concepts; the positive document has their words, the negative those of two others. `words`: token ids.
    """
    drawn = generator("bridges").permutation(words).astype(np.int32)
    asked, told, filler = np.split(drawn, (CONCEPTS, 2 * CONCEPTS))
    rng = generator("bridges", split, lane, number)
    chosen = rng.permutation(CONCEPTS)[:4]
    fillers = rng.choice(filler, 2 * (DOCUMENT - 2), replace=False)
    positive = rng.permutation(np.concatenate([told[chosen[:2]], fillers[::2]]))
    negative = rng.permutation(np.concatenate([told[chosen[2:]], fillers[1::2]]))
    return asked[chosen[:2]], positive, negative


@dataclasses.dataclass(frozen=True)
class FarAnswers:
    """Three questions, and documents of 7/6 × `depth` tokens with an answer at token `depth`; the rest is filler.

    Every document has the same filler in another order, so only the answer matters. Half of the negative documents answer another
    question, the others none: a model learns first that answers matter, then which one belongs to which question.
    """

    depth: int

    def query(self, question: int) -> np.ndarray:
        return np.full(16, len(SPECIAL_TOKENS) + question, np.int32)

    def document(self, question: int, rng: np.random.Generator) -> np.ndarray:
        """A document that answers the question; -1: none."""
        told, filler = len(SPECIAL_TOKENS) + 3, len(SPECIAL_TOKENS) + 6
        words = rng.permutation(np.resize(np.arange(filler, filler + 40), self.depth * 7 // 6)).astype(np.int32)
        if question >= 0:
            words[self.depth : self.depth + 32] = told + question
        return words

    def __call__(self, split: str, lane: int, number: int) -> Pair:
        rng = generator("far", split, lane, number)
        right, wrong = rng.permutation(3)[:2]
        return self.query(right), self.document(right, rng), self.document(rng.choice([wrong, -1]), rng)


@dataclasses.dataclass(frozen=True)
class PlantedReader:
    pairs: Pairs
    split: str
    length: int
    blank: int
    sizes: Mapping[str, int]
    template: Template

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        groups = []
        for i in range(start, start + count):
            query, positive, negative = self.pairs(f"{self.split} {task}", lane, i)
            if task == BLANK and self.split != "train":
                query = np.full_like(query, self.blank)
            sequences = pair_sequences(query, positive, EMPTY, negative, self.length, self.template)
            groups.append(Group(list(self.sizes).index(task), sequences))
        return groups


def from_scratch(directory: str) -> ConfigDict:
    """Config of BERT-tiny with its own vocabulary, for 300 updates of 32 pairs."""
    c = settings()
    c.tokenizer = os.path.join(directory, "tokenizer")
    Tokenizer.of_words((*SPECIAL_TOKENS, *(f"w{i}" for i in range(VOCABULARY - len(SPECIAL_TOKENS))))).save(c.tokenizer)
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = 2, 128, 2, 64
    return c


def settings() -> ConfigDict:
    c = defaults.pretrain()
    c.tasks, c.mlm_weight = (TASK,), 0.0
    c.row_length, c.batch_pairs, c.window, c.lanes = 64, 32, 128, 1
    c.steps, c.learning_rate, c.log_every, c.eval_every, c.eval_batches = 300, 1e-3, 100, 300, 8
    return c


def held_out_accuracy(config: ConfigDict, directory: str, pairs: Pairs) -> dict[str, float]:
    """Task → share of held-out pairs whose positive document scores higher, after training in `directory`."""
    workdir = trained(config, directory, pairs)
    rows = [row for row in read_metrics(workdir) if row["split"] == "validation"]
    return {task: rows[-1][f"{task}_accuracy"] for task in config.tasks}


def trained(config: ConfigDict, directory: str, pairs: Pairs) -> str:
    """Trains in `directory`, with evaluations on held-out pairs if the config says so; returns the workdir."""
    stage = pretrain_stage(config, with_data=False)
    sizes = dict.fromkeys(config.tasks, 100_000)
    mask, template = stage.tokenizer.mask, stage.tokenizer.template
    readers = {
        split: PlantedReader(pairs, split, config.row_length, mask, sizes, template) for split in ("train", "held out")
    }
    workdir = os.path.join(directory, "run")
    train(config, workdir, with_pairs(stage, config, readers["train"], readers["held out"]), jax.devices()[:1])
    return workdir
