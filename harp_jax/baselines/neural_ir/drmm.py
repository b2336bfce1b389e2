"""DRMM (Guo et al., CIKM 2016): a histogram of similarities for each query word, a small network, a gate over the words.

score = Σ_i g_i z_i with z_i = network(log(1 + histogram of word i)) and g = softmax over the query's words of w·idf_i (gate
"idf") or w·v_i (gate "vector", the term's vector). The last bin counts exact matches (the same word), the other
bins divide [-1, 1] evenly. Histograms have no gradient: word vectors are not learned.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from harp_jax.baselines.neural_ir.interaction import cosines, vectors
from harp_jax.baselines.neural_ir.shape import NeuralConfig, WordTables

HIDDEN = 5  # units of the network's middle layer, as in the paper


def histograms(query: jax.Array, document: jax.Array, match: jax.Array, bins: int) -> jax.Array:
    """Counts [B, n, bins] of the document's words by similarity [B, n, m] to each query word, exact matches last."""
    exact = query[:, :, None] == document[:, None, :]
    soft = jnp.clip(jnp.floor((match + 1.0) / 2.0 * (bins - 1)), 0, bins - 2).astype(jnp.int32)
    place = jnp.where(exact, bins - 1, soft)
    hits = (place[..., None] == jnp.arange(bins)) & (document > 0)[:, None, :, None]
    return hits.sum(axis=2).astype(match.dtype)


class Drmm(nn.Module):
    config: NeuralConfig

    @nn.compact
    def __call__(
        self, query: jax.Array, document: jax.Array, tables: WordTables, deterministic: bool = True
    ) -> jax.Array:
        c = self.config
        table = jax.lax.stop_gradient(vectors(self, c))
        words = table[query]
        counts = histograms(query, document, cosines(words, table[document]), c.bins)
        middle = nn.tanh(nn.Dense(HIDDEN, name="network_in")(jnp.log1p(counts)))
        relevance = nn.tanh(nn.Dense(1, name="network_out")(middle))[..., 0]
        known = words if c.gate == "vector" else jnp.asarray(tables.idf)[query][..., None]
        # Starts at one: rare words weigh more from the first step.
        start = nn.initializers.zeros if c.gate == "vector" else nn.initializers.ones
        weight = nn.Dense(1, use_bias=False, kernel_init=start, name="gate")(known)[..., 0]
        there = query > 0
        gate = jax.nn.softmax(jnp.where(there, weight, -1e30), axis=1)
        return jnp.sum(jnp.where(there, gate * relevance, 0.0), axis=1)
