"""Attention against its definition, and the TPU kernel, interpreted on CPU: values, gradients, meshes, the whole step."""

from dataclasses import replace

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding

from harp_jax.base.errors import InputError
from harp_jax.model import attention, sharding
from harp_jax.model.attention import attend, choose
from harp_jax.model.cross_encoder import Ranker
from tests.support.tiny_bert import CONFIG, random_params


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setattr(attention, "INTERPRET", True)


def packed_segments(rows: int, length: int) -> np.ndarray:
    """[rows, length] int32: six segments per row, of 6 % to 55 % of it."""
    return np.sort((6 * np.random.default_rng(0).random((rows, length)) ** 3).astype(np.int32), axis=1)


def case(rows: int, length: int, heads: int, head_dim: int) -> tuple:
    """q, k, v, a cotangent ("direction") for gradients, float64, and segments."""
    rng = np.random.default_rng(1)
    shape = (rows, length, heads, head_dim)
    return *(rng.normal(0, 2, shape) for _ in range(4)), packed_segments(rows, length)


def value_and_grads(
    implementation: str, dtype: str, q, k, v, direction, segments, reach: int = 0, place=lambda x: x
) -> list[np.ndarray]:
    """Attention, and the gradients of its product with `direction` with respect to q, k and v, as float64."""
    q, k, v = (place(jnp.asarray(x, dtype)) for x in (q, k, v))

    def mixed(q, k, v):
        out = attend(q, k, v, segments, segments, implementation, reach=reach)
        return (out.astype("float32" if dtype == "bfloat16" else dtype) * direction).sum(), out

    segments = place(jnp.asarray(segments))
    direction = place(jnp.asarray(direction, "float32" if dtype == "bfloat16" else dtype))
    (_, out), grads = jax.jit(jax.value_and_grad(mixed, (0, 1, 2), has_aux=True))(q, k, v)
    assert out.dtype == dtype
    return [np.asarray(x).astype(np.float64) for x in (out, *grads)]


def exact(q, k, v, direction, segments, reach: int = 0) -> list[np.ndarray]:
    """Softmax attention by definition, and its gradients, in float64 numpy; `reach` 0: at any distance."""
    places = np.arange(segments.shape[1])
    near = np.abs(places[:, None] - places) <= (reach or len(places))
    mask = (near & (segments[:, :, None] == segments[:, None, :]))[:, None]
    scale = 1 / np.sqrt(q.shape[-1])
    logits = np.where(mask, np.einsum("rthd,rshd->rhts", q, k) * scale, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    dw = np.einsum("rthd,rshd->rhts", direction, v)
    ds = weights * (dw - (weights * dw).sum(-1, keepdims=True)) * scale
    out = np.einsum("rhts,rshd->rthd", weights, v)
    dq, dk = np.einsum("rhts,rshd->rthd", ds, k), np.einsum("rhts,rthd->rshd", ds, q)
    return [out, dq, dk, np.einsum("rhts,rthd->rshd", weights, direction)]


@pytest.mark.parametrize(
    "implementation, dtype, length, reach, tolerance",
    [
        ("splash", "float32", 384, 0, 2e-6), ("splash", "float32", 1024, 0, 2e-6), ("xla", "float64", 24, 0, 2e-14),
        # In blocks, which need not divide the row; in the kernel, 3 blocks have one backward kernel, 7 have two.
        ("xla", "float64", 250, 5, 2e-14), ("xla", "float64", 384, 70, 2e-14),
        ("splash", "float32", 384, 70, 2e-6), ("splash", "float32", 896, 70, 2e-6),
    ],
)  # fmt: skip
def test_equals_the_definition(interpreted, implementation, dtype, length, reach, tolerance):
    arrays = case(2, length, 1, 64)
    with jax.enable_x64(dtype == "float64"):
        found = value_and_grads(implementation, dtype, *arrays, reach)
    for mine, expected in zip(found, exact(*arrays, reach)):
        np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_bfloat16_is_as_exact_as_plain_products(interpreted):
    arrays = case(2, 256, 2, 64)
    expected = exact(*arrays)
    plain, kernel = (value_and_grads(name, "bfloat16", *arrays) for name in ("xla", "splash"))
    for a, b, e in zip(kernel, plain, expected):
        assert np.abs(a - e).mean() <= 1.25 * np.abs(b - e).mean()


def test_rows_and_heads_are_sharded_without_communication(interpreted):
    arrays = case(8, 128, 4, 16)
    mesh = jax.make_mesh((2, 2, 2), sharding.AXES, axis_types=(AxisType.Auto,) * 3)
    heads = jax.sharding.PartitionSpec(*sharding.BATCH, None, "model")
    place = lambda x: jax.device_put(x, NamedSharding(mesh, heads if x.ndim == 4 else sharding.BATCH))  # noqa: E731
    whole = value_and_grads("splash", "float32", *arrays)
    for found, expected in zip(value_and_grads("splash", "float32", *arrays, place=place), whole):
        np.testing.assert_array_equal(found, expected)
    q, k, v, _, segments = (place(jnp.asarray(x, "int32" if x.ndim == 2 else "float32")) for x in arrays)
    grad = jax.jit(jax.grad(lambda q, k, v, s: attend(q, k, v, s, s, "splash").sum(), (0, 1, 2)))
    text = grad.lower(q, k, v, segments).compile().as_text()
    assert not [kind for kind in ("all-reduce", "all-gather", "all-to-all", "collective-permute") if kind in text]


def test_encoder_gradients_are_the_same_for_every_remat_policy(interpreted):
    """The parameters' shapes come from 8 tokens in float32, which the kernel does not support."""
    config = replace(CONFIG, max_positions=128, hidden=32, heads=2, attention="splash")
    params, segments = random_params(config), packed_segments(2, 128)
    tokens = np.random.default_rng(0).integers(0, 46, (2, 128)).astype(np.int32)
    positions = np.tile(np.arange(128, dtype=np.int32), (2, 1))
    batch = {"tokens": tokens, "segment_ids": segments, "position_ids": positions, "token_type_ids": tokens % 2}

    def gradient(config):
        loss = lambda p: (Ranker(config).apply({"params": p}, batch, method="encode")[..., :4] ** 2).sum()  # noqa: E731
        return jax.jit(jax.grad(loss))(params)

    expected = gradient(replace(config, attention="xla"))
    for remat in ("none", "dots", "layer"):
        found = gradient(replace(config, remat=remat))
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * max(np.abs(b).max(), 1), err_msg=remat)


def test_kernel_by_platform_dtype_and_length():
    assert (
        choose("auto", "bfloat16", False, "gpu", 512) == "cudnn"
        and choose("auto", "float32", False, "gpu", 512) == "xla"
    )
    assert choose("auto", "float32", False, "tpu", 512) == "splash"
    assert choose("auto", "bfloat16", True, "tpu", 512) == choose("auto", "bfloat16", False, "tpu", 100) == "xla"
    with pytest.raises(InputError, match="rows of a multiple of 128 tokens, not TPU and float32 rows of 100"):
        choose("splash", "float32", False, "tpu", 100)
    with pytest.raises(InputError, match="needs a GPU, not CPU"):
        choose("cudnn", "bfloat16", False, "cpu", 512)
