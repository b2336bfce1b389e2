"""Attention within the segments of a packed row, behind one function; the config chooses the implementation.

    "xla"     plain batched matrix products: every backend and dtype; the only one with dropout of attention weights
    "cudnn"   NVIDIA's fused kernel: GPU, bfloat16 or float16; never writes the rows × heads × T² scores to memory
    "splash"  JAX's Pallas kernel: TPU, bfloat16 or float32, rows of a multiple of 128 tokens
    "auto"    "cudnn" on GPU in 16 bits, "splash" on TPU if it supports the rows, else "xla"

"splash" recomputes the scores in its backward pass: 7 products of T² instead of 6, but less memory and traffic. It has not been
timed on a TPU: measure both with `benchmarks/step.py --attention=…` before a long run.

Attention dropout is off by default, so that all implementations train the same model. The kernels do not support it:
`EncoderConfig` rejects the combination, and "auto" then selects "xla".
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from harp_jax.base.errors import InputError
from harp_jax.model.sharding import BATCH

LANES = 128  # size of a TPU's vector register; the block sizes of "splash" are multiples of it
BAND = 64  # minimum queries per block of local attention
BLOCK = 512  # maximum queries and keys per block: 512 × 512 scores fill a megabyte of the chip's memory
# On these, Mosaic's matrix products do not accept bfloat16 factors: "E2001 CompileTimeMosaicUnsupportedRhsType" (libtpu 0.0.51).
# Float32 factors only cost memory traffic: these cores round factors to bfloat16 anyway.
WIDE_FACTORS = ("TPU v2", "TPU v3")
INTERPRET = False  # set by tests: runs "splash" interpreted on any backend, thousands of times slower


Drop = Callable[[jax.Array], jax.Array]  # of attention weights


class Place(NamedTuple):
    """The devices that hold an array, possibly of a program that is only compiled: their mesh (None: one device) and kind."""

    mesh: AbstractMesh | None
    platform: str  # "cpu", "gpu", "tpu"
    kind: str  # such as "TPU v3"


def place_of(x: jax.Array) -> Place:
    """The mesh of `x`, possibly of devices that are not attached (a dry run), else the default device."""
    mesh = jax.typeof(x).sharding.mesh
    device = None if mesh.empty else mesh.abstract_device
    if device is None:
        first = jax.devices()[0]
        return Place(None, first.platform, first.device_kind)
    return Place(mesh, device.platform, device.device_kind)


def choose(implementation: str, dtype: str, drops: bool, platform: str, length: int) -> str:
    """Resolve "auto" for a platform ("cpu", "gpu", "tpu") and rows of `length` tokens; `drops`: attention weights are dropped.
    Returns other implementations unchanged. Raises InputError for a kernel that does not support the platform or the rows."""
    fits = length % LANES == 0 and dtype in ("float32", "bfloat16")  # for "splash"
    if implementation == "auto":
        if platform == "tpu" and fits and not drops:
            return "splash"
        return "cudnn" if platform == "gpu" and dtype in ("bfloat16", "float16") and not drops else "xla"
    needed = {
        "cudnn": ("gpu", "a GPU"),
        "splash": ("tpu", f"a TPU and float32 or bfloat16 rows of a multiple of {LANES} tokens"),
    }
    wanted, what = needed.get(implementation, (platform, ""))
    if (platform != wanted and not INTERPRET) or (implementation == "splash" and not fits):
        raise InputError(
            f"model.attention={implementation!r} needs {what}, not {platform.upper()} and {dtype} rows of {length}; "
            "set model.attention='auto'"
        )
    return implementation


def attend(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    query_segments: jax.Array,
    segments: jax.Array,
    implementation: str,
    drop: Drop = lambda weights: weights,
    reach: int = 0,
    at: jax.Array | None = None,
) -> jax.Array:
    """softmax(q·kᵀ/√d)·v over the keys of the same segment: [rows, Q, heads, head_dim], in v's dtype. q: [rows, Q, heads,
    head_dim]; k and v: [rows, T, heads, head_dim]; query_segments: [rows, Q] int32; segments (of the keys): [rows, T] int32.
    Padding is a segment too, so that no row of the softmax is empty. `drop` is applied to the unnormalised weights ("xla" only).
    "splash" requires all tokens of a row as queries: `query_segments` is `segments`. With `reach`, only over the keys that are at
    most `reach` tokens away, at a cost linear in T. `at` [rows, Q]: the queries' positions in the row (None: Q = T, all of
    them)."""
    if implementation == "splash":
        place = place_of(q)
        return splash(q, k, v, segments, place.mesh, place.kind, reach)
    if reach and at is None and q.shape[1] > 3 * max(reach, BAND):
        return _in_blocks(q, k, v, segments, implementation, drop, reach)
    mask = within(query_segments, segments, reach, at)[:, None]
    return _masked(q, k, v, mask, implementation, drop)


def within(query_segments: jax.Array, segments: jax.Array, reach: int, at: jax.Array | None) -> jax.Array:
    """Which keys a query attends to, [rows, Q, T] bool; arguments as in `attend`."""
    mask = query_segments[:, :, None] == segments[:, None, :]
    if reach:
        places = jnp.arange(segments.shape[1])
        near = jnp.abs((places[None] if at is None else at)[:, :, None] - places) <= reach
        mask &= near
    return mask


def _in_blocks(
    q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array, implementation: str, drop: Drop, reach: int
) -> jax.Array:
    """Local attention: each block of queries over its own keys and those of the blocks before and after it."""
    rows, length = segments.shape
    size = max(reach, BAND)
    blocks = -(-length // size)
    tail = blocks * size - length

    def split(x: jax.Array) -> jax.Array:
        return x.reshape(rows * blocks, size, *x.shape[2:])

    def around(x: jax.Array, outside: int = 0) -> jax.Array:
        """[rows * blocks, 3 * size, …]: for each block, x of it and its neighbours; `outside` fills positions beyond the row."""
        wide = [(0, 0), (size, tail + size), *((0, 0) for _ in x.shape[2:])]
        parts = jnp.pad(x, wide, constant_values=outside).reshape(rows, blocks + 2, size, *x.shape[2:])
        three = jnp.concatenate([parts[:, :-2], parts[:, 1:-1], parts[:, 2:]], axis=2)
        return three.reshape(rows * blocks, 3 * size, *x.shape[2:])

    def filled(x: jax.Array, value: int = 0) -> jax.Array:
        return jnp.pad(x, [(0, 0), (0, tail), *((0, 0) for _ in x.shape[2:])], constant_values=value)

    # Positions beyond the row are a separate segment, so that no query's softmax is empty.
    places = jnp.arange(size, 2 * size)[None]
    mask = within(split(filled(segments, -1)), around(segments, -1), reach, places)
    mixed = _masked(split(filled(q)), around(k), around(v), mask[:, None], implementation, drop)
    return mixed.reshape(rows, blocks * size, *q.shape[2:])[:, :length]


def _masked(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array, implementation: str, drop: Drop) -> jax.Array:
    """Attention by "cudnn", or as plain matrix products. jax.nn.dot_product_attention would compute the softmax in float32 even in
    float64. Heads precede tokens, queries are scaled instead of scores, and the division by the softmax's sum comes last: XLA on
    CPU then runs plain batched matrix products, a third of the time."""
    if implementation == "cudnn":
        return jax.nn.dot_product_attention(q, k, v, mask=mask, implementation="cudnn")
    wide = jnp.promote_types(q.dtype, jnp.float32)
    q = (q / jnp.sqrt(jnp.asarray(q.shape[-1], wide))).astype(q.dtype)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    logits = _scores(q, k)
    logits += jnp.where(mask, 0.0, -1e30).astype(wide)
    weights = jnp.exp(logits - lax.stop_gradient(logits.max(-1, keepdims=True)))
    mixed = jnp.einsum("rhts,rhsd->rhtd", drop(weights).astype(v.dtype), v, preferred_element_type=wide)
    return jnp.swapaxes(mixed / weights.sum(-1)[..., None], 1, 2).astype(v.dtype)


@jax.custom_vjp
def _scores(q: jax.Array, k: jax.Array) -> jax.Array:
    """q·kᵀ [rows, heads, Q, T], at least float32. The keys' gradient is [head_dim, T], so that the smaller factor is transposed,
    which takes a CPU a third of the time."""
    return jnp.einsum("rhtd,rhsd->rhts", q, k, preferred_element_type=jnp.promote_types(q.dtype, jnp.float32))


def _scores_forward(q: jax.Array, k: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _scores(q, k), (q, k)


def _scores_backward(factors: tuple[jax.Array, jax.Array], slopes: jax.Array) -> tuple[jax.Array, jax.Array]:
    q, k = factors
    to_q, to_k = jnp.einsum("rhts,rhsd->rhtd", slopes, k), jnp.einsum("rhtd,rhts->rhds", q, slopes)
    return to_q.astype(q.dtype), jnp.swapaxes(to_k, 2, 3).astype(k.dtype)


_scores.defvjp(_scores_forward, _scores_backward)


def probabilities(q: jax.Array, k: jax.Array, query_segments: jax.Array, segments: jax.Array) -> jax.Array:
    """The softmax of `attend` without a window, [rows, heads, Q, T], at least float32; the source of term weights."""
    wide = jnp.promote_types(q.dtype, jnp.float32)
    logits = jnp.einsum("rthd,rshd->rhts", q, k, preferred_element_type=wide) / jnp.sqrt(jnp.asarray(q.shape[-1], wide))
    mask = within(query_segments, segments, 0, None)[:, None]
    return jax.nn.softmax(jnp.where(mask, logits, jnp.finfo(wide).min), axis=-1)


def splash(
    q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array, mesh: AbstractMesh | None, kind: str, reach: int = 0
) -> jax.Array:
    """`attend` with JAX's Pallas kernel for TPUs: scores never leave the chip, and the backward pass recomputes them. One kernel
    with a full or a local mask and segment ids computes all segments of a row. The partitioner cannot shard a kernel, so it runs
    under `shard_map`: each device computes its rows and heads, which the projections' sharding already placed there. `mesh` is that
    of the arrays (None: one device), replicated over all axes but the batch's and "model"; `kind` is the device's."""
    factors = jnp.dtype("float32") if kind.startswith(WIDE_FACTORS) else v.dtype
    # The kernel does not scale: scale in float32 and round once, as in `_masked`.
    q = q.astype(jnp.float32) / jnp.sqrt(jnp.float32(q.shape[-1]))
    parts = (q.astype(v.dtype).astype(factors), k.astype(factors), v.astype(factors), segments)
    if mesh is None:
        return _kernel(*parts, reach=reach).astype(v.dtype)
    # The mesh for term weights has the axis "data" only.
    rows, heads = (tuple(axis for axis in axes if axis in mesh.axis_names) or None for axes in (BATCH[0], ("model",)))
    spec = P(rows, None, heads, None)
    # The kernel does not declare over which axes its outputs vary, so check_vma is off.
    kernel, specs = partial(_kernel, reach=reach), (spec, spec, spec, P(rows))
    over_mesh = jax.shard_map(kernel, mesh=mesh, in_specs=specs, out_specs=spec, check_vma=False)
    return over_mesh(*parts).astype(v.dtype)


def _kernel(q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array, *, reach: int) -> jax.Array:
    """One device's part, [rows, T, heads, head_dim]; q is already scaled."""
    # Imported here: Pallas takes half a second to import, and only TPUs need it.
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernels
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    length, heads = q.shape[1], q.shape[2]
    block = next(size for size in (BLOCK, BLOCK // 2, LANES) if length % size == 0)
    # Backward, one fused kernel computes five products per pair of blocks, two kernels compute seven. But the fused one's grid
    # includes the pairs that the mask excludes, and it stores a gradient of the queries for each block of keys. Two kernels visit
    # only blocks within reach: `near` blocks of keys for a block of queries.
    near = 2 * -(-reach // block) + 1
    two = reach and 2 * near < length // block
    backward: dict[str, Any] = {"block_q_dq": block, "block_kv_dq": block} if two else {"use_fused_bwd_kernel": True}
    sizes = kernels.BlockSizes(block, block, block, block, block, block, **backward)
    square = (length, length)
    mask = masks.LocalMask(square, (reach, reach), 0) if reach else masks.FullMask(square)
    every = masks.MultiHeadMask([mask] * heads)
    one_row = kernels.make_splash_mha_single_device(every, block_sizes=sizes, interpret=INTERPRET)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    mixed = jax.vmap(lambda q, k, v, ids: one_row(q, k, v, kernels.SegmentIds(ids, ids)))(q, k, v, segments)
    return jnp.swapaxes(mixed, 1, 2)
