"""The transformer controls: HARP's config with only data and task weights changed."""

from types import SimpleNamespace

import numpy as np
import pytest
from harp_jax.configs.baselines import harp

from data_pipeline.config import generation
from data_pipeline.tasks.table import TASKS
from harp_jax import config as configs
from harp_jax.base.randomness import generator
from harp_jax.input.packing import Group, Sequence, make_layout, plan
from tests.support.synthetic import TEMPLATE

CONTROLS = [(control, {"data", "tasks", "pair_weight"}) for control in ("mlm", "ict", "wlp", "prop")]


@pytest.mark.parametrize("control, may_differ", [*CONTROLS, ("recommended", {"tasks", "mlm_weight", "model"})])
def test_controls_share_the_budget_of_harp(control, may_differ):
    mine, theirs = harp.get_config(control).to_dict(), harp.get_config().to_dict()
    differing = {name for name in theirs if mine[name] != theirs[name]}
    assert differing and differing <= may_differ and mine.keys() == theirs.keys()
    assert mine["batch_tokens"] > 0  # not batch_pairs: pairs of other tasks are longer or shorter
    assert set(mine["tasks"]) <= set(TASKS)
    if control == "recommended":
        assert mine["model"] | {"dropout": 0.1} == theirs["model"]
        assert configs.pretrain("recommended").tasks == generation("recommended").tasks == mine["tasks"]


class Lengths:
    """A reader of groups of two sequences with lengths uniform over `spread`."""

    def __init__(self, spread: tuple[int, int]) -> None:
        self.spread, self.sizes = spread, {"some": 10_000}

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        found = []
        for position in range(start, start + count):
            draw = generator("lengths", *self.spread, lane, position)
            words = [np.zeros(int(n), np.int32) for n in draw.integers(*self.spread, 2)]
            found.append(Group(0, tuple(Sequence(text[:5], text[5:], -1, 0, TEMPLATE) for text in words)))
        return found


@pytest.mark.parametrize(
    "row_length, spread", [(512, (20, 90)), (512, (130, 170)), (512, (30, 505)), (256, (120, 250))]
)
def test_batches_hold_the_same_real_tokens_however_long_a_tasks_pairs_are(row_length, spread):
    """Within 1.5 % on average over 40 batches of a lane, although rows are between two thirds full and full."""
    config = configs.pretrain()
    config.update({"lanes": 2, "batch_tokens": 8000, "row_length": row_length})
    tokenizer = SimpleNamespace(cls=1, sep=2, pad=0)
    reader = Lengths(spread)
    layout = make_layout(config, tokenizer, reader, {"some": 1.0}, group_size=2, sequences=64)
    groups = reader.read(1, "some", 0, 3000)
    lengths = [tuple(map(len, group.sequences)) for group in groups]
    batches = list(plan(lengths, layout))[:-1][:40]
    tokens = [sum(sum(lengths[placement.group]) for placement in batch) for batch in batches]
    assert np.mean(tokens) == pytest.approx(4000, rel=0.015)
    assert layout.rows * row_length >= 4000


def test_a_batch_beyond_the_sample_gets_the_rows_that_it_needs():
    """Sequences of 130 to 170 tokens leave a third of a row of 256 empty; 512 such groups are less than one batch."""
    config = configs.pretrain()
    config.update({"lanes": 1, "batch_tokens": 100_000, "row_length": 256})
    layout = make_layout(config, SimpleNamespace(cls=1, sep=2, pad=0), Lengths((130, 170)), {"some": 1.0}, 2, 64)
    assert layout.rows * 152.5 >= 0.985 * 100_000  # 149.5 tokens on average, and 3 special tokens
