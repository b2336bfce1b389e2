"""What a model must learn, it learns: planted signals in pairs, through the whole loop, measured on held-out pairs."""

import dataclasses
import os
from collections.abc import Mapping

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from harp_jax import defaults
from harp_jax.input.layout import make_layout
from harp_jax.input.packing import Group, pair_sequences
from harp_jax.randomness import generator
from harp_jax.stages.pretrain import pretrain_stage
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from harp_jax.training import metrics_log
from harp_jax.training.train import train

VOCABULARY, DOCUMENT, TASK = 1000, 10, "qdm"


@dataclasses.dataclass(frozen=True)
class ExactMatches:
    """Three query words, all in the positive document and none in the negative. No pair comes twice."""

    split: str
    length: int
    sizes: Mapping[str, int] = dataclasses.field(default_factory=lambda: {TASK: 100_000})

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        return [Group(0, pair_sequences(*self.pair(lane, start + i), self.length)) for i in range(count)]

    def pair(self, lane: int, number: int) -> tuple[np.ndarray, np.ndarray, None, np.ndarray]:
        rng = generator("exact", self.split, lane, number)
        words = rng.permutation(np.arange(len(SPECIAL_TOKENS), VOCABULARY))[: 2 * DOCUMENT].astype(np.int32)
        positive, negative = words[:DOCUMENT], words[DOCUMENT:]
        return rng.permutation(positive)[:3], positive, None, negative


def config_of(directory: str, **changes: object) -> ConfigDict:
    c = defaults.pretrain()
    c.tokenizer = os.path.join(directory, "tokenizer")
    Tokenizer((*SPECIAL_TOKENS, *(f"w{i}" for i in range(VOCABULARY - len(SPECIAL_TOKENS))))).save(c.tokenizer)
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = 2, 128, 2, 64
    c.tasks, c.mlm_weight = (TASK,), 0.0
    c.row_length, c.batch_pairs, c.window, c.lanes = 64, 32, 128, 1
    c.steps, c.learning_rate, c.log_every, c.eval_every, c.eval_batches = 300, 1e-3, 100, 300, 8
    c.update_from_flattened_dict(changes)
    return c


def held_out_accuracy(directory: str, **changes: object) -> float:
    config = config_of(directory, **changes)
    stage = pretrain_stage(config, with_data=False)
    readers = {split: ExactMatches(split, config.row_length) for split in ("train", "held out")}
    layout = make_layout(config, stage.vocabulary, readers["train"], stage.shares, 2, 2 * config.batch_pairs)
    stage = dataclasses.replace(stage, reader=readers["train"], held_out=readers["held out"], layout=layout)
    train(config, os.path.join(directory, "run"), stage, jax.devices()[:1])
    rows = [row for row in metrics_log.read(os.path.join(directory, "run")) if row["split"] == "validation"]
    return rows[-1][f"{TASK}_accuracy"]


def test_a_small_encoder_from_scratch_learns_exact_matches(tmp_path):
    found = held_out_accuracy(str(tmp_path), **{"model.attention_start": "tied", "model.dropout": 0.0})
    assert found >= 0.95


@pytest.mark.real
def test_without_tied_attention_it_stays_near_chance(tmp_path):
    """The reason for the option: if the default learns this too one day, the option can go."""
    assert held_out_accuracy(str(tmp_path)) < 0.7
