"""The transformer controls: HARP's config with other data and task weights, and nothing else."""

import pytest
from harp_jax.configs.baselines import bert, harp, ict, prop, wlp

from harp_jax import config as configs
from harp_jax.errors import InputError
from harp_jax.records import TASKS

MAY_DIFFER = {"data", "tasks", "task_weights", "pair_weight"}


@pytest.mark.parametrize("control", [bert, ict, wlp, prop])
def test_controls_share_the_budget_of_harp(control):
    mine, theirs = control.get_config().to_dict(), harp.get_config().to_dict()
    differing = {name for name in theirs if mine[name] != theirs[name]}
    assert differing and differing <= MAY_DIFFER and mine.keys() == theirs.keys()
    assert mine["rows"] > 0  # real tokens are counted by rows: pairs of another task are longer or shorter
    assert set(mine["tasks"]) <= set(TASKS)


def test_every_task_has_a_weight():
    assert set(configs.pretrain().task_weights) == set(TASKS)


def test_presets_of_training_and_their_names():
    official = configs.pretrain("official")
    assert (official.pair_loss, official.task_sampling, official.model.attention_dropout) == (
        "softmax_margin",
        "proportional",
        0.1,
    )
    assert configs.pretrain("paper").mlm_side == "both" and configs.pretrain().mlm_side == "document"
    with pytest.raises(InputError, match="unknown preset"):
        configs.pretrain("authors")
