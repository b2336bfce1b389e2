"""Dense layers on CPUs: gradients without transposed copies; bfloat16 factors and their results; where bfloat16 is the default."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from harp_jax.model.products import dot_general, fastest_dtype

CASES = {  # shape of lhs, shape of rhs, number of contracted dimensions
    "rows": ((6, 16), (16, 8), 1),
    "packed rows": ((3, 5, 16), (16, 8), 1),
    "to heads": ((3, 5, 16), (16, 2, 4), 1),
    "from heads": ((3, 5, 2, 8), (2, 8, 4), 2),
}


def operands(case: str, dtype) -> tuple:
    left, right, contracted = CASES[case]
    rng = np.random.default_rng(0)
    lhs, rhs = (jnp.asarray(rng.normal(size=shape), dtype) for shape in (left, right))
    numbers = ((tuple(range(len(left) - contracted, len(left))), tuple(range(contracted))), ((), ()))
    return lhs, rhs, numbers


@pytest.mark.parametrize("case", CASES)
def test_product_and_gradients_are_those_of_float64_within_bfloat16(case):
    lhs, rhs, numbers = operands(case, jnp.bfloat16)
    out, pullback = jax.vjp(lambda x, w: dot_general(x, w, numbers), lhs, rhs)
    assert out.dtype == jnp.float32
    weights = np.random.default_rng(1).normal(size=out.shape)
    found = pullback(jnp.asarray(weights, jnp.float32))
    with jax.enable_x64(True):
        exact = [jnp.asarray(np.asarray(x, np.float64)) for x in (lhs, rhs)]
        expected, slow = jax.vjp(lambda x, w: lax.dot_general(x, w, numbers), *exact)
        slopes = slow(jnp.asarray(weights))
    np.testing.assert_allclose(np.asarray(out, np.float64), expected, rtol=1e-5, atol=1e-5)  # the factors are exact
    for mine, theirs, factor in zip(found, slopes, (lhs, rhs)):
        assert mine.dtype == factor.dtype and mine.shape == factor.shape
        np.testing.assert_allclose(np.asarray(mine, np.float64), theirs, rtol=0.02, atol=0.02 * np.abs(theirs).max())


@pytest.mark.parametrize("case", CASES)
def test_no_factor_of_a_gradient_is_written_transposed(case):
    lhs, rhs, numbers = operands(case, jnp.float32)
    loss = lambda x, w: jnp.sin(dot_general(jnp.tanh(x), w, numbers)).sum()  # noqa: E731
    text = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(lhs, rhs).compile().as_text()
    assert " dot(" in text and " transpose(" not in text and " copy(" not in text


def test_auto_is_bfloat16_where_it_is_multiplied(monkeypatch):
    assert [fastest_dtype(platform) for platform in ("tpu", "gpu")] == ["bfloat16", "bfloat16"]
    for flags, dtype in (
        ("GenuineIntel\nflags: fma avx512f avx512_bf16 amx_bf16 amx_tile", "bfloat16"),
        ("AuthenticAMD\nflags: fma avx512f avx512_bf16", "bfloat16"),
        ("GenuineIntel\nflags: fma avx512f avx512_bf16", "float32"),
        ("AuthenticAMD\nflags: fma avx512f avx512_bf160 avx512_fp16", "float32"),
    ):
        monkeypatch.setattr("builtins.open", lambda *_, flags=flags: io.StringIO(f"vendor_id\t: {flags}\n"))
        assert fastest_dtype("cpu") == dtype
