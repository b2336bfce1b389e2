"""MLM's gradient against that of the pairs: a head that is trained alone where `init` has none.

A new head on a trained encoder has a large gradient (norm 15 from MiniLM, that of the pairs is .4), and one clip by the global
norm scales both: the pairs then learn nothing until the head has caught up. The paper's start, BERT, brings its head along.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import replace

from ml_collections import ConfigDict

from harp_jax.checkpoints.encoder import load_encoder, starting_params
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.objectives.pretrain import Pretrain
from harp_jax.training.stages.base import Stage

log = logging.getLogger(__name__)

DIRECTORY = "mlm_head"
HEAD_RATE = 1e-3  # learning rate of the head alone


def head_is_due(config: ConfigDict, stage: Stage) -> bool:
    """Whether the stage predicts tokens with a head that its `init` lacks, and the config asks to train that head first."""
    return "mlm" in stage.untrained and config.mlm_weight > 0 and config.mlm_head_steps > 0


def with_trained_head(
    config: ConfigDict,
    workdir: str,
    stage: Stage[EncoderShape],
    train: Callable[[ConfigDict, str, Stage], dict[str, float]],
) -> Stage[EncoderShape] | None:
    """The stage with a head trained in WORKDIR/mlm_head, a run of its own that resumes; None if that run was interrupted."""
    directory = os.path.join(workdir, DIRECTORY)
    log.info("%s has no MLM head: training one for %d steps in %s", config.init, config.mlm_head_steps, directory)
    if "interrupted" in train(_head_config(config), directory, _head_stage(config, stage)):
        return None
    loaded = load_encoder(directory)[1]
    return replace(stage, start=starting_params(loaded, (), stage.vocabulary.size), untrained=())


def _head_config(config: ConfigDict) -> ConfigDict:
    """The config of the head's run: the same batches."""
    c = config.copy_and_resolve_references()
    c.steps = c.checkpoint_every = config.mlm_head_steps
    c.learning_rate, c.mlm_weight, c.weight_decay = HEAD_RATE, 1.0, 0.0
    c.mlm_head_steps = c.eval_every = 0
    c.wandb = ""
    return c


def _head_stage(config: ConfigDict, stage: Stage[EncoderShape]) -> Stage[EncoderShape]:
    def objective(shape: EncoderShape) -> Pretrain:
        whole = stage.objective(shape)
        assert isinstance(whole, Pretrain)
        return whole.head_alone()

    return replace(stage, objective=objective, held_out=None, steps=config.mlm_head_steps)
