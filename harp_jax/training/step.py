"""The fused step: mask, encode, score, losses, gradients, update, in one jitted call that donates its state."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from harp_jax.objectives.objective import Batch, Metrics, Objective

# params, opt_state, step (int32), skipped (int32), and of the loss its running mean, variance and number of steps.
State = dict[str, Any]

# Steps in the running mean of the loss; no spike test before.
USUAL = 200


def initial(params: dict, optimizer: optax.GradientTransformation) -> State:
    """The state before the first step."""
    zero, nothing = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    loss = {"mean": nothing, "variance": nothing, "seen": zero}
    return {"params": params, "opt_state": optimizer.init(params), "step": zero, "skipped": zero, "loss": loss}


def keys(seed: int, step: jax.Array, prng: str) -> tuple[jax.Array, jax.Array]:
    """(mask key, dropout key) of a step, functions of (seed, step) alone. Masks are always threefry's."""
    masks = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), step)
    drops = jax.random.fold_in(jax.random.key(seed + 1, impl={"threefry": "threefry2x32"}.get(prng, prng)), step)
    return masks, drops


def make_step(
    objective: Objective,
    optimizer: optax.GradientTransformation,
    seed: int,
    prng: str,
    dropout: bool,
    spike: float = 0.0,
) -> Callable[[State, dict], tuple[State, Metrics]]:
    """`state, batch → state, metric sums`, to be jitted with the state donated. Same (seed, step, batch): same result.

    A gradient that is not finite, or a loss `spike` standard deviations above the usual (0: never), changes nothing but
    the count of skipped steps.
    """

    def step(state: State, batch: dict[str, jax.Array]) -> tuple[State, Metrics]:
        mask_key, dropout_key = keys(seed, state["step"], prng)
        grads, metrics = gradients(objective, state["params"], batch, mask_key, dropout_key if dropout else None)
        norm = optax.global_norm(grads)
        good = jnp.isfinite(norm) & jnp.isfinite(metrics["loss"]) & ~spikes(metrics["loss"], state["loss"], spike)
        updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
        new = (optax.apply_updates(state["params"], updates), opt_state, follow(metrics["loss"], state["loss"]))
        old = (state["params"], state["opt_state"], state["loss"])
        params, opt_state, loss = jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)
        skipped = state["skipped"] + (~good).astype(jnp.int32)
        state = {"params": params, "opt_state": opt_state, "step": state["step"] + 1, "skipped": skipped, "loss": loss}
        return state, {**metrics, "steps": jnp.ones(()), "gradient_norm": norm}

    return step


def gradients(
    objective: Objective, params: dict, batch: Batch, mask_key: jax.Array, dropout_key: jax.Array | None
) -> tuple[dict, Metrics]:
    """Gradients of the batch's loss, and its metric sums. A batch [microbatches, rows, T] goes one by one.

    The losses divide by the counts of the whole batch, so microbatches add up to the gradient of the batch in one piece.
    """
    compute = jax.value_and_grad(objective.loss, has_aux=True)
    if batch["tokens"].ndim == 2:
        masked = objective.mask(batch, mask_key)
        (_, metrics), grads = compute(params, masked, dropout_key, objective.counts(masked))
        return grads, metrics
    parts = jax.lax.map(lambda part: objective.mask(part, mask_key), batch)
    counts = jax.tree.map(lambda x: x.sum(0), jax.lax.map(objective.counts, parts))

    def one(sums: Any, numbered: Any) -> tuple[Any, None]:
        number, masked = numbered
        key = None if dropout_key is None else jax.random.fold_in(dropout_key, number)
        (_, metrics), grads = compute(params, masked, key, counts)
        return jax.tree.map(jnp.add, sums, (grads, metrics)), None

    first = jax.tree.map(lambda x: x[0], parts)
    (_, metrics), grads = jax.eval_shape(compute, params, first, dropout_key, counts)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (grads, metrics))
    sums, _ = jax.lax.scan(one, zeros, (jnp.arange(len(batch["tokens"])), parts))
    return sums


def spikes(loss: jax.Array, usual: dict[str, jax.Array], deviations: float) -> jax.Array:
    """Whether a loss lies `deviations` standard deviations above the running mean."""
    if not deviations:
        return jnp.zeros((), bool)
    return (usual["seen"] >= USUAL) & (loss > usual["mean"] + deviations * jnp.sqrt(usual["variance"]))


def follow(loss: jax.Array, usual: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Running mean and variance with one more loss: of all steps at first, then fading over USUAL steps."""
    share = 1.0 / jnp.minimum(usual["seen"] + 1, USUAL)
    away = loss - usual["mean"]
    variance = (1 - share) * (usual["variance"] + share * away * away)
    return {"mean": usual["mean"] + share * away, "variance": variance, "seen": usual["seen"] + 1}


def make_eval(objective: Objective, seed: int) -> Callable[[dict, dict], Metrics]:
    """`params, batch → metric sums` without dropout; the masks of a batch are the same at every evaluation."""

    def evaluate(params: dict, batch: dict[str, jax.Array]) -> Metrics:
        masked = objective.mask(batch, jax.random.key(seed, impl="threefry2x32"))
        _, metrics = objective.loss(params, masked, None, objective.counts(masked))
        return {**metrics, "steps": jnp.ones(())}

    return evaluate
