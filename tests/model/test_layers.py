"""Dropout (rate, independence, same bits on every mesh), word embeddings, and recomputation on GPUs (less memory)."""

from dataclasses import replace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.tree_util import tree_leaves
from scipy import stats

from harp_jax.model import cross_encoder, layers
from harp_jax.model.attention import Place
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders import bert
from harp_jax.model.layers import Dropout, random_words
from tests.support.tiny_bert import CONFIG, PAIRS, pair_batch, random_params, small_tokenizer

PARAMS = random_params(CONFIG)
BATCH = pair_batch(small_tokenizer(CONFIG.vocab_size), PAIRS)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_words_are_uniform_and_independent_of_their_neighbours(impl):
    words = np.asarray(random_words(jax.random.key(3, impl=impl), (64, 96, 128)))
    assert words.dtype == np.uint16
    counts = np.bincount(words.ravel() >> 8, minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-3
    kept = words >= 6554
    # The four numbers of one call are a quarter of the last axis apart; neighbours come from different calls.
    for shift in (1, 32, 64, 96):
        table = np.histogram2d(kept[..., :-shift].ravel(), kept[..., shift:].ravel(), 2)[0]
        assert stats.chi2_contingency(table).pvalue > 1e-3


def test_keeps_the_mean_and_drops_the_configured_fraction():
    x = np.ones((256, 512), np.float32)
    out = np.asarray(Dropout(0.1).apply({}, x, False, rngs={"dropout": jax.random.key(0)}))
    assert (out == 0).mean() == pytest.approx(0.1, abs=0.004) and out.mean() == pytest.approx(1.0, abs=0.005)
    assert np.unique(out).size == 2
    np.testing.assert_array_equal(Dropout(0.1).apply({}, x, True), x)


def test_bits_do_not_depend_on_the_mesh():
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    draw = lambda: random_words(jax.random.key(1, impl="threefry2x32"), (16, 24, 64))  # noqa: E731
    whole = jax.jit(draw)()
    for spec in (P("data"), P("data", None, "model")):
        sharded = jax.jit(draw, out_shardings=NamedSharding(mesh, spec))()
        np.testing.assert_array_equal(sharded, whole)


def test_a_gpu_stores_less_and_computes_the_same(monkeypatch):
    batch = jax.tree.map(jnp.asarray, BATCH | {"cls_offset": np.zeros((len(PAIRS), 1), np.int32)})
    positions = jnp.asarray([[1, 3, 5]] * len(PAIRS))
    targets = jnp.take_along_axis(batch["tokens"], positions, axis=1)
    model, params = Ranker(CONFIG), jax.tree.map(jnp.asarray, PARAMS)

    def loss(params):
        def both(ranker):
            scores, picked = ranker.scored(batch, positions)
            return ranker.mlm_losses(picked, targets)[0].mean() + scores.mean()

        return model.apply({"params": params}, method=both)

    def measured():
        stored = sum(
            x.size * x.dtype.itemsize for x in tree_leaves(jax.eval_shape(lambda p: jax.vjp(loss, p)[1], params))
        )
        return stored, *jax.jit(jax.value_and_grad(loss))(params)

    stored, value, slopes = measured()
    for module in (layers, cross_encoder):
        monkeypatch.setattr(module, "place_of", lambda x: Place(None, "gpu", "NVIDIA H100"))
    less, same, gradients = measured()
    assert less < 0.8 * stored
    np.testing.assert_allclose(same, value, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), gradients, slopes)


@pytest.mark.parametrize(("biased", "dtype", "apart"), [(False, "float32", 1e-5), (True, "bfloat16", 1e-2)])
def test_the_layer_norm_of_gpus_is_that_of_flax(biased, dtype, apart):
    """In its recomputed form, as with remat."""
    rng = np.random.default_rng(0)
    x, slopes = (jnp.asarray(rng.normal(1, 3, (3, 7, 33)), dtype) for _ in range(2))
    norm = nn.LayerNorm(epsilon=1e-5, use_bias=biased, use_fast_variance=False, dtype=dtype)
    params = {"scale": rng.normal(size=33).astype(np.float32), "bias": rng.normal(size=33).astype(np.float32)}
    params = params if biased else {"scale": params["scale"]}
    theirs = jax.vjp(lambda x, p: norm.apply({"params": p}, x), x, params)
    ours = jax.vjp(jax.checkpoint(lambda x, p: layers.normalised(x, p["scale"], p.get("bias"), 1e-5)), x, params)
    for a, b in zip(jax.tree.leaves((ours[0], ours[1](slopes))), jax.tree.leaves((theirs[0], theirs[1](slopes)))):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.astype("float32"), b.astype("float32"), rtol=apart, atol=apart)


def test_an_encoder_drops_by_the_key_and_near_a_rate_of_0_its_attention_is_that_without_dropout():
    def apply(key, config=CONFIG):
        rngs = {"dropout": jax.random.key(key)}
        return Ranker(config).apply({"params": PARAMS}, BATCH, False, method="encode", rngs=rngs)

    assert np.abs(apply(0) - apply(1)).max() > 0.1
    np.testing.assert_array_equal(apply(0), apply(0))
    expected = Ranker(CONFIG).apply({"params": PARAMS}, BATCH, method="encode")
    real = BATCH["segment_ids"] > 0
    found = apply(0, replace(CONFIG, dropout=0.0, attention_dropout=1e-9))
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
