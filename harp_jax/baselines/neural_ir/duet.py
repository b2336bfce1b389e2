"""DUET (Mitra, Diaz and Craswell, WWW 2017), the version of the paper: the sum of a local and a distributed network.

Local: which document positions hold exactly the query word, a convolution over all positions at once, dense layers.
Distributed: words as counts of character n-graphs (1 to 5 characters, the most frequent of the collection), convolutions
over three words, max-pooling (the whole query; windows of the document), their elementwise product, dense layers. Later
variants replace the n-graphs by word vectors; this one does not.

Both networks are tied to positions: texts are truncated or padded to `query_length` and `document_length`. The
activations of padding are set to zero. The last tanh is left out: it changes no order of scores, and saturated scores tie.
"""

from collections import Counter

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.baselines.neural_ir.interaction import NeuralConfig, WordTables
from harp_jax.text.words import WordVocabulary

LONGEST_GRAPH = 5
CHARACTERS = 20  # of a word whose n-graphs are counted


def word_graphs(word: str) -> list[str]:
    """The n-graphs of a word, repetitions kept: "duck" has d, u, c, k, du, uc, ck, duc, uck, duck."""
    word = word[:CHARACTERS]
    return [word[i : i + n] for n in range(1, LONGEST_GRAPH + 1) for i in range(len(word) - n + 1)]


def graph_table(words: WordVocabulary, graphs: int) -> np.ndarray:
    """N-graph ids [V, G] int32 of every word, 0 where a word has fewer; the `graphs` n-graphs in most documents."""
    weight: Counter[str] = Counter()
    for word, documents in zip(words.words, words.frequencies):
        for graph in word_graphs(word):
            weight[graph] += documents
    ranked = sorted(weight, key=lambda graph: (-weight[graph], graph))[:graphs]
    ids = {graph: number for number, graph in enumerate(ranked, 1)}
    rows = [[ids[graph] for graph in word_graphs(word) if graph in ids] for word in words.words]
    table = np.zeros((words.size, max(1, max(map(len, rows)))), np.int32)
    for index, row in enumerate(rows, 1):
        table[index, : len(row)] = row
    return table


class Duet(nn.Module):
    config: NeuralConfig

    @nn.compact
    def __call__(
        self, query: jax.Array, document: jax.Array, tables: WordTables, deterministic: bool = True
    ) -> jax.Array:
        c = self.config
        query = _exactly(query, c.query_length)
        document = _exactly(document, c.document_length)
        local = self._local(query, document, deterministic)
        return local + self._distributed(query, document, tables, deterministic)

    def _local(self, query: jax.Array, document: jax.Array, deterministic: bool) -> jax.Array:
        exact = (query[:, :, None] == document[:, None, :]) & (query > 0)[:, :, None]
        matched = nn.tanh(nn.Dense(self.config.filters, name="local_conv")(exact.astype(jnp.float32)))
        matched = jnp.where((query > 0)[..., None], matched, 0.0)
        return self._dense(matched.reshape(len(query), -1), "local", deterministic)

    def _distributed(self, query: jax.Array, document: jax.Array, tables: WordTables, deterministic: bool) -> jax.Array:
        c = self.config
        q, d = self._trigrams(query, tables, "query"), self._trigrams(document, tables, "document")
        q = jnp.where((query > 0).any(axis=1)[:, None], q.max(axis=1, where=(query > 0)[..., None], initial=-1.0), 0.0)
        q = nn.tanh(nn.Dense(c.filters, name="query_dense")(q))
        window = min(c.pool, c.document_length)
        there = document > 0
        pooled = sliding_max(jnp.where(there[..., None], d, -1.0), window)
        some = sliding_max(there[..., None].astype(jnp.float32), window) > 0
        windows = nn.tanh(nn.Dense(c.filters, name="document_dense")(pooled))
        product = jnp.where(some, q[:, None, :] * windows, 0.0)
        return self._dense(product.reshape(len(query), -1), "distributed", deterministic)

    def _trigrams(self, ids: jax.Array, tables: WordTables, side: str) -> jax.Array:
        """tanh of a convolution over three words' n-graph counts: [B, L, filters]."""
        c = self.config
        kernel = self.param(f"{side}_conv", nn.initializers.lecun_normal(in_axis=(0, 1)), (3, c.graphs, c.filters))
        bias = self.param(f"{side}_conv_bias", nn.initializers.zeros, (c.filters,))
        # Once for every word of the batch, or of the vocabulary where that is smaller.
        whole = len(tables.graphs) < ids.size
        graphs = jnp.asarray(tables.graphs)[jnp.arange(len(tables.graphs)) if whole else ids.reshape(-1)]
        # One row of counts a word, made by scattering: the product with the kernel is then dense.
        counts = jnp.zeros((len(graphs), c.graphs + 1)).at[jnp.arange(len(graphs))[:, None], graphs].add(1.0)[:, 1:]
        taps = jnp.einsum("wg,kgf->kwf", counts, kernel)
        taps = taps[:, ids] if whole else taps.reshape(3, *ids.shape, c.filters)
        before = jnp.pad(taps[0], ((0, 0), (1, 0), (0, 0)))[:, :-1]
        after = jnp.pad(taps[2], ((0, 0), (0, 1), (0, 0)))[:, 1:]
        return nn.tanh(before + taps[1] + after + bias)

    def _dense(self, x: jax.Array, name: str, deterministic: bool) -> jax.Array:
        """Two hidden layers and a score [B]."""
        c = self.config
        x = nn.tanh(nn.Dense(c.hidden, name=f"{name}_hidden_1")(x))
        x = nn.tanh(nn.Dense(c.hidden, name=f"{name}_hidden_2")(x))
        x = nn.Dropout(c.dropout)(x, deterministic=deterministic)
        return nn.Dense(1, name=f"{name}_score")(x)[:, 0]


def sliding_max(x: jax.Array, window: int) -> jax.Array:
    """Maxima [B, L - window + 1, F] of all windows along axis 1 of x [B, L, F].

    Windows of 2, 4, 8, … positions from each other, then two that cover the rest: on CPU the gradient of XLA's own pooling
    goes through every position of every window.
    """
    width = 1
    while 2 * width <= window:
        x = jnp.maximum(x[:, :-width], x[:, width:])
        width *= 2
    rest = window - width
    return jnp.maximum(x[:, : x.shape[1] - rest], x[:, rest:]) if rest else x


def _exactly(ids: jax.Array, length: int) -> jax.Array:
    """ids [B, L] truncated or padded to [B, length]."""
    return jnp.pad(ids[:, :length], ((0, 0), (0, max(0, length - ids.shape[1]))))
