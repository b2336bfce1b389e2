"""Conv-KNRM (Dai et al., WSDM 2018): KNRM's kernels over n-grams, each n of the query with each n of the document.

The n-gram at word i is relu(W_n · [v_i … v_{i+n-1}] + b_n). N-grams that reach over the end of a
text, or hold a word outside the vocabulary, match nothing.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from harp_jax.baselines.neural_ir.interaction import cosines, vectors
from harp_jax.baselines.neural_ir.knrm import kernel_features
from harp_jax.baselines.neural_ir.shape import NeuralConfig, WordTables


def shifted(x: jax.Array, by: int) -> jax.Array:
    """x [B, L, …] shifted `by` places to the left, zeros (False) at the end."""
    width = [(0, 0)] * x.ndim
    width[1] = (0, by)
    return jnp.pad(x, width)[:, by:]


class ConvKnrm(nn.Module):
    config: NeuralConfig

    @nn.compact
    def __call__(
        self, query: jax.Array, document: jax.Array, tables: WordTables, deterministic: bool = True
    ) -> jax.Array:
        c = self.config
        table = vectors(self, c)
        sides: list[list[tuple[jax.Array, jax.Array]]] = [[], []]
        for n in range(1, c.ngrams + 1):
            kernel = self.param(
                f"kernel_{n}", nn.initializers.lecun_normal(in_axis=(0, 1)), (n, c.dimension, c.filters)
            )
            bias = self.param(f"bias_{n}", nn.initializers.zeros, (c.filters,))
            for side, ids in zip(sides, (query, document)):
                words, there = table[ids], ids > 0
                grams = sum(shifted(words, k) @ kernel[k] for k in range(n))
                for k in range(1, n):
                    there = there & shifted(ids > 0, k)
                side.append((nn.relu(grams + bias), there))
        features = [
            kernel_features(cosines(q, d), q_there, d_there, c.kernels)
            for q, q_there in sides[0]
            for d, d_there in sides[1]
        ]
        return nn.Dense(1, kernel_init=nn.initializers.zeros, name="score")(jnp.concatenate(features, axis=1))[:, 0]
