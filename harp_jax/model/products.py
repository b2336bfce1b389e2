"""Dense layers on CPUs: their gradients without transposed copies, and float32 results of bfloat16 factors (AMX).

JAX computes the gradient of a kernel as a product over two dimensions of rows, and transposes it. XLA then writes a transposed
factor, and in that loop, against memory order, recomputes everything that the factor consists of: in ModernBERT the sum of the
gradients of all layers above. Here both factors are matrices, and nothing is transposed. A product of bfloat16 factors with a
float32 result uses AMX, one with a bfloat16 result XLA's own loops (`benchmarks/step.py --dtype=bfloat16`); what is between the
products stays in float32, which a CPU computes faster than bfloat16 anyway.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from harp_jax.model.attention import place_of

# Linux's names for processors that multiply bfloat16 faster than float32: with tiles (AMX), and AMD's with 512-bit registers.
# Intel's with registers are slower.
TILES, REGISTERS = "amx_bf16", {"avx512_bf16", "AuthenticAMD"}

Dimensions = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def fastest_dtype(platform: str) -> str:
    """What dtype "auto" stands for on "cpu", "gpu" or "tpu": bfloat16 where the hardware multiplies it, else float32."""
    if platform != "cpu":
        return "bfloat16"
    try:
        with open("/proc/cpuinfo") as file:
            words = set(file.read().split())
    except OSError:
        return "float32"
    return "bfloat16" if TILES in words or words >= REGISTERS else "float32"


def dot_general(
    lhs: jax.Array, rhs: jax.Array, dimension_numbers: Dimensions, precision: Any = None, **options: Any
) -> jax.Array:
    """`lax.dot_general` for Flax's dense layers; on a CPU at least float32, even if both factors are bfloat16. Both gradients are
    then products of bfloat16 factors too: the cotangent is rounded to bfloat16 first, as on a TPU."""
    (contracted, first), (lhs_batch, rhs_batch) = dimension_numbers
    dense = tuple(contracted) == tuple(range(lhs.ndim - len(contracted), lhs.ndim))
    dense = dense and tuple(first) == tuple(range(len(contracted))) and not lhs_batch and not rhs_batch
    alike = lhs.dtype == rhs.dtype != jnp.float16
    # The parameter knows its mesh. cuDNN's result does not, and in a dry run it would seem to be on this machine's CPU.
    if dense and alike and place_of(rhs).platform == "cpu":
        return _dense(lhs, rhs, len(contracted))
    return lax.dot_general(lhs, rhs, dimension_numbers, precision=precision, **options)


def as_computed(product: jax.Array, factor: jax.Array) -> jax.Array:
    """A float32 product of bfloat16 factors, one of them `factor`, that XLA must not transpose while it multiplies. A transpose
    folded into the product moves it from the library to XLA's own loops, which do not support these types on a CPU: "UNIMPLEMENTED:
    Unsupported element type for DotThunk::Execute: BF16 x BF16 = F32". Elsewhere the product is returned unchanged."""
    narrow = factor.dtype == jnp.bfloat16 and place_of(factor).platform == "cpu"
    return lax.optimization_barrier(product) if narrow else product


def _product(lhs: jax.Array, rhs: jax.Array, left: int, right: int) -> jax.Array:
    """The sum over dimension `left` of the matrix lhs and `right` of rhs, at least float32."""
    wide = jnp.promote_types(lhs.dtype, jnp.float32)
    return as_computed(lax.dot_general(lhs, rhs, (((left,), (right,)), ((), ())), preferred_element_type=wide), lhs)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _dense(lhs: jax.Array, rhs: jax.Array, contracted: int) -> jax.Array:
    """The sum over the last `contracted` dimensions of lhs and the first of rhs."""
    rows, kernel = _matrices(lhs, rhs, contracted)
    return _product(rows, kernel, 1, 0).reshape(*lhs.shape[: lhs.ndim - contracted], *rhs.shape[contracted:])


def _matrices(lhs: jax.Array, rhs: jax.Array, contracted: int) -> tuple[jax.Array, jax.Array]:
    inner = math.prod(rhs.shape[:contracted])
    return lhs.reshape(-1, inner), rhs.reshape(inner, -1)


def _forward(lhs: jax.Array, rhs: jax.Array, contracted: int) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _dense(lhs, rhs, contracted), (lhs, rhs)


def _backward(contracted: int, factors: tuple[jax.Array, jax.Array], cotangent: jax.Array) -> tuple:
    lhs, rhs = factors
    rows, kernel = _matrices(lhs, rhs, contracted)
    rounded = cotangent.astype(lhs.dtype).reshape(len(rows), -1)
    to_lhs, to_rhs = _product(rounded, kernel, 1, 1), _product(rows, rounded, 0, 0)
    return to_lhs.reshape(lhs.shape).astype(lhs.dtype), to_rhs.reshape(rhs.shape).astype(rhs.dtype)


_dense.defvjp(_forward, _backward)
