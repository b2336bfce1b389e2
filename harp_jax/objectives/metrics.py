"""Turns the metric sums of steps into the logged means."""

from collections.abc import Mapping

import jax.numpy as jnp

from harp_jax.objectives.objective import Batch, Metrics


def fill(batch: Batch) -> Metrics:
    """Real tokens and slots of a packed batch."""
    segments = batch["segment_ids"]
    return {
        "tokens": (segments > 0).sum().astype(jnp.float32),
        "slots": jnp.asarray(segments.size, jnp.float32),
    }


def summarise(sums: Mapping[str, float], tasks: tuple[str, ...]) -> dict[str, float]:
    """Means from metric sums: loss and pair accuracy by task, MLM loss and accuracy, fraction of slots filled."""
    steps = max(sums["steps"], 1.0)
    out = {
        "loss": sums["loss"] / steps,
        "pairs_per_step": sums["pairs"] / steps,
        "fill": sums["tokens"] / sums["slots"],
    }
    if sums.get("mlm_tokens"):
        out["mlm_loss"] = sums["mlm"] / sums["mlm_tokens"]
        out["mlm_accuracy"] = sums["mlm_hits"] / sums["mlm_tokens"]
    if "right" in sums and sums["pairs"]:
        out["pair_accuracy"] = sums["right"] / sums["pairs"]
    for task in tasks:
        if sums.get(f"pairs/{task}"):
            out[f"{task}_loss"] = sums[f"loss/{task}"] / sums[f"pairs/{task}"]
            out[f"{task}_accuracy"] = sums[f"right/{task}"] / sums[f"pairs/{task}"]
    return out
