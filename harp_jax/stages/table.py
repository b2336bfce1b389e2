"""The stages by the name that `config.stage` gives them."""

from collections.abc import Callable

from harp_jax.stages.base import Stage
from harp_jax.stages.coarse_tune import coarse_tune
from harp_jax.stages.finetune import finetune
from harp_jax.stages.neural_ir import neural_ir
from harp_jax.stages.pretrain import pretrain

STAGES: dict[str, Callable[..., Stage]] = {
    "pretrain": pretrain,
    "finetune": finetune,
    "coarse_tune": coarse_tune,
    "neural_ir": neural_ir,
}
