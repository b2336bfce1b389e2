"""The interface of an objective: mask a batch, count what its losses are averaged over, compute the loss.

Metrics are sums, which add up over microbatches, steps and devices; `summarise` turns them into means, and `not_beaten` names the
tasks whose accuracy a trivial predictor such as document length reaches.
"""

import math
from collections.abc import Mapping
from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp

Batch = Mapping[str, jax.Array]  # arrays of one microbatch, named as in `input/packing.fill`
Metrics = dict[str, jax.Array]
Loss = tuple[jax.Array, Metrics]  # float32 scalar, and metric sums


class Objective(Protocol):
    """The computation of one step. All methods are pure functions; a batch is one microbatch."""

    whole_batch: ClassVar[bool]  # `loss` receives all microbatches at once

    @property
    def predictions(self) -> int:
        """Number of masked positions predicted per row (M), or 0; the FLOPs of a step depend on it."""

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        """The encoder's input batch; masking replaces `tokens` and adds the arrays `masking.PREDICTED`."""

    def counts(self, masked: Batch) -> Metrics:
        """The denominators of the losses, such as pairs and predicted tokens; summed over microbatches."""

    def loss(self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics) -> Loss:
        """Without a dropout key there is no dropout (evaluation). `counts` are those of the whole batch, so that the losses of its
        microbatches add up to the batch's loss."""


def fill(batch: Batch) -> Metrics:
    """Real tokens and slots of a packed batch."""
    segments = batch["segment_ids"]
    return {"tokens": (segments > 0).sum().astype(jnp.float32), "slots": jnp.asarray(segments.size, jnp.float32)}


def summarise(sums: Mapping[str, float]) -> dict[str, float]:
    """Means from metric sums: loss and pair accuracy, also by task (sums named "…/TASK"), spread of scores, MLM loss and accuracy,
    fraction of slots filled; each "mean/NAME"."""
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
    if sums.get("compared"):
        out["score_spread"] = sums["spread"] / sums["compared"]
    out |= {name.removeprefix("mean/"): value / steps for name, value in sums.items() if name.startswith("mean/")}
    for task in (name.removeprefix("pairs/") for name in sums if name.startswith("pairs/")):
        if sums[f"pairs/{task}"]:
            out[f"{task}_loss"] = sums[f"loss/{task}"] / sums[f"pairs/{task}"]
            out[f"{task}_accuracy"] = sums[f"right/{task}"] / sums[f"pairs/{task}"]
    return out


WORDS = {
    "overlap": "word overlap", "length": "length", "query_only": "the query's words", "document_only": "the document's words",
    "in_links": "the number of in-links", "idf": "overlap weighted by IDF",
}  # fmt: skip


def not_beaten(metrics: Mapping[str, float], trivial: Mapping[str, tuple[str, float]]) -> list[str]:
    """A sentence for each task whose held-out accuracy is not two standard errors above the best trivial predictor's. `metrics` has
    TASK_accuracy and TASK_pairs; `trivial` has the predictor's name and accuracy."""
    sentences = []
    for task, (name, best) in trivial.items():
        accuracy, pairs = metrics.get(f"{task}_accuracy"), metrics.get(f"{task}_pairs", 0.0)
        if accuracy is None or not pairs:
            continue
        if accuracy <= best + 2 * math.sqrt(best * (1 - best) / pairs):
            sentences.append(
                f"{task}: {accuracy:.2f} of {pairs:.0f} held-out pairs are right; {WORDS.get(name, name)} alone reaches {best:.2f}"
            )
    return sentences


def best_predictor(accuracies: Mapping[str, float]) -> tuple[str, float]:
    """Name and accuracy of the predictor furthest from .5; one that is mostly wrong is inverted."""
    name = max(accuracies, key=lambda name: abs(accuracies[name] - 0.5))
    return name, max(accuracies[name], 1 - accuracies[name])
