"""What the training loop asks of a model's shape, whichever family of models it describes."""

from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from harp_jax.model import sharding
from harp_jax.model.bert import BertConfig

# Neural rankers are small: every device holds all of one.
REPLICATED = ((r".", P()),)


def family(shape: Any) -> str:
    """The name under which config.json keeps the shape."""
    return "bert" if isinstance(shape, BertConfig) else "neural_ir"


def init_params(shape: Any, key: jax.Array) -> dict:
    """A fresh parameter tree, float32."""
    if isinstance(shape, BertConfig):
        from harp_jax.model.cross_encoder import init_params

        return init_params(shape, key)
    from harp_jax.neural_ir.build import init_params as init_neural

    return init_neural(shape, key)


def rules(shape: Any) -> tuple[tuple[str, P], ...]:
    """The sharding rules of its parameters."""
    return sharding.RULES if isinstance(shape, BertConfig) else REPLICATED
