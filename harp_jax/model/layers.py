"""Parts of encoders and heads: dropout, layer norms, word embeddings, GELU, initialisation, rematerialisation."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.random import threefry2x32_p
from jax.sharding import NamedSharding

from harp_jax.model.attention import choose, place_of
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.model.products import dot_general
from harp_jax.model.sharding import BATCH


def gelu(x: jax.Array) -> jax.Array:
    """The exact GELU (erf); the tanh approximation changes logits by 9e-5 and would break parity."""
    return 0.5 * x * (1.0 + lax.erf(x * 0.7071067811865476))


class Norm(nn.LayerNorm):
    """Layer norm computed in at least float32 (bfloat16 means lose three digits), returned in the input's dtype."""

    def __call__(self, x: jax.Array) -> jax.Array:  # type: ignore[override]
        if self.is_initializing() or place_of(x).platform != "gpu":
            return super().__call__(x).astype(x.dtype)
        params = self.variables["params"]
        return normalised(x, params["scale"], params.get("bias"), self.epsilon)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def normalised(x: jax.Array, scale: jax.Array, bias: jax.Array | None, epsilon: float) -> jax.Array:
    """Layer norm over the last axis that stores only x, the means and the reciprocal deviations for the backward pass. JAX's
    derivative stores more, which costs a GPU time."""
    return _normalised_forward(x, scale, bias, epsilon)[0]


def _normalised_forward(x: jax.Array, scale: jax.Array, bias: jax.Array | None, epsilon: float) -> tuple:
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean = wide.mean(-1, keepdims=True)
    inverse = lax.rsqrt(jnp.square(wide - mean).mean(-1, keepdims=True) + epsilon)
    y = (wide - mean) * (inverse * scale)
    y = y if bias is None else y + bias
    return y.astype(x.dtype), (x, scale, bias, mean, inverse)


def _normalised_backward(epsilon: float, stored: tuple, cotangent: jax.Array) -> tuple:
    x, scale, bias, mean, inverse = stored
    # Else XLA would store the float32 sum that x was rounded from, on GPUs that cannot add bfloat16 (before Hopper).
    x, slopes = lax.optimization_barrier(x), cotangent.astype(mean.dtype)
    unit = (x.astype(mean.dtype) - mean) * inverse
    inner = slopes * scale
    along = (inner * unit).mean(-1, keepdims=True)
    to_x = inverse * (inner - inner.mean(-1, keepdims=True) - unit * along)
    # Else XLA would store slopes · unit, because it is part of sums over rows and over columns.
    x, slopes, mean, inverse = lax.optimization_barrier((x, cotangent, mean, inverse))
    slopes, rows = slopes.astype(mean.dtype), tuple(range(x.ndim - 1))
    to_scale = (slopes * (x.astype(mean.dtype) - mean) * inverse).sum(rows).astype(scale.dtype)
    return to_x.astype(x.dtype), to_scale, None if bias is None else slopes.sum(rows).astype(bias.dtype)


normalised.defvjp(_normalised_forward, _normalised_backward)


def recompute_on_gpu(function: Callable[[Any, jax.Array], jax.Array], module: nn.Module, x: jax.Array) -> jax.Array:
    """function(module, x); a GPU stores only x for the backward pass and recomputes the rest, but no matrix product: reading GELU's
    result takes it as long as recomputing it. A CPU computes erf too slowly for that, and TPUs were not measured."""
    if place_of(x).platform == "gpu" and not module.is_initializing():
        function = nn.remat(function)
    return function(module, x)


def initializer(config: EncoderConfig) -> nn.initializers.Initializer:
    """Truncated normal, for every kernel and embedding."""
    return nn.initializers.truncated_normal(config.initializer_range)


def dense(config: EncoderConfig) -> dict[str, Any]:
    """Options of every `nn.Dense` and `nn.DenseGeneral`."""
    return dict(dtype=config.dtype, use_bias=config.biased, kernel_init=initializer(config), dot_general=dot_general)


def layer_norm(config: EncoderConfig) -> Norm:
    """The layer norm of a shape, computed in at least float32."""
    wide = jnp.promote_types(config.dtype, jnp.float32)
    return Norm(epsilon=config.layer_norm_eps, dtype=wide, use_bias=config.biased, use_fast_variance=False)


def flat(x: jax.Array) -> jax.Array:
    """[rows, T, …] → [rows · T, …], as the products of dense layers read it on a CPU (products.py): XLA stores a sum that a product
    reads directly, and recomputes any other wherever it is read. With norms before the layers, every gradient would then recompute
    the sum over all layers above."""
    return x.reshape(-1, *x.shape[2:])


def gather_positions(x: jax.Array, at: jax.Array | None) -> jax.Array:
    """x [rows, T, …] at the positions `at` [rows, Q]; None: all."""
    return x if at is None else jnp.take_along_axis(x, at.reshape(*at.shape, *(1,) * (x.ndim - 2)), axis=1)


