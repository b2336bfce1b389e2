"""The fused step: mask, encode, score, losses, gradients, update, in one jitted call that donates its state."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from harp_jax.objectives import Metrics

State = dict[str, Any]  # params, opt_state, step (int32), skipped (int32)
Objective = Callable[..., tuple[jax.Array, Metrics]]


def initial(params: dict, optimizer: optax.GradientTransformation) -> State:
    """The state before the first step."""
    zero = jnp.zeros((), jnp.int32)
    return {"params": params, "opt_state": optimizer.init(params), "step": zero, "skipped": zero}


def keys(seed: int, step: jax.Array, prng: str) -> tuple[jax.Array, jax.Array]:
    """(mask key, dropout key) of a step, functions of (seed, step) alone. Masks are always threefry's."""
    masks = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), step)
    drops = jax.random.fold_in(jax.random.key(seed + 1, impl={"threefry": "threefry2x32"}.get(prng, prng)), step)
    return masks, drops


def make_step(
    objective: Objective, optimizer: optax.GradientTransformation, seed: int, prng: str, dropout: bool
) -> Callable[[State, dict], tuple[State, Metrics]]:
    """`state, batch → state, metric sums`, to be jitted with the state donated. Same (seed, step, batch): same result.

    A gradient that is not finite changes nothing but the count of skipped steps.
    """

    def step(state: State, batch: dict[str, jax.Array]) -> tuple[State, Metrics]:
        mask_key, dropout_key = keys(seed, state["step"], prng)
        value_and_grad = jax.value_and_grad(objective, has_aux=True)
        (_, metrics), grads = value_and_grad(state["params"], batch, mask_key, dropout_key if dropout else None)
        norm = optax.global_norm(grads)
        finite = jnp.isfinite(norm)

        def update(_: None) -> tuple[Any, Any]:
            updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
            return optax.apply_updates(state["params"], updates), opt_state

        params, opt_state = jax.lax.cond(finite, update, lambda _: (state["params"], state["opt_state"]), None)
        skipped = state["skipped"] + (~finite).astype(jnp.int32)
        metrics = {**metrics, "gradient_norm": norm}
        return {"params": params, "opt_state": opt_state, "step": state["step"] + 1, "skipped": skipped}, metrics

    return step


def make_eval(objective: Objective, seed: int) -> Callable[[dict, dict], Metrics]:
    """`params, batch → metric sums` without dropout; the masks of a batch are the same at every evaluation."""

    def evaluate(params: dict, batch: dict[str, jax.Array]) -> Metrics:
        _, metrics = objective(params, batch, jax.random.key(seed, impl="threefry2x32"), None)
        return metrics

    return evaluate
