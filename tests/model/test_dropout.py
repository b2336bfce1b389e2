"""Dropout: the configured fraction, independent elements, the same bits on every mesh."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from scipy import stats

from harp_jax.model.layers import Dropout, random_words


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_words_are_uniform_and_independent_of_their_neighbours(impl):
    words = np.asarray(random_words(jax.random.key(3, impl=impl), (64, 96, 128)))
    assert words.dtype == np.uint16
    counts = np.bincount(words.ravel() >> 8, minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-3
    kept = words >= 6554
    # The four numbers of one call are a quarter of the last axis apart; neighbours are from different calls.
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