def attention_of(layer: Any, x: jax.Array, at: jax.Array | None) -> str:
    """The implementation of a layer's attention to x [rows, T, hidden] from all tokens, or from those at `at` [rows, Q] only."""
    # A kernel does not pay off for a few queries, and it may not support their number or the few tokens of `init`.
    if at is not None or layer.is_initializing():
        return "xla"
    c = layer.config
    return choose(c.attention, c.dtype, c.attention_dropout > 0, place_of(x).platform, x.shape[1])


def rematerialised(layer: type[nn.Module], policy: str) -> type[nn.Module]:
    """A layer, called with (x, its rows, deterministic, positions), whose backward pass recomputes instead of storing:

    "none"    nothing but GELU on a GPU (`recompute_on_gpu`): fastest if memory suffices
    "dots"    all but the projections: attention scores, softmax, GELU, norms, dropout
    "layer"   everything but the layer's input: a third more FLOPs, the least memory
    """
    policies = {"dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable, "layer": None}
    return layer if policy == "none" else nn.remat(layer, static_argnums=(3,), policy=policies[policy])


class Words(nn.Embed):
    """Word embeddings; parameters may also be [parts, vocab, hidden], a copy per part of the rows (`copied`)."""

    def setup(self) -> None:
        copies: Any = self.get_variable("params", "embedding")
        if copies is not None and copies.ndim == 3:
            self.embedding = copies
        else:
            super().setup()

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """[rows, T] int32 → [rows, T, hidden]."""
        words = self.embedding.astype(self.dtype)
        return by_parts(lambda words, tokens: jnp.take(words, tokens, axis=0), words, tokens)


class Dropout(nn.Module):
    """Set a fraction `rate` (in steps of 2⁻¹⁶) of the elements to zero and scale the others to keep the mean."""

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, deterministic: bool) -> jax.Array:
        """x of any shape; requires a "dropout" key unless deterministic."""
        dropped = round(self.rate * 2**16)
        if not dropped or deterministic:
            return x
        keep = random_words(self.make_rng("dropout"), x.shape) >= jnp.uint16(dropped)
        return jnp.where(keep, x * (2**16 / (2**16 - dropped)), jnp.zeros_like(x))


def random_words(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Independent uniform uint16 numbers of a shape. Threefry returns 64 bits per call, of which `jax.random.bits` uses 32 for one
    number; here they make four numbers. The counter is the element's index in the global array, so the numbers do not depend on the
    sharding. Other generators ("rbg") use `jax.random.bits`."""
    if jax.random.key_impl(key) != "threefry2x32" or shape[-1] % 4:
        return jax.random.bits(key, shape, jnp.uint16)
    quarter = (*shape[:-1], shape[-1] // 4)
    index = jnp.zeros(quarter, jnp.uint32)
    for axis, size in enumerate(quarter):
        index = index * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, quarter, axis)
    words = threefry(key, jnp.zeros_like(index), index)
    halves = [(word >> shift).astype(jnp.uint16) for word in words for shift in (0, 16)]
    return jnp.concatenate(halves, axis=-1)


def threefry(key: jax.Array, high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two random words (uint32) for each counter (high, low: uint32 of one shape); the key must be threefry's."""
    k = jax.random.key_data(key).astype(jnp.uint32)
    first, second = threefry2x32_p.bind(*(jnp.broadcast_to(part, low.shape) for part in (k[0], k[1])), high, low)
    return first, second


def copied(params: Mapping, tokens: jax.Array) -> Mapping:
    """The parameters with a copy of the word embeddings for each device along the data axis of the mesh of `tokens`: [parts, vocab,
    hidden], sharded by parts. The gradient of the tied embeddings is the sum of two, of the lookup and the MLM decoder. Of one
    array the partitioner would all-reduce each: a base model would send 90 MiB twice. Of copies they are added on each device, and
    one all-reduce, the transpose of copying, sums over the parts. Unchanged if the mesh also shards parameters (fsdp, model): their
    gradients are reduce-scattered already."""
    mesh = place_of(tokens).mesh
    parts = 1 if mesh is None else mesh.shape.get("data", 1)
    if parts == 1 or parts != mesh.size:  # type: ignore[union-attr]
        return params
    embeddings = params["encoder"]["embeddings"]
    words = embeddings["word"]["embedding"]
    copies = jax.lax.with_sharding_constraint(
        jnp.broadcast_to(words, (parts, *words.shape)),
        NamedSharding(mesh, BATCH),  # type: ignore[arg-type]
    )
    changed = {**embeddings, "word": {"embedding": copies}}
    return {**params, "encoder": {**params["encoder"], "embeddings": changed}}


def by_parts(function: Callable, words: jax.Array, *rows: jax.Array) -> Any:
    """function(words, *rows) for words [vocab, hidden]; for [parts, vocab, hidden], each part of the rows with its own copy. `rows`
    and the results are arrays [rows, ...]; a part is a block of consecutive rows, as on a mesh."""
    if words.ndim == 2:
        return function(words, *rows)
    parts = len(words)
    out = jax.vmap(function)(words, *(x.reshape(parts, -1, *x.shape[1:]) for x in rows))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), out)
