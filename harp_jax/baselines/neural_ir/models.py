"""The four rankers as Linen modules: KNRM, Conv-KNRM, DRMM and DUET.

All have the same signature: query [B, Lq] int32, document [B, Ld] int32, `WordTables` → scores [B] float32. Id 0 is "no word"
(padding, or a word outside the vocabulary): it matches nothing, and more padding does not change a score. The last tanh of KNRM,
Conv-KNRM and DUET is left out: it does not change the ranking, and saturated scores would tie.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from harp_jax.baselines.neural_ir.words import WordVocabulary

HIDDEN = 5  # units of DRMM's middle layer, as in the paper
FLOOR = 1e-10  # minimum of KNRM's K before the logarithm, for words that match nothing
SCALE = 0.01  # factor of KNRM's logarithms, as in the authors' code: their sums reach hundreds
LONGEST_GRAPH = 5
CHARACTERS = 20  # n-graphs are taken from this many first characters of a word


@dataclass(frozen=True)
class NeuralConfig:
    """The shape of a neural ranker; each model reads what it needs."""

    name: str
    vocab_size: int  # rows of word vectors, including id 0
    dimension: int = 100  # of word vectors (all but DUET)
    query_length: int = 20  # words; longer queries are truncated
    document_length: int = 300  # words
    train_vectors: bool = True  # KNRM, Conv-KNRM; DRMM's histogram has no gradient, so its vectors do not change
    bins: int = 30  # DRMM, including the one for exact matches
    kernels: int = 11  # KNRM, Conv-KNRM, including the one for exact matches
    ngrams: int = 3  # Conv-KNRM: n-grams of 1 … ngrams words
    filters: int = 128  # Conv-KNRM, DUET
    hidden: int = 300  # DUET: units of its dense layers
    pool: int = 100  # DUET: words per window of the document's max-pooling
    graphs: int = 2000  # DUET: number of character n-graphs
    dropout: float = 0.0  # DUET
    dtype: str = "float32"


class WordTables(NamedTuple):
    """Word features besides vectors: idf [V] float32, n-graph ids [V, G] int32 (0: none)."""

    idf: np.ndarray
    graphs: np.ndarray


def vectors(module: nn.Module, config: NeuralConfig) -> jax.Array:
    """The word vectors [V, dimension] as a parameter; without a gradient unless `train_vectors`."""
    table = jnp.asarray(module.param("vectors", nn.initializers.normal(0.1), (config.vocab_size, config.dimension)))
    return table if config.train_vectors else jax.lax.stop_gradient(table)


def cosines(a: jax.Array, b: jax.Array) -> jax.Array:
    """Cosines [B, n, m] of the rows of a [B, n, d] and b [B, m, d]; 0 for a row of zeros.

    In full float32: a TPU's bfloat16 product would move exact matches off their kernel, whose width is 0.001.
    """

    def unit(x: jax.Array) -> jax.Array:
        # Not x / norm: the norm's gradient at zero is NaN.
        return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x * x, axis=-1, keepdims=True), 1e-12))

    return jnp.einsum("bnd,bmd->bnm", unit(a), unit(b), precision=jax.lax.Precision.HIGHEST)


def kernel_features(match: jax.Array, query: jax.Array, document: jax.Array, kernels: int) -> jax.Array:
    """φ [B, kernels] of similarities [B, n, m]; query [B, n] and document [B, m] mask words (bool).

    The last kernel is for exact matches (μ = 1, σ = 0.001), the others are evenly spread over [-1, 1] with σ = 0.1; for 11 kernels
    at -0.9, -0.7, … 0.9. Padding is masked after the kernels: its similarity of 0 would count in the kernels around μ = 0.
    """
    width = 2.0 / (kernels - 1)
    mu = np.append(-1.0 + width * (np.arange(kernels - 1) + 0.5), 1.0).astype(np.float32)
    sigma = np.append(np.full(kernels - 1, 0.1), 0.001).astype(np.float32)
    near = jnp.exp(-jnp.square(match[..., None] - mu) / (2.0 * sigma**2))
    counts = jnp.sum(near * document[:, None, :, None], axis=2)
    return SCALE * jnp.sum(jnp.log(jnp.maximum(counts, FLOOR)) * query[:, :, None], axis=1)


class Knrm(nn.Module):
    """KNRM (Xiong et al., SIGIR 2017): Gaussian kernels count soft matches at 11 levels of similarity.

    For query word i and kernel k, K_k(M_i) = Σ_j exp(-(M_ij - μ_k)² / 2σ_k²) over the document's words; the features are
    φ_k = Σ_i log K_k(M_i), and the score is linear in them.
    """

    config: NeuralConfig

    @nn.compact
    def __call__(self, query: jax.Array, document: jax.Array, tables: WordTables) -> jax.Array:
        table = vectors(self, self.config)
        match = cosines(table[query], table[document])
        features = kernel_features(match, query > 0, document > 0, self.config.kernels)
        return nn.Dense(1, kernel_init=nn.initializers.zeros, name="score")(features)[:, 0]


def shifted(x: jax.Array, by: int) -> jax.Array:
    """x [B, L, …] shifted `by` places to the left, zeros (False) at the end."""
    width = [(0, 0)] * x.ndim
    width[1] = (0, by)
    return jnp.pad(x, width)[:, by:]


class ConvKnrm(nn.Module):
    """Conv-KNRM (Dai et al., WSDM 2018): KNRM's kernels over n-grams, each n of the query with each n of the document.

    The n-gram at word i is relu(W_n · [v_i … v_{i+n-1}] + b_n). N-grams that reach past the end of a text, or contain a word
    outside the vocabulary, match nothing.
    """

    config: NeuralConfig

    @nn.compact
    def __call__(self, query: jax.Array, document: jax.Array, tables: WordTables) -> jax.Array:
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


class Drmm(nn.Module):
    """DRMM (Guo et al., CIKM 2016): a histogram of similarities for each query word, a small network, a gate over the words.

    score = Σ_i g_i z_i with z_i = network(log(1 + histogram of word i)) and g = softmax over the query's words of w·idf_i, the
    better of the paper's two gates. The last bin counts exact matches (the same word), the other bins divide
    [-1, 1] evenly. Histograms have no gradient: word vectors are not learned.
    """

    config: NeuralConfig

    @nn.compact
    def __call__(self, query: jax.Array, document: jax.Array, tables: WordTables) -> jax.Array:
        c = self.config
        table = jax.lax.stop_gradient(vectors(self, c))
        # Counts [B, n, bins] of the document's words by their similarity to each query word, exact matches last.
        match = cosines(table[query], table[document])
        soft = jnp.clip(jnp.floor((match + 1.0) / 2.0 * (c.bins - 1)), 0, c.bins - 2).astype(jnp.int32)
        bins = jnp.where(query[:, :, None] == document[:, None, :], c.bins - 1, soft)
        hits = (bins[..., None] == jnp.arange(c.bins)) & (document > 0)[:, None, :, None]
        counts = hits.sum(axis=2).astype(match.dtype)
        middle = nn.tanh(nn.Dense(HIDDEN, name="network_in")(jnp.log1p(counts)))
        relevance = nn.tanh(nn.Dense(1, name="network_out")(middle))[..., 0]
        known = jnp.asarray(tables.idf)[query][..., None]
        # Starts at one: rare words weigh more from the first step.
        weight = nn.Dense(1, use_bias=False, kernel_init=nn.initializers.ones, name="gate")(known)[..., 0]
        there = query > 0
        gate = jax.nn.softmax(jnp.where(there, weight, -1e30), axis=1)
        return jnp.sum(jnp.where(there, gate * relevance, 0.0), axis=1)


def graph_table(words: WordVocabulary, graphs: int) -> np.ndarray:
    """N-graph ids [V, G] int32 of every word, padded with 0; counts only the `graphs` n-graphs that occur in most documents.

    With repetitions: "duck" has d, u, c, k, du, uc, ck, duc, uck, duck.
    """
    sizes = range(1, LONGEST_GRAPH + 1)
    shortened = [word[:CHARACTERS] for word in words.words]
    by_word = [[word[i : i + n] for n in sizes for i in range(len(word) - n + 1)] for word in shortened]
    weight: Counter[str] = Counter()
    for own, documents in zip(by_word, words.frequencies):
        for graph in own:
            weight[graph] += documents
    ranked = sorted(weight, key=lambda graph: (-weight[graph], graph))[:graphs]
    ids = {graph: number for number, graph in enumerate(ranked, 1)}
    rows = [[ids[graph] for graph in own if graph in ids] for own in by_word]
    table = np.zeros((words.size, max(1, max(map(len, rows)))), np.int32)
    for index, row in enumerate(rows, 1):
        table[index, : len(row)] = row
    return table


class Duet(nn.Module):
    """DUET (Mitra, Diaz and Craswell, WWW 2017), the version of the paper: the sum of a local and a distributed network.

    Local: which document positions have exactly the query word, one convolution that spans all positions, dense layers.
    Distributed: words as counts of character n-graphs (1 to 5 characters, the most frequent of the collection), convolutions
    over three words, max-pooling (the whole query; windows of the document), their elementwise product, dense layers. Later
    variants replace the n-graphs with word vectors; this one does not.

    Both networks are tied to positions: texts are truncated or padded to `query_length` and `document_length`. The
    activations of padding are set to zero.
    """

    config: NeuralConfig

    @nn.compact
    def __call__(self, query: jax.Array, document: jax.Array, tables: WordTables) -> jax.Array:
        c = self.config

        def exactly(ids: jax.Array, length: int) -> jax.Array:
            return jnp.pad(ids[:, :length], ((0, 0), (0, max(0, length - ids.shape[1]))))

        query, document = exactly(query, c.query_length), exactly(document, c.document_length)
        exact = (query[:, :, None] == document[:, None, :]) & (query > 0)[:, :, None]
        matched = nn.tanh(nn.Dense(c.filters, name="local_conv")(exact.astype(jnp.float32)))
        matched = jnp.where((query > 0)[..., None], matched, 0.0)
        local = self._dense(matched.reshape(len(query), -1), "local")

        q, d = self._trigrams(query, tables, "query"), self._trigrams(document, tables, "document")
        q = jnp.where((query > 0).any(axis=1)[:, None], q.max(axis=1, where=(query > 0)[..., None], initial=-1.0), 0.0)
        q = nn.tanh(nn.Dense(c.filters, name="query_dense")(q))
        window = min(c.pool, c.document_length)
        there = document > 0
        pooled = sliding_max(jnp.where(there[..., None], d, -1.0), window)
        some = sliding_max(there[..., None].astype(jnp.float32), window) > 0
        windows = nn.tanh(nn.Dense(c.filters, name="document_dense")(pooled))
        product = jnp.where(some, q[:, None, :] * windows, 0.0)
        return local + self._dense(product.reshape(len(query), -1), "distributed")

    def _trigrams(self, ids: jax.Array, tables: WordTables, side: str) -> jax.Array:
        """tanh of a convolution over three words' n-graph counts: [B, L, filters]."""
        c = self.config
        kernel = self.param(f"{side}_conv", nn.initializers.lecun_normal(in_axis=(0, 1)), (3, c.graphs, c.filters))
        bias = self.param(f"{side}_conv_bias", nn.initializers.zeros, (c.filters,))
        # Computed once per word of the batch, or of the vocabulary if that is smaller.
        whole = len(tables.graphs) < ids.size
        graphs = jnp.asarray(tables.graphs)[jnp.arange(len(tables.graphs)) if whole else ids.reshape(-1)]
        # One row of counts per word, made by scattering, so that the product with the kernel is dense.
        counts = jnp.zeros((len(graphs), c.graphs + 1)).at[jnp.arange(len(graphs))[:, None], graphs].add(1.0)[:, 1:]
        taps = jnp.einsum("wg,kgf->kwf", counts, kernel)
        taps = taps[:, ids] if whole else taps.reshape(3, *ids.shape, c.filters)
        before = jnp.pad(taps[0], ((0, 0), (1, 0), (0, 0)))[:, :-1]
        after = jnp.pad(taps[2], ((0, 0), (0, 1), (0, 0)))[:, 1:]
        return nn.tanh(before + taps[1] + after + bias)

    def _dense(self, x: jax.Array, name: str) -> jax.Array:
        """Two hidden layers and a score [B]; with dropout if there is a key for it."""
        c = self.config
        x = nn.tanh(nn.Dense(c.hidden, name=f"{name}_hidden_1")(x))
        x = nn.tanh(nn.Dense(c.hidden, name=f"{name}_hidden_2")(x))
        x = nn.Dropout(c.dropout)(x, deterministic=not self.has_rng("dropout"))
        return nn.Dense(1, name=f"{name}_score")(x)[:, 0]


