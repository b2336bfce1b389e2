"""Splash attention, JAX's Pallas kernel for TPUs: attention within segments whose scores never leave the chip.

One kernel with a full mask and segment ids computes bidirectional attention for all segments of a row. The backward pass is
one kernel too: it recomputes the scores from q, k and the logarithm of the softmax's sum, which are all that is stored.

The partitioner cannot shard a kernel, so it runs under `shard_map`: each device computes its rows and heads, which the
projections' sharding already placed there; no communication is needed.
"""

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from harp_jax.base.errors import InputError
from harp_jax.model.sharding import BATCH

LANES = 128  # of a vector register; block sizes are multiples of it
BLOCK = 512  # maximum queries and keys per block: 512 × 512 scores fill a megabyte of the chip's memory

# Mosaic's matrix products do not accept bfloat16 factors there: "E2001 CompileTimeMosaicUnsupportedRhsType" (libtpu 0.0.51).
# Float32 factors only cost memory traffic: these cores round factors to bfloat16 anyway.
WIDE_FACTORS = ("TPU v2", "TPU v3")

# Set by tests: runs the kernel interpreted on any backend, thousands of times slower.
INTERPRET = False


def fits(length: int, dtype: str) -> bool:
    """Whether the kernel supports rows of `length` tokens computed in `dtype`."""
    return length % LANES == 0 and dtype in ("float32", "bfloat16")


def attend(
    q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array, mesh: AbstractMesh | None, kind: str
) -> jax.Array:
    """softmax(q·kᵀ/√d)·v within segments: [rows, T, heads, head_dim] like q, k and v, in v's dtype (float32 or bfloat16).

    segments: [rows, T] int32; padding is a segment like any other. `mesh`: of the arrays, None on one device; replicated
    over axes other than the batch's and "model". `kind`: of the device. Raises InputError unless T is a multiple of 128.
    """
    if not fits(k.shape[1], v.dtype.name):
        raise InputError(
            f"model.attention='splash' needs float32 or bfloat16 rows of a multiple of {LANES} tokens, not {v.dtype.name} "
            f"rows of {k.shape[1]}; change row_length or dtype, or set model.attention='auto' or 'xla'"
        )
    factors = jnp.dtype("float32") if kind.startswith(WIDE_FACTORS) else v.dtype
    # The kernel does not scale. Scaled in float32 and rounded once, as in `attention._products`.
    q = q.astype(jnp.float32) / jnp.sqrt(jnp.float32(q.shape[-1]))
    parts = (q.astype(v.dtype).astype(factors), k.astype(factors), v.astype(factors), segments)
    if mesh is None:
        return _kernel(*parts).astype(v.dtype)
    rows, heads = (_present(mesh, axes) for axes in (BATCH[0], "model"))
    spec = P(rows, None, heads, None)
    # The kernel does not declare over which axes its outputs vary, so check_vma is off.
    over_mesh = jax.shard_map(_kernel, mesh=mesh, in_specs=(spec, spec, spec, P(rows)), out_specs=spec, check_vma=False)
    return over_mesh(*parts).astype(v.dtype)


def _present(mesh: AbstractMesh, axes: str | tuple[str, ...]) -> tuple[str, ...] | None:
    """Those of the axes that the mesh has: the mesh for term weights has "data" only."""
    return tuple(axis for axis in ((axes,) if isinstance(axes, str) else axes) if axis in mesh.axis_names) or None


def _kernel(q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array) -> jax.Array:
    """One device's part, [rows, T, heads, head_dim]; q is already scaled."""
    # Imported here: Pallas takes half a second to import, and only TPUs need it.
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    length, heads = q.shape[1], q.shape[2]
    block = next(size for size in (BLOCK, BLOCK // 2, LANES) if length % size == 0)
    # One fused backward kernel: with a row in one block it computes five products, two kernels would compute seven.
    sizes = splash.BlockSizes(block, block, block, block, block, block, use_fused_bwd_kernel=True)
    every = masks.MultiHeadMask([masks.FullMask((length, length))] * heads)
    one_row = splash.make_splash_mha_single_device(every, block_sizes=sizes, interpret=INTERPRET)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    mixed = jax.vmap(lambda q, k, v, ids: one_row(q, k, v, splash.SegmentIds(ids, ids)))(q, k, v, segments)
    return jnp.swapaxes(mixed, 1, 2)
