"""Attention within the segments of a packed row, behind one function; the implementation is chosen by config.

    "xla"     plain batched products: every backend, every dtype, the only one that can drop attention weights
    "cudnn"   NVIDIA's fused kernel: GPU, bfloat16 or float16
    "auto"    "cudnn" on GPU in 16 bits, else "xla"

Why these defaults: on CPU "xla" is the only one, arranged as `_products` says. On GPU cuDNN never writes the scores to
memory, and the textbook products move rows × heads × T² of them several times a layer. On TPU the same products are what
XLA tiles best without a kernel that has to be compiled for each generation and mapped over the mesh by hand; at 512 tokens
they are about a tenth of BERT-base's FLOPs. Only the CPU's is measured; compare the others with `benchmarks/step.py
--attention=…` on the machine at hand before a long run.

Attention dropout: none by default, so that all implementations train the same model; hidden states are dropped as in
BERT. cuDNN has no dropout of the weights, so asking for both is refused (`BertConfig`), and "auto" then is "xla".
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

IMPLEMENTATIONS = ("auto", "xla", "cudnn")


def choose(implementation: str, dtype: str, drops: bool, backend: str) -> str:
    """The implementation that "auto" stands for on a backend ("cpu", "gpu", "tpu"); others stand for themselves."""
    if implementation != "auto":
        return implementation
    return "cudnn" if backend == "gpu" and dtype in ("bfloat16", "float16") and not drops else "xla"


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
    """
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
