"""The forward pass of all objectives, and the losses of pairs, masked tokens, judged documents and groups of documents."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.layers import copied
from harp_jax.objectives.masking import POSITIONS, TARGETS, WEIGHTS
from harp_jax.objectives.objective import Batch, Loss, Metrics


class Forward(NamedTuple):
    """scores: [rows, K] float32; hidden: [rows, M, hidden] at the masked positions; params: for applying heads."""

    scores: jax.Array
    hidden: jax.Array
    params: Mapping


def forward(ranker: Ranker, params: Mapping, masked: Batch, dropout_key: jax.Array | None) -> Forward:
    """Encode and score each sequence (HARP Eq. 7, 8 and 17). The last layer is computed only at first tokens and masked positions,
    the only outputs that are read; in a 2-layer model it is half of the work."""
    params = copied(params, masked["tokens"])
    rngs = {} if dropout_key is None else {"dropout": dropout_key}
    positions, deterministic = masked.get(POSITIONS), dropout_key is None
    outputs: Any = ranker.apply({"params": params}, masked, positions, deterministic, rngs=rngs, method="scored")
    scores, hidden = outputs
    return Forward(scores, hidden, params)


def by_group(x: jax.Array, members: jax.Array) -> jax.Array:
    """Scores or vectors [rows, K, …] of sequences → those of each group's members [lanes, groups, size, …], arbitrary for missing
    members. The gather is batched over lanes, whose rows are consecutive, so devices exchange nothing."""
    lanes, each = len(members), x.shape[2:]
    at = jnp.maximum(members, 0).reshape(lanes, -1, *(1 for _ in each))
    return jnp.take_along_axis(x.reshape(lanes, -1, *each), at, axis=1).reshape(*members.shape, *each)


def masked_language_model(ranker: Ranker, outputs: Forward, masked: Batch) -> Metrics:
    """Metric sums of the masked positions: cross-entropy (HARP Eq. 15), hits and count."""
    answers: Any = ranker.apply({"params": outputs.params}, outputs.hidden, masked[TARGETS], method="mlm_losses")
    loss, hits = (each * masked[WEIGHTS] for each in answers)
    return {"mlm": loss.sum(), "mlm_hits": hits.sum(), "mlm_tokens": masked[WEIGHTS].sum()}


def hinge(positive: jax.Array, negative: jax.Array) -> jax.Array:
    """max(0, 1 - s⁺ + s⁻) (HARP Eq. 6, 9, 12, 14)."""
    return jax.nn.relu(1.0 - positive + negative)


def logistic(positive: jax.Array, negative: jax.Array) -> jax.Array:
    """-log σ(s⁺ - s⁻), RankNet's cross-entropy."""
    return jax.nn.softplus(negative - positive)


def softmax_margin(positive: jax.Array, negative: jax.Array) -> jax.Array:
    """Softmax over the two scores, then the hinge with margin 1, as in the code of HARP's authors: 2σ(s⁻ - s⁺)."""
    return 2.0 * jax.nn.sigmoid(negative - positive)


PAIRWISE: dict[str, Callable[..., jax.Array]] = {"hinge": hinge, "logistic": logistic, "softmax_margin": softmax_margin}


def relevance(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Binary cross-entropy of logits (HARP Eq. 18, with the minus sign that is missing in the paper)."""
    return optax.sigmoid_binary_cross_entropy(scores, labels)


def localised_contrastive(scores: jax.Array, valid: jax.Array) -> jax.Array:
    """LCE: -log softmax of the first score of each group. scores, valid: [..., group]; returns [...]."""
    masked = jnp.where(valid, scores, -jnp.inf)
    return jax.nn.logsumexp(masked, axis=-1) - scores[..., 0]


def over_negatives(values: jax.Array, present: jax.Array) -> jax.Array:
    """Mean [...] of the `values` [..., negatives] of a group's negatives that are `present` [..., 1 + negatives] bool."""
    there = present[..., 1:].astype(jnp.float32)
    return (values * there).sum(-1) / jnp.maximum(there.sum(-1), 1)


def margin_mse(scores: jax.Array, teacher: jax.Array) -> jax.Array:
    """((s₀ - sᵢ) - (t₀ - tᵢ))² for i ≥ 1 (Hofstätter et al., 2020). scores, teacher: [..., size]; returns [..., size - 1]."""
    off = scores - teacher
    return jnp.square(off[..., :1] - off[..., 1:])


def listwise_kl(scores: jax.Array, teacher: jax.Array, valid: jax.Array) -> jax.Array:
    """KL(softmax(teacher) ‖ softmax(scores)) over the members of a group. scores, teacher, valid: [..., size]; returns [...]."""
    # Not -inf: for a missing member 0 · (-inf + inf) would be NaN.
    student, wanted = (jax.nn.log_softmax(jnp.where(valid, x, -1e9), axis=-1) for x in (scores, teacher))
    return (jnp.exp(wanted) * (wanted - student)).sum(-1)


def score_spread(members: jax.Array, present: jax.Array) -> Metrics:
    """Sums for the log over groups of several members: standard deviations of their scores [..., size], and number of groups."""
    n = jnp.maximum(present.sum(-1), 1)
    mean = jnp.where(present, members, 0.0).sum(-1) / n
    variance = jnp.where(present, jnp.square(members - mean[..., None]), 0.0).sum(-1) / n
    return jax.lax.stop_gradient({"spread": jnp.sqrt(variance).sum(), "compared": (n > 1).sum()})


def pair_loss(name: str, members: jax.Array, present: jax.Array, teacher: jax.Array | None) -> jax.Array:
    """The loss [...] of each group of pre-training: the mean over its negatives, or the sum of the group's losses in `name` ("lce",
    "kl", "lce_kl"). Arguments as in `ranking_loss`."""
    if name in PAIRWISE:
        return over_negatives(PAIRWISE[name](members[..., :1], members[..., 1:]), present)
    parts = {"lce": localised_contrastive(members, present)}
    if teacher is not None:
        parts["kl"] = listwise_kl(members, teacher, present)
    return jnp.where(present.any(-1), sum(parts[part] for part in name.split("_")), 0.0)


def ranking_loss(name: str, members: jax.Array, present: jax.Array, counts: Metrics, teacher: Any = None) -> Loss:
    """HARP Eq. 18 (bce), listwise (lce), pairwise loss or distillation (margin_mse, kl), with metric sums; averaged over groups,
    members or negatives (`counts`). members, teacher: [..., size], scores of groups, positives first; present: [..., size] bool.
    `judged`: each member is classified, its label (1 relevant, 0 not) in `teacher`."""
    valid, negatives = present.any(-1), present[..., 1:]
    if name in ("bce", "judged"):
        labels = jnp.zeros_like(members).at[..., 0].set(1.0) if name == "bce" else teacher
        each, there, what = relevance(members, labels), present, "members"
    elif name in ("lce", "kl"):
        each = localised_contrastive(members, present) if name == "lce" else listwise_kl(members, teacher, present)
        there, what = valid, "groups"
    else:
        pairwise = PAIRWISE.get(name)
        each = pairwise(members[..., :1], members[..., 1:]) if pairwise else margin_mse(members, teacher)
        there, what = negatives, "negatives"
    loss = jnp.where(there, each, 0.0).sum() / jnp.maximum(counts[what], 1)
    right, compared = (members[..., :1] > members[..., 1:]) & negatives, negatives
    if name == "judged":
        right, compared = ((members > 0) == (labels > 0)) & present, present
    return loss, {"loss": loss, "pairs": compared.sum(), "right": right.sum(), "groups": valid.sum()}
