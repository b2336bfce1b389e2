"""Splash attention, JAX's own Pallas kernel for TPUs: attention within segments whose scores never leave the chip.

Both directions and all segments of a row go through one kernel with a full mask and segment ids; the backward pass is one
kernel too and computes the scores again from q, k and the logarithm of the softmax's sum, which is all that is kept.

The partitioner cannot cut a kernel, so it runs under `shard_map`: each device takes its rows and its heads of the mesh
that the arrays lie on, which is what the projections' sharding gives it anyway, and nothing travels.
"""

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from harp_jax.errors import InputError
from harp_jax.model.sharding import BATCH

LANES = 128  # of a vector register: the kernel's blocks are multiples of it
BLOCK = 512  # queries and keys a block, at most: the scores of 512 × 512 fill a megabyte of the chip's memory

# Mosaic's matrix products take no bfloat16 factors there: "E2001 CompileTimeMosaicUnsupportedRhsType" (libtpu 0.0.51).
# Float32 ones lose nothing but memory traffic: these cores round factors to bfloat16 on their way in.
WIDE_FACTORS = ("TPU v2", "TPU v3")

# Tests set this: the kernel then runs on any backend, interpreted, thousands of times slower.
INTERPRET = False


def fits(length: int, dtype: str) -> bool:
    """Whether the kernel takes rows of `length` tokens computed in `dtype`."""
    return length % LANES == 0 and dtype in ("float32", "bfloat16")


def attend(
    q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array, mesh: AbstractMesh | None, kind: str
) -> jax.Array:
    """softmax(q·kᵀ/√d)·v within segments: [rows, T, heads, head_dim] as q, k and v, of v's dtype (float32 or bfloat16).

    segments: [rows, T] int32; padding is a segment like others. `mesh`: where the arrays lie, None on one device; axes
    other than the batch's and "model" see copies. `kind` is the device's. InputError where T is no multiple of 128.
    """
    if not fits(k.shape[1], v.dtype.name):
        raise InputError(
            f"model.attention='splash' takes float32 or bfloat16 rows of a multiple of {LANES} tokens, not {v.dtype.name} "
            f"ones of {k.shape[1]}; change row_length or dtype, or set model.attention='auto' or 'xla'"
        )
    factors = jnp.dtype("float32") if kind.startswith(WIDE_FACTORS) else v.dtype
    # The kernel has no scale of its own. In float32, and rounded once, as `_products` does it.
    q = q.astype(jnp.float32) / jnp.sqrt(jnp.float32(q.shape[-1]))
    parts = (q.astype(v.dtype).astype(factors), k.astype(factors), v.astype(factors), segments)
    if mesh is None:
        return _kernel(*parts).astype(v.dtype)
    rows, heads = (_present(mesh, axes) for axes in (BATCH[0], "model"))
    cut = P(rows, None, heads, None)
    # The kernel's outputs do not say over which axes they vary, so the check of that is off.
    over_mesh = jax.shard_map(_kernel, mesh=mesh, in_specs=(cut, cut, cut, P(rows)), out_specs=cut, check_vma=False)
    return over_mesh(*parts).astype(v.dtype)


def _present(mesh: AbstractMesh, axes: str | tuple[str, ...]) -> tuple[str, ...] | None:
    """Those of the axes that a mesh has: the term weights' has "data" alone."""
    return tuple(axis for axis in ((axes,) if isinstance(axes, str) else axes) if axis in mesh.axis_names) or None


def _kernel(q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array) -> jax.Array:
    """One device's part, [rows, T, heads, head_dim]; q is scaled."""
    # Imported here: Pallas takes half a second, and only TPUs need it.
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    length, heads = q.shape[1], q.shape[2]
    block = next(size for size in (BLOCK, BLOCK // 2, LANES) if length % size == 0)
    # One backward kernel: with a row in one block it computes five products instead of the seven of two kernels.
    sizes = splash.BlockSizes(block, block, block, block, block, block, use_fused_bwd_kernel=True)
    every = masks.MultiHeadMask([masks.FullMask((length, length))] * heads)
    one_row = splash.make_splash_mha_single_device(every, block_sizes=sizes, interpret=INTERPRET)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    mixed = jax.vmap(lambda q, k, v, ids: one_row(q, k, v, splash.SegmentIds(ids, ids)))(q, k, v, segments)
    return jnp.swapaxes(mixed, 1, 2)
