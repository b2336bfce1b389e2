"""The word embeddings' two gradients are added before the all-reduce, and equal those of one device."""

import math
import os

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from harp_jax import config as defaults
from harp_jax.model.cross_encoder import init_params
from harp_jax.training import dry_run, metrics_log
from harp_jax.training.train import train
from tests.support.tiny_run import tiny_config, tiny_stage


def losses(directory: str, devices: int) -> list[float]:
    os.mkdir(directory)
    config = tiny_config(directory, accumulate=2)
    train(config, os.path.join(directory, "run"), tiny_stage(config), jax.devices()[:devices])
    return [row["loss"] for row in metrics_log.read(os.path.join(directory, "run")) if row["split"] == "train"]


def test_eight_parts_have_the_losses_of_one_device(tmp_path):
    expected, found = (losses(str(tmp_path / str(n)), n) for n in (1, 8))
    assert len(found) == 20 and abs(found[0] - expected[0]) <= 1e-5
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def config_of(stage: str, directory: str) -> ConfigDict:
    if stage == "pretrain":
        return tiny_config(directory, **{"model.layers": 1})
    config = {"coarse_tune": defaults.coarse_tune, "finetune": defaults.finetune}[stage]()
    config.tokenizer = tiny_config(directory).tokenizer
    config.model.layers, config.model.hidden, config.model.heads, config.model.max_positions = 1, 32, 2, 128
    config.row_length, config.steps = 128, 10
    if stage == "finetune":
        config.mqp_weight = 0.5
    else:
        config.query_mark = config.document_mark = ""
    return config


@pytest.mark.parametrize("stage", ["pretrain", "coarse_tune", "finetune"])
def test_every_gradient_is_sent_once(tmp_path, stage):
    """All-reduces on a data mesh carry the parameters' size and a few scalars, the word embeddings once."""
    compiled = dry_run.compile_step(config_of(stage, str(tmp_path)), jax.devices())
    sent = dry_run.collectives(compiled.program.as_text())
    tree = jax.eval_shape(lambda: init_params(compiled.shape, jax.random.key(0)))
    if stage == "finetune":  # masked query prediction has a linear decoder
        del tree["mlm"]["transform"], tree["mlm"]["norm"]
    size = 4 * sum(math.prod(x.shape) for x in jax.tree.leaves(tree))
    assert compiled.mesh.size == 8 and {kind for kind, _ in sent} == {"all-reduce"}
    assert size <= sum(total for _, total in sent) <= size + 256
