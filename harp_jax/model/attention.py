"""Attention within the segments of a packed row, behind one function; the implementation is chosen by config.

    "xla"     plain batched products: every backend, every dtype, the only one that can drop attention weights
    "cudnn"   NVIDIA's fused kernel: GPU, bfloat16 or float16
    "splash"  JAX's Pallas kernel (splash.py): TPU, bfloat16 or float32, rows of a multiple of 128 tokens
    "auto"    "cudnn" on GPU in 16 bits, "splash" on TPU where it can, else "xla"

Why these defaults: on CPU "xla" is the only one, arranged as `_products` says. On GPU cuDNN never writes the scores to
memory, and the textbook products move rows × heads × T² of them several times a layer.

On TPU no time was measured: none was at hand. Compiled for eight cores (configs/tpu_v3.py, 64 rows × 512, bfloat16, libtpu
0.0.51), a step with "splash" instead of "xla" needs 2,859 instead of 3,179 MiB of temporaries a core on v3 and 2,406
instead of 3,147 on v5e, and by XLA's estimate reads and writes 19.1 instead of 23.8 GB a core on v3 and 37.8 instead of
49.7 on v5e, the same collectives both times; its backward pass computes the scores once more, 7 products of T² for 6. So
"auto" takes it. Measure both with `benchmarks/step.py --attention=…` before a long run.

Attention dropout: none by default, so that all implementations train the same model; hidden states are dropped as in
BERT. Kernels have no dropout of the weights, so asking for both is refused (`BertConfig`), and "auto" then is "xla".
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh

from harp_jax.errors import InputError
from harp_jax.model import splash

IMPLEMENTATIONS = ("auto", "xla", "cudnn", "splash")


class Place(NamedTuple):
    """Where an array lies, or will lie once the program is compiled: the mesh (None: one device), and its devices."""

    mesh: AbstractMesh | None
    platform: str  # "cpu", "gpu", "tpu"
    kind: str  # such as "TPU v3"


def place_of(x: jax.Array) -> Place:
    """The mesh of `x`, which may be of devices that are not here (a dry run), else the default device."""
    mesh = jax.typeof(x).sharding.mesh
    device = None if mesh.empty else mesh.abstract_device
    if device is None:
        first = jax.devices()[0]
        return Place(None, first.platform, first.device_kind)
    return Place(mesh, device.platform, device.device_kind)


def choose(implementation: str, dtype: str, drops: bool, platform: str, length: int) -> str:
    """The implementation that "auto" stands for on a platform ("cpu", "gpu", "tpu") and rows of `length` tokens.

    Others stand for themselves; InputError for a kernel on a platform that it is not made for.
    """
    if implementation == "auto":
        if platform == "tpu" and splash.fits(length, dtype) and not drops:
            return "splash"
        return "cudnn" if platform == "gpu" and dtype in ("bfloat16", "float16") and not drops else "xla"
    wanted = {"cudnn": "gpu", "splash": "tpu"}.get(implementation, platform)
    if platform != wanted and not (implementation == "splash" and splash.INTERPRET):
        raise InputError(
            f"model.attention={implementation!r} is a kernel for {wanted.upper()}s, and this runs on {platform.upper()}; "
            "set model.attention='auto'"
        )
    return implementation


def attend(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    asking: jax.Array,
    segments: jax.Array,
    implementation: str,
    drop: Callable[[jax.Array], jax.Array] = lambda weights: weights,
) -> jax.Array:
    """softmax(q·kᵀ/√d)·v over the keys of the same segment: [rows, Q, heads, head_dim], of v's dtype.

    q: [rows, Q, heads, head_dim], k and v: [rows, T, heads, head_dim]; asking [rows, Q] and segments [rows, T] int32 are
    the segments of the queries and of the keys. Padding is a segment too, so that no row of the softmax is empty.
    "splash" takes all tokens of a row as queries: `asking` is `segments`.
    """
    if implementation == "splash":
        place = place_of(q)
        return splash.attend(q, k, v, segments, place.mesh, place.kind)
    mask = (asking[:, :, None] == segments[:, None, :])[:, None]
    if implementation == "cudnn":
        return jax.nn.dot_product_attention(q, k, v, mask=mask, implementation="cudnn")
    return _products(q, k, v, mask, drop)


def _products(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array, drop: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """Not dot_product_attention: its softmax is float32 even where everything else is float64.

    Heads go before tokens, queries are scaled rather than scores, and the division by the softmax's sum comes last: XLA
    on CPU then runs plain batched matrix products, and the forward pass takes 23 to 33 ms instead of 90 (16 × 256 tokens,
    12 heads of 32, 2 cores).
    """
    wide = jnp.promote_types(q.dtype, jnp.float32)
    q = (q / jnp.sqrt(jnp.asarray(q.shape[-1], wide))).astype(q.dtype)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    logits = jnp.einsum("rhtd,rhsd->rhts", q, k, preferred_element_type=wide)
    logits += jnp.where(mask, 0.0, -1e30).astype(wide)
    weights = jnp.exp(logits - lax.stop_gradient(logits.max(-1, keepdims=True)))
    mixed = jnp.einsum("rhts,rhsd->rhtd", drop(weights).astype(v.dtype), v, preferred_element_type=wide)
    return jnp.swapaxes(mixed / weights.sum(-1)[..., None], 1, 2).astype(v.dtype)


def probabilities(q: jax.Array, k: jax.Array, asking: jax.Array, segments: jax.Array) -> jax.Array:
    """The softmax itself, [rows, heads, Q, T] float32 at least: what term weights are read from."""
    wide = jnp.promote_types(q.dtype, jnp.float32)
    logits = jnp.einsum("rthd,rshd->rhts", q, k, preferred_element_type=wide) / jnp.sqrt(jnp.asarray(q.shape[-1], wide))
    mask = (asking[:, :, None] == segments[:, None, :])[:, None]
    return jax.nn.softmax(jnp.where(mask, logits, jnp.finfo(wide).min), axis=-1)
