"""The fused step: mask, encode, score, losses, gradients, update, as one function to jit with the state donated."""

from collections.abc import Callable
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import optax

from harp_jax.objectives.objective import Batch, Metrics, Objective


class RunningLoss(TypedDict):
    """Mean and variance (float32) of the loss over the last steps, and the number of steps (int32)."""

    mean: jax.Array
    variance: jax.Array
    seen: jax.Array


class State(TypedDict):
    """What a checkpoint holds, under these names."""

    params: dict[str, Any]
    opt_state: optax.OptState
    step: jax.Array  # int32: steps done
    skipped: jax.Array  # int32: steps whose update was skipped
    loss: RunningLoss


# Steps in the running mean of the loss; there is no spike test before this many.
LOSS_WINDOW = 200


def initial(params: dict, optimizer: optax.GradientTransformation) -> State:
    """The state before the first step."""
    zero, zero_float = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.float32)
    loss = RunningLoss(mean=zero_float, variance=zero_float, seen=zero)
    return {"params": params, "opt_state": optimizer.init(params), "step": zero, "skipped": zero, "loss": loss}


def make_step(
    objective: Objective,
    optimizer: optax.GradientTransformation,
    seed: int,
    prng: str,
    dropout: bool,
    spike: float = 0.0,
) -> Callable[[State, Batch], tuple[State, Metrics]]:
    """`state, batch → state, metric sums`, to be jitted with the state donated; a pure function of (seed, step, batch). The update
    is skipped and counted, with everything but the step number unchanged, if the gradient or the loss is not finite, or the loss is
    `spike` standard deviations above its running mean (0: no such test)."""

    def step(state: State, batch: Batch) -> tuple[State, Metrics]:
        # Masks always use threefry.
        mask_key = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), state["step"])
        own = jax.random.key(seed + 1, impl={"threefry": "threefry2x32"}.get(prng, prng))
        dropout_key = jax.random.fold_in(own, state["step"]) if dropout else None
        grads, metrics = gradients(objective, state["params"], batch, mask_key, dropout_key)
        norm = optax.global_norm(grads)
        good = jnp.isfinite(norm) & jnp.isfinite(metrics["loss"]) & ~spikes(metrics["loss"], state["loss"], spike)
        updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
        running = update_running_loss(metrics["loss"], state["loss"])
        new = (optax.apply_updates(state["params"], updates), opt_state, running)
        old = (state["params"], state["opt_state"], state["loss"])
        params, opt_state, loss = jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)
        skipped = state["skipped"] + (~good).astype(jnp.int32)
        state = {"params": params, "opt_state": opt_state, "step": state["step"] + 1, "skipped": skipped, "loss": loss}
        return state, {**metrics, "steps": jnp.ones(()), "gradient_norm": norm}

    return step


def gradients(
    objective: Objective, params: dict, batch: Batch, mask_key: jax.Array, dropout_key: jax.Array | None
) -> tuple[dict, Metrics]:
    """Gradients of the batch's loss, and its metric sums. The microbatches of [microbatches, rows, T] are processed in turn. Losses
    divide by the counts of the whole batch, so the gradients of the microbatches add up to that of the batch. An objective that
    compares texts of different microbatches receives them all (`whole_batch`)."""
    compute = jax.value_and_grad(objective.loss, has_aux=True)
    if batch["tokens"].ndim == 2 or objective.whole_batch:
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


def spikes(loss: jax.Array, running: RunningLoss, deviations: float) -> jax.Array:
    """Whether a loss is more than `deviations` standard deviations above the running mean; always false for 0. A loss below 1 (a
    hinge loss before training) is not a spike: once most batches have zero loss, a single wrong pair is many deviations above the
    mean."""
    if not deviations:
        return jnp.zeros((), bool)
    limit = jnp.maximum(1.0, running["mean"] + deviations * jnp.sqrt(running["variance"]))
    return (running["seen"] >= LOSS_WINDOW) & (loss > limit)


def update_running_loss(loss: jax.Array, running: RunningLoss) -> RunningLoss:
    """Adds a loss to the running mean and variance: over all steps at first, then exponential over LOSS_WINDOW steps."""
    weight = 1.0 / jnp.minimum(running["seen"] + 1, LOSS_WINDOW)
    delta = loss - running["mean"]
    variance = (1 - weight) * (running["variance"] + weight * delta * delta)
    return {"mean": running["mean"] + weight * delta, "variance": variance, "seen": running["seen"] + 1}


def make_eval(objective: Objective, seed: int) -> Callable[[dict, Batch], Metrics]:
    """`params, batch → metric sums` without dropout; the masks of a batch are the same in every evaluation."""

    def evaluate(params: dict, batch: Batch) -> Metrics:
        masked = objective.mask(batch, jax.random.key(seed, impl="threefry2x32"))
        _, metrics = objective.loss(params, masked, None, objective.counts(masked))
        return {**metrics, "steps": jnp.ones(())}

    return evaluate
