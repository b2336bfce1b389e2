"""FLOPs of a configured step."""

from ml_collections import ConfigDict

from harp_jax.input.packing import PackedLayout
from harp_jax.objectives.objective import Objective
from harp_jax.training.stages.base import Stage
from harp_jax.training.stages.families import Shape


def batch_flops(config: ConfigDict, stage: Stage, shape: Shape, objective: Objective) -> float:
    """FLOPs of a step with full rows, over all microbatches and devices; 0 for models whose FLOPs are not counted."""
    layout = stage.layout
    if stage.family.flops is None or not isinstance(layout, PackedLayout):
        return 0.0
    rows = layout.rows * config.lanes * layout.microbatches
    return stage.family.flops(shape, rows, config.row_length, layout.sequences, objective.predictions)
