"""Training of vectors: a query's page against all other pages of the global batch, near the start's similarities."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from harp_jax.model.attention import Place, place_of
from harp_jax.model.cross_encoder import segment_means
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.objectives.losses import by_group, listwise_kl, margin_mse, over_negatives
from harp_jax.objectives.objective import Batch, Loss, Metrics, fill

START = "start"  # parameters of the frozen start, next to "encoder"
NEAR = 8  # signatures of near-equal texts differ in at most so many of their 64 bits
LOWEST = -1e9  # the logit of a page that is no negative; not -inf, since 0 · (-inf + inf) would be NaN


@dataclass(frozen=True)
class Contrastive:
    """Softmax of a query's page over the pages of the global batch, an `Objective`.

    A group has a query, its page and k negatives: `members` [lanes, groups, 2 + k]. With qᵢ and dⱼ the unit vectors of query i and
    page j, n queries, and Aᵢ the page of query i and all pages of the batch that may be its negatives (`comparable`):

        sᵢⱼ = qᵢ·dⱼ / τ
        pᵢⱼ = exp sᵢⱼ / Σ_{a ∈ Aᵢ} exp sᵢₐ
        L   = -1/n Σᵢ log pᵢᵢ + λ/n Σᵢ Σ_{a ∈ Aᵢ} p⁰ᵢₐ log(p⁰ᵢₐ / pᵢₐ) + μ/n Σᵢ 1/k Σ_b ((sᵢᵢ - sᵢ_b) - (tᵢᵢ - tᵢ_b))²

    p⁰ is p by the vectors of the frozen start, t are a teacher's scores of the query's page and its own k negatives b. With `both`,
    the first term is the mean of this direction and of the other: the query of page i among the queries b with i ∈ A_b. The pages
    are those of all devices and microbatches. Microbatches are encoded again in the backward pass (gradient caching, Gao et al.
    2021): memory holds the activations of one, and the gradient is exact.
    """

    shape: EncoderConfig
    temperature: float  # τ
    kl_weight: float = 0.0  # λ; 0: the parameters have no start
    both: bool = False
    teacher_weight: float = 0.0  # μ; above 0 the batch has the `teacher`'s scores, in the order of `members`

    predictions: int = 0
    whole_batch: ClassVar = True

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        return batch

    def counts(self, masked: Batch) -> Metrics:
        return {}

    def loss(self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics) -> Loss:
        parts = masked if masked["tokens"].ndim == 3 else {name: x[None] for name, x in masked.items()}
        allowed, own = comparable(by_lane(parts["members"]) >= 0, by_lane(parts["identities"]))
        valid = own.any(1)
        n = jnp.maximum(valid.sum(), 1)
        place = place_of(masked["tokens"])
        vectors = self._vectors(params["encoder"], parts, dropout_key)
        cosines, matching = similarities(vectors, place)
        logits = jnp.where(allowed, cosines / self.temperature, LOWEST)

        each = jax.nn.logsumexp(logits, axis=1) - matching / self.temperature
        if self.both:
            back = jax.nn.logsumexp(logits[:, : len(matching)], axis=0) - matching / self.temperature
            each = (each + back) / 2
        loss = jnp.where(valid, each, 0.0).sum() / n
        metrics = measured(cosines, allowed, own, n)
        if self.kl_weight:
            theirs = self._vectors(lax.stop_gradient(params[START]["encoder"]), parts, None)
            start = lax.stop_gradient(similarities(theirs, place)[0]) / self.temperature
            kl = jnp.where(valid, listwise_kl(logits, start, allowed), 0.0).sum() / n
            loss += self.kl_weight * kl
            metrics["mean/kl"] = kl
        if self.teacher_weight:
            cosine = jnp.einsum("ih,ijh->ij", vectors[:, 0], vectors[:, 1:], precision=lax.Precision.HIGHEST)
            errors = margin_mse(cosine / self.temperature, by_lane(parts["teacher"])[:, 1:])
            margin = over_negatives(errors, by_lane(parts["members"])[:, 1:] >= 0)
            margin = jnp.where(valid, margin, 0.0).sum() / n
            loss += self.teacher_weight * margin
            metrics["mean/margin_error"] = margin
        return loss, {"loss": loss, "pairs": valid.sum(), **metrics, **fill(masked)}

    def _vectors(self, encoder: Mapping, parts: Batch, dropout_key: jax.Array | None) -> jax.Array:
        """Unit vectors [queries, 2 + k, hidden] of the members of all groups, arbitrary for absent ones."""

        def encode(part: Batch, key: jax.Array | None) -> jax.Array:
            return by_group(text_vectors(self.shape, encoder, part, key), part["members"])

        count = len(parts["tokens"])
        if count == 1:
            return by_lane(encode({name: x[0] for name, x in parts.items()}, dropout_key)[None])
        keys = None if dropout_key is None else jax.random.split(dropout_key, count)
        cached = jax.checkpoint(lambda part: encode(*part), prevent_cse=False)
        return by_lane(lax.map(cached, (dict(parts), keys)))


def text_vectors(
    shape: EncoderConfig, encoder: Mapping[str, Any], batch: Batch, dropout_key: jax.Array | None = None
) -> jax.Array:
    """Unit vectors [rows, K, hidden], in at least float32, of the sequences that begin at `batch["cls_offset"]` [rows, K]: their
    hidden states, pooled by `shape.pooling` ("mean" or "cls"). With "cls" the last layer computes only these positions."""
    starts, first = batch["cls_offset"], shape.pooling == "cls"
    module = shape.module()
    rngs = {} if dropout_key is None else {"dropout": dropout_key}
    positions = starts if first else None
    hidden: Any = module.apply({"params": encoder}, batch, dropout_key is None, positions, rngs=rngs)
    pooled = hidden if first else segment_means(hidden, batch["segment_ids"], starts)
    pooled = pooled.astype(jnp.promote_types(pooled.dtype, jnp.float32))
    return pooled * lax.rsqrt(jnp.maximum(jnp.square(pooled).sum(-1, keepdims=True), 1e-18))


def by_lane(x: jax.Array) -> jax.Array:
    """[microbatches, lanes, groups, …] → [lanes · microbatches · groups, …], which stays sharded by lanes."""
    return jnp.moveaxis(x, 0, 1).reshape(-1, *x.shape[3:])


def pool(x: jax.Array) -> jax.Array:
    """[queries, 1 + k, …] of each query's page and negatives → [queries · (1 + k), …]: all queries' pages, then all negatives."""
    return jnp.concatenate([x[:, 0], x[:, 1:].reshape(-1, *x.shape[2:])])


def similarities(vectors: jax.Array, place: Place) -> tuple[jax.Array, jax.Array]:
    """Cosines [queries, pages] of all queries and the `pool`, and [queries] of each query and its page, from `_vectors`. Every
    device has the queries of its lanes and, gathered from all, the vectors of all pages."""
    queries, pages = vectors[:, 0], pool(vectors[:, 1:])
    if place.mesh is not None:
        pages = lax.with_sharding_constraint(pages, NamedSharding(place.mesh, P()))  # type: ignore[arg-type]
    # In full: an accelerator's default precision would change the logits by a tenth.
    cosines = jnp.einsum("ih,jh->ij", queries, pages, precision=lax.Precision.HIGHEST)
    return cosines, (queries * vectors[:, 1]).sum(-1)


def comparable(present: jax.Array, identities: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(Aᵢ, the page of query i itself), both [queries, pages] bool over the `pool`. present: [queries, 2 + k] bool; identities:
    [queries, 2 + 2·(1 + k)] int32: source page and query (0: unknown), then a signature of two words for each page. No negative of
    a query is a page whose text is (nearly) that of its page, a page of an equal query, or a page linked from the same source."""
    known, signatures = identities[:, :2], identities[:, 2:].reshape(len(identities), -1, 2)
    exists, theirs = pool(present[:, 1:]), pool(signatures)
    off = lax.population_count(signatures[:, :1] ^ theirs).sum(-1)
    same = ((known[:, None] == known) & (known != 0)).any(-1)  # by source page or query; a negative has neither
    same = jnp.pad(same, ((0, 0), (0, len(theirs) - len(known))))
    valid = present[:, :2].all(1)
    own = jnp.eye(len(known), len(theirs), dtype=bool) & valid[:, None]
    return own | (valid[:, None] & exists & (off > NEAR) & ~same), own


def measured(cosines: jax.Array, allowed: jax.Array, own: jax.Array, n: jax.Array) -> Metrics:
    """Sums for the log: queries whose page is nearest, negatives of a query, mean and standard deviation of all cosines."""
    others, pages = allowed & ~own, jnp.maximum(allowed.sum(), 1)
    best = [jnp.where(some, cosines, -jnp.inf).max(1) for some in (own, others)]
    mean = jnp.where(allowed, cosines, 0.0).sum() / pages
    spread = jnp.sqrt(jnp.where(allowed, jnp.square(cosines - mean), 0.0).sum() / pages)
    counts = {"right": (best[0] > best[1]).sum(), "mean/negatives": others.sum() / n}
    return lax.stop_gradient({**counts, "mean/cosine": mean, "mean/cosine_spread": spread})
