"""BERT with dropout, and its word embeddings in bfloat16; tests/model/test_encoders.py compares it with torch."""

from dataclasses import replace

import jax
import numpy as np

from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders import bert
from tests.support import tiny_bert
from tests.support.tiny_bert import PAIRS, pair_batch, random_params, small_tokenizer

CONFIG = replace(tiny_bert.CONFIG, vocab_size=46)
PARAMS = random_params(CONFIG)
BATCH = pair_batch(small_tokenizer(), PAIRS)


def test_dropout_unless_deterministic():
    @jax.jit
    def apply(key):
        rngs = {"dropout": jax.random.key(key)}
        return Ranker(CONFIG).apply({"params": PARAMS}, BATCH, False, method="encode", rngs=rngs)

    assert np.abs(apply(0) - apply(1)).max() > 0.1
    np.testing.assert_array_equal(apply(0), apply(0))


def test_attention_dropout_off_and_on():
    """The code path with dropout of attention weights computes the same attention: a rate near 0 changes nothing."""
    near, rngs = replace(CONFIG, dropout=0.0, attention_dropout=1e-9), {"dropout": jax.random.key(0)}
    found = Ranker(near).apply({"params": PARAMS}, BATCH, False, method="encode", rngs=rngs)
    expected = Ranker(CONFIG).apply({"params": PARAMS}, BATCH, method="encode")
    real = BATCH["segment_ids"] > 0
    np.testing.assert_allclose(found[real], expected[real], rtol=0, atol=1e-5)


def test_bfloat16_sums_the_gradient_of_a_frequent_word_in_float32():
    rng = np.random.default_rng(0)
    tokens, positions = np.full((64, 64), 7, np.int32), np.tile(np.arange(64), (64, 1))
    direction = rng.normal(1, 1, (64, 64, CONFIG.hidden)).astype(np.float32)
    grads = {}
    for dtype in ("float32", "bfloat16"):
        layer = bert.Embeddings(replace(CONFIG.computing_in(dtype), max_positions=64))
        params = layer.init(jax.random.key(0), tokens, positions, tokens * 0, True)
        loss = lambda p, layer=layer: (layer.apply(p, tokens, positions, tokens * 0, True) * direction).sum()  # noqa: E731
        grads[dtype] = np.asarray(jax.grad(loss)(params)["params"]["word"]["embedding"][7])
    np.testing.assert_allclose(grads["bfloat16"], grads["float32"], rtol=0, atol=0.01 * np.abs(grads["float32"]).max())
