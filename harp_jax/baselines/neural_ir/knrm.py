"""KNRM (Xiong et al., SIGIR 2017): Gaussian kernels count soft matches at 11 levels of similarity.

For query word i and kernel k, K_k(M_i) = Σ_j exp(-(M_ij - μ_k)² / 2σ_k²) over the document's words; the features are
φ_k = Σ_i log K_k(M_i), the score is linear in them. The paper's last tanh is left out: it changes no order, and saturated
scores would tie.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.baselines.neural_ir.interaction import cosines, vectors
from harp_jax.baselines.neural_ir.shape import NeuralConfig, WordTables

FLOOR = 1e-10  # of K before the logarithm: a word that matches nothing
SCALE = 0.01  # of the logarithms, as in the authors' code: their sums reach hundreds


def kernel_levels(kernels: int) -> tuple[np.ndarray, np.ndarray]:
    """μ and σ [kernels]: the last for exact matches (1, 0.001), the others evenly spread over [-1, 1] with σ = 0.1.

    11 kernels: -0.9, -0.7, … 0.9, and 1.
    """
    width = 2.0 / (kernels - 1)
    soft = -1.0 + width * (np.arange(kernels - 1) + 0.5)
    return np.append(soft, 1.0).astype(np.float32), np.append(np.full(kernels - 1, 0.1), 0.001).astype(np.float32)


def kernel_features(match: jax.Array, query: jax.Array, document: jax.Array, kernels: int) -> jax.Array:
    """φ [B, kernels] of similarities [B, n, m]; query [B, n] and document [B, m] mask words (bool).

    Padding is masked after the kernels: its similarity of 0 would count in the kernels around μ = 0.
    """
    mu, sigma = kernel_levels(kernels)
    near = jnp.exp(-jnp.square(match[..., None] - mu) / (2.0 * sigma**2))
    counts = jnp.sum(near * document[:, None, :, None], axis=2)
    return SCALE * jnp.sum(jnp.log(jnp.maximum(counts, FLOOR)) * query[:, :, None], axis=1)


class Knrm(nn.Module):
    config: NeuralConfig

    @nn.compact
    def __call__(
        self, query: jax.Array, document: jax.Array, tables: WordTables, deterministic: bool = True
    ) -> jax.Array:
        table = vectors(self, self.config)
        match = cosines(table[query], table[document])
        features = kernel_features(match, query > 0, document > 0, self.config.kernels)
        return nn.Dense(1, kernel_init=nn.initializers.zeros, name="score")(features)[:, 0]
