"""The stages by the name in `config.stage`."""

from collections.abc import Callable

from harp_jax.training.stages.base import Stage
from harp_jax.training.stages.coarse_tune import coarse_tune_stage
from harp_jax.training.stages.finetune import finetune_stage
from harp_jax.training.stages.neural_ir import neural_ir_stage
from harp_jax.training.stages.pretrain import pretrain_stage

STAGES: dict[str, Callable[..., Stage]] = {
    "pretrain": pretrain_stage,
    "finetune": finetune_stage,
    "coarse_tune": coarse_tune_stage,
    "neural_ir": neural_ir_stage,
}
