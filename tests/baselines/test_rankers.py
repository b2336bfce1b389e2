"""Each neural ranker against loops over single pairs; padding does not change scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harp_jax.base.randomness import generator
from harp_jax.baselines.neural_ir import models
from harp_jax.baselines.neural_ir.models import NeuralConfig, WordTables, build, graph_table, init_params
from harp_jax.baselines.neural_ir.scorer import NeuralScorer
from harp_jax.text.words import WordVocabulary
from tests.support import slow_neural_ir as slow

ALPHABET = "abcdefg"
SHAPES = {
    "knrm": NeuralConfig("knrm", 41, dimension=12),
    "conv_knrm": NeuralConfig("conv_knrm", 41, dimension=12, filters=16),
    "drmm": NeuralConfig("drmm", 41, dimension=12),
    "duet": NeuralConfig("duet", 41, query_length=6, document_length=20, filters=10, hidden=8, pool=5, graphs=30),
}


def vocabulary():
    rng = generator("neural words")
    words = set()
    while len(words) < 40:
        words.add("".join(rng.choice(list(ALPHABET), rng.integers(1, 8))))
    return WordVocabulary(tuple(sorted(words)), tuple(int(n) for n in rng.integers(1, 60, 40)), 60)


def model(config):
    """Parameters large enough that every part of the score matters, and the word tables."""
    rng, words = generator("parameters"), vocabulary()
    params = jax.device_get(jax.jit(lambda key: init_params(config, key))(jax.random.key(0)))
    params = jax.tree.map(lambda x: x + 0.3 * rng.standard_normal(x.shape).astype(np.float32), params)
    return params, WordTables(words.idf, graph_table(words, config.graphs))


def pairs():
    rng = generator("pairs")
    found = []
    for number in range(12):
        query = rng.integers(1, 41, 1 + number % 6)
        document = rng.integers(1, 41, 1 + (5 * number) % 20)
        document[: len(query)] = query[: len(document)]
        found.append((query, rng.permutation(document)))
    return found


def padded(found, query_length, document_length):
    query, document = np.zeros((len(found), query_length), np.int32), np.zeros((len(found), document_length), np.int32)
    for row, (q, d) in enumerate(found):
        query[row, : len(q)], document[row, : len(d)] = q, d
    return jnp.asarray(query), jnp.asarray(document)


def slow_score(config, params, query, document):
    words = vocabulary()
    if config.name == "knrm":
        return slow.knrm(params, query, document)
    if config.name == "conv_knrm":
        return slow.conv_knrm(params, query, document, 3)
    if config.name == "drmm":
        return slow.drmm(params, query, document, words.idf, 30)
    # The n-graphs in most documents count, once per occurrence in a word; here they are found by sorting.
    weight = {}
    for word, documents in zip(words.words, words.frequencies):
        for n in range(1, 6):
            for i in range(len(word) - n + 1):
                weight[word[i : i + n]] = weight.get(word[i : i + n], 0) + documents
    best = sorted(weight, key=lambda g: (-weight[g], g))[: config.graphs]
    of_word = {
        number: [best.index(w[i : i + n]) for n in range(1, 6) for i in range(len(w) - n + 1) if w[i : i + n] in best]
        for number, w in enumerate(words.words, 1)
    }
    return slow.duet(params, query, document, of_word, config.graphs, 6, 20, config.pool)


@pytest.mark.parametrize("name", SHAPES)
def test_scores_equal_a_loop_padding_changes_none_and_gradients_are_finite(name):
    config, found = SHAPES[name], pairs()
    params, known = model(config)
    score = jax.jit(lambda params, known, q, d: build(config).apply({"params": params}, q, d, known))
    expected = np.array([slow_score(config, params, q, d) for q, d in found])
    assert np.std(expected) > 0.03
    tight = np.asarray(score(params, known, *padded(found, 6, 20)))
    np.testing.assert_allclose(tight, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))
    # A single pair has fewer words than the vocabulary: DUET then computes per word of the batch.
    alone = np.concatenate([score(params, known, *padded([pair], 6, 20)) for pair in found[:3]])
    np.testing.assert_allclose(alone, tight[:3], rtol=0, atol=1e-6 * max(1.0, np.abs(tight).max()))
    wide = np.asarray(score(params, known, *padded(found, 9, 47)))
    np.testing.assert_allclose(wide, tight, rtol=0, atol=1e-6 * max(1.0, np.abs(tight).max()))
    with_empty = padded([*found[:4], (np.zeros(0, int), np.zeros(0, int))], 6, 20)
    gradients = jax.jit(jax.grad(lambda params: score(params, known, *with_empty).sum()))(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


@pytest.mark.parametrize("window", [1, 5, 8, 13])
def test_sliding_maxima_and_their_gradient(window):
    x = generator("sliding").standard_normal((2, 13, 3)).astype(np.float32)
    expected = np.stack([x[:, i : i + window].max(axis=1) for i in range(14 - window)], axis=1)
    np.testing.assert_array_equal(models.sliding_max(jnp.asarray(x), window), expected)
    weights = generator("weights").standard_normal(expected.shape).astype(np.float32)
    gradient = jax.grad(lambda x: jnp.sum(models.sliding_max(x, window) * weights))(jnp.asarray(x))
    slow = np.zeros_like(x)
    for b, i, f in np.ndindex(expected.shape):
        slow[b, i + np.argmax(x[b, i : i + window, f]), f] += weights[b, i, f]
    np.testing.assert_allclose(gradient, slow, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_scores_in_float32_are_not_tf32(name):
    """On a GPU or TPU, default products have 11 or 8 bits."""
    config = SHAPES[name]
    found = NeuralScorer(config, model(config)[0], vocabulary())
    texts = (jnp.ones((2, config.query_length), jnp.int32), jnp.ones((2, 8), jnp.int32))
    traced = str(jax.make_jaxpr(found._score)(found._params, *texts))
    products = traced.count("= dot_general[") + traced.count("= conv_general_dilated[")
    assert products and traced.count("Precision.HIGHEST") == 2 * products