def sliding_max(x: jax.Array, window: int) -> jax.Array:
    """Maxima [B, L - window + 1, F] of all windows along axis 1 of x [B, L, F].

    Builds windows of 2, 4, 8, … positions from pairs of smaller ones, and the last from two that overlap: on CPU the gradient of
    XLA's own pooling visits every position of every window.
    """
    width = 1
    while 2 * width <= window:
        x = jnp.maximum(x[:, :-width], x[:, width:])
        width *= 2
    rest = window - width
    return jnp.maximum(x[:, : x.shape[1] - rest], x[:, rest:]) if rest else x


def build(config: NeuralConfig) -> Any:
    """The Linen module of a shape."""
    return {"drmm": Drmm, "duet": Duet, "knrm": Knrm, "conv_knrm": ConvKnrm}[config.name](config)


def init_params(config: NeuralConfig, key: jax.Array) -> dict:
    """A fresh parameter tree, float32."""
    ids = jnp.zeros((1, 1), jnp.int32)
    tables = WordTables(np.zeros(1, np.float32), np.zeros((1, 1), np.int32))
    return build(config).init(key, ids, ids, tables)["params"]


def word_tables(shape: NeuralConfig, words: WordVocabulary) -> WordTables:
    """The features of the words that the model uses besides their vectors."""
    graphs = graph_table(words, shape.graphs) if shape.name == "duet" else np.zeros((1, 1), np.int32)
    return WordTables(words.idf, graphs)
