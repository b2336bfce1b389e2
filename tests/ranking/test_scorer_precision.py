"""Scores that are compared are of float32 products on every device, if float32 was asked for."""

import jax
import jax.numpy as jnp
import pytest

from harp_jax.ranking.scorers import CrossEncoderScorer
from tests.support.tiny_bert import CONFIG, random_params, small_tokenizer


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_float32_is_not_tf32(dtype):
    config = CONFIG.computing_in(dtype)
    scorer = CrossEncoderScorer(config, random_params(config), small_tokenizer(config.vocab_size))
    tokens, ends = jnp.ones((2, 8), jnp.int32), jnp.full(2, 8)
    traced = str(jax.make_jaxpr(scorer._score)(scorer._params, tokens, ends, ends))
    products, exact = traced.count("= dot_general["), traced.count("Precision.HIGHEST")
    assert products and bool(exact) == (dtype == "float32") and exact in (0, 2 * products)
