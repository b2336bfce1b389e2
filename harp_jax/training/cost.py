"""The floating-point operations of a configured step."""

from ml_collections import ConfigDict

from harp_jax.objectives.objective import Objective
from harp_jax.stages.base import Stage
from harp_jax.stages.families import Shape


def batch_flops(config: ConfigDict, stage: Stage, shape: Shape, objective: Objective) -> float:
    """FLOPs of a step of all microbatches on all devices, the objective's predictions included; 0 where none are counted."""
    if stage.family.flops is None:
        return 0.0
    layout = stage.layout
    rows = layout.rows * config.lanes * layout.microbatches  # type: ignore[attr-defined]  # packed, as BERT's batches are
    return stage.family.flops(shape, rows, config.row_length, layout.sequences, objective.predictions)  # type: ignore[attr-defined]
