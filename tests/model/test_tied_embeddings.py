"""The word embeddings' two gradients are added before the all-reduce."""

import math

import jax
import pytest
from ml_collections import ConfigDict

from harp_jax import config as defaults
from harp_jax.training import dry_run
from harp_jax.training.program import collectives
from harp_jax.training.stages.finetune import WITH_DECODER
from harp_jax.training.stages.stage import CROSS_ENCODER
from tests.support.tiny_run import tiny_config


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
        config.marks = ()
    return config


@pytest.mark.parametrize("stage", ["pretrain", "coarse_tune", "finetune"])
def test_every_gradient_is_sent_once(tmp_path, stage):
    """All-reduces on a data mesh carry the parameters' size and a few scalars, the word embeddings once."""
    compiled = dry_run.compile_step(config_of(stage, str(tmp_path)), jax.devices())
    sent = collectives(compiled.program.as_text())
    family = WITH_DECODER if stage == "finetune" else CROSS_ENCODER
    tree = jax.eval_shape(lambda: family.init_params(compiled.shape, jax.random.key(0)))
    if stage == "finetune":  # masked query prediction has a linear decoder of its own
        del tree["mlm"]
    size = 4 * sum(math.prod(x.shape) for x in jax.tree.leaves(tree))
    assert compiled.mesh.size == 8 and {kind for kind, _ in sent} == {"all-reduce"}
    assert size <= sum(total for _, total in sent) <= size + 256
