"""Dropout (rate, independence, same bits on every mesh), embeddings, recomputation on GPUs, dense layers on CPUs."""

from dataclasses import replace

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from scipy import stats

from harp_jax.model import cross_encoder, layers
from harp_jax.model.attention import Place
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders import bert
from harp_jax.model.layers import Dropout, random_words
from harp_jax.model.products import dot_general
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


def test_bits_do_not_depend_on_the_mesh():
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    draw = lambda: random_words(jax.random.key(1, impl="threefry2x32"), (16, 24, 64))  # noqa: E731
    whole = jax.jit(draw)()
    sharded = jax.jit(draw, out_shardings=NamedSharding(mesh, P("data", None, "model")))()
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
        stored = jax.tree.leaves(jax.eval_shape(lambda p: jax.vjp(loss, p)[1], params))
        return sum(x.size * x.dtype.itemsize for x in stored), *jax.jit(jax.value_and_grad(loss))(params)

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
    params = {name: rng.normal(size=33).astype(np.float32) for name in ("scale", "bias")[: 1 + biased]}
    theirs = jax.vjp(lambda x, p: norm.apply({"params": p}, x), x, params)
    ours = jax.vjp(jax.checkpoint(lambda x, p: layers.normalised(x, p["scale"], p.get("bias"), 1e-5)), x, params)
    for a, b in zip(jax.tree.leaves((ours[0], ours[1](slopes))), jax.tree.leaves((theirs[0], theirs[1](slopes)))):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.astype("float32"), b.astype("float32"), rtol=apart, atol=apart)


def test_an_encoder_drops_by_the_key_and_near_a_rate_of_0_its_attention_is_that_without_dropout():
    def apply(config, *keys):
        rngs = {"dropout": jax.random.key(*keys)} if keys else {}
        return Ranker(config).apply({"params": PARAMS}, BATCH, not keys, method="encode", rngs=rngs)

    assert np.abs(apply(CONFIG, 0) - apply(CONFIG, 1)).max() > 0.1
    found, real = apply(replace(CONFIG, dropout=0.0, attention_dropout=1e-9), 0), BATCH["segment_ids"] > 0
    np.testing.assert_allclose(found[real], apply(CONFIG)[real], rtol=0, atol=1e-5)


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


CASES = {  # shape of lhs, shape of rhs, number of contracted dimensions
    "rows": ((3, 5, 16), (16, 8), 1),
    "to heads": ((3, 5, 16), (16, 2, 4), 1),
    "from heads": ((3, 5, 2, 8), (2, 8, 4), 2),
}


@pytest.mark.parametrize("case", CASES)
def test_product_and_gradients_are_those_of_float64_within_bfloat16_and_nothing_is_transposed(case):
    left, right, contracted = CASES[case]
    rng = np.random.default_rng(0)
    lhs, rhs = (jnp.asarray(rng.normal(size=shape), "bfloat16") for shape in (left, right))
    numbers = ((tuple(range(len(left) - contracted, len(left))), tuple(range(contracted))), ((), ()))
    out, pullback = jax.vjp(lambda x, w: dot_general(x, w, numbers), lhs, rhs)
    assert out.dtype == jnp.float32
    weights = rng.normal(size=out.shape)
    found = pullback(jnp.asarray(weights, jnp.float32))
    with jax.enable_x64(True):
        exact = [jnp.asarray(np.asarray(x, np.float64)) for x in (lhs, rhs)]
        expected, slow = jax.vjp(lambda x, w: lax.dot_general(x, w, numbers), *exact)
        slopes = slow(jnp.asarray(weights))
    np.testing.assert_allclose(np.asarray(out, np.float64), expected, rtol=1e-5, atol=1e-5)  # the factors are exact
    for mine, theirs, factor in zip(found, slopes, (lhs, rhs)):
        assert mine.dtype == factor.dtype and mine.shape == factor.shape
        np.testing.assert_allclose(np.asarray(mine, np.float64), theirs, rtol=0.02, atol=0.02 * np.abs(theirs).max())
    loss = lambda x, w: jnp.sin(dot_general(jnp.tanh(x), w, numbers)).sum()  # noqa: E731
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(lhs.astype("float32"), rhs.astype("float32"))
    text = gradient.compile().as_text()
    assert " dot(" in text and " transpose(" not in text and " copy(" not in text
