"""A neural ranker from its shape: the Linen module, fresh parameters, its tables of words."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.baselines.neural_ir.shape import NeuralConfig, WordTables
from harp_jax.text.words import WordVocabulary


def build(config: NeuralConfig) -> Any:
    """The Linen module of a shape."""
    from harp_jax.baselines.neural_ir.conv_knrm import ConvKnrm
    from harp_jax.baselines.neural_ir.drmm import Drmm
    from harp_jax.baselines.neural_ir.duet import Duet
    from harp_jax.baselines.neural_ir.knrm import Knrm

    return {"drmm": Drmm, "duet": Duet, "knrm": Knrm, "conv_knrm": ConvKnrm}[config.name](config)


def init_params(config: NeuralConfig, key: jax.Array) -> dict:
    """A fresh parameter tree, float32."""
    ids = jnp.zeros((1, 1), jnp.int32)
    tables = WordTables(np.zeros(1, np.float32), np.zeros((1, 1), np.int32))
    return build(config).init(key, ids, ids, tables)["params"]


def word_tables(shape: NeuralConfig, words: WordVocabulary) -> WordTables:
    """What the model uses of the words besides their vectors."""
    from harp_jax.baselines.neural_ir.duet import graph_table

    graphs = graph_table(words, shape.graphs) if shape.name == "duet" else np.zeros((1, 1), np.int32)
    return WordTables(words.idf, graphs)
