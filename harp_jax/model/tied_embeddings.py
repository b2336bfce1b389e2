"""The gradient of the tied word embeddings travels once: looking words up and predicting them share one all-reduce.

The partitioner sums over the devices right behind each of the two operations, and XLA does not merge the sums: 90 MiB of
BERT-base's gradients would travel twice. Where the operations see a copy of the embeddings for each part of the rows,
[parts, vocab, hidden] cut by parts (so a device holds one, as before), their gradients are parts too and add up on the
device; the sum over the parts, which is the transpose of copying, comes last.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from harp_jax.model.attention import place_of
from harp_jax.model.sharding import BATCH


def copied(params: Mapping, tokens: jax.Array) -> Mapping:
    """The parameters with a copy of the word embeddings for each device along the data axis of the mesh of `tokens`.

    Where parameters are cut too (fsdp, model), nothing changes: their sums are scattered already.
    """
    mesh = place_of(tokens).mesh
    parts = 1 if mesh is None else mesh.shape.get("data", 1)
    if parts == 1 or parts != mesh.size:  # type: ignore[union-attr]
        return params
    embeddings = params["bert"]["embeddings"]
    words = embeddings["word"]["embedding"]
    copies = jax.lax.with_sharding_constraint(
        jnp.broadcast_to(words, (parts, *words.shape)),
        NamedSharding(mesh, BATCH),  # type: ignore[arg-type]
    )
    changed = {**embeddings, "word": {"embedding": copies}}
    return {**params, "bert": {**params["bert"], "embeddings": changed}}


def by_parts(function: Callable, words: jax.Array, *rows: jax.Array) -> Any:
    """function(words, *rows) with words [vocab, hidden], or each part of the rows with its own of [parts, vocab, hidden].

    `rows` and the results are arrays [rows, ...]; the parts are rows that lie together, as on a mesh.
    """
    if words.ndim == 2:
        return function(words, *rows)
    parts = len(words)
    out = jax.vmap(function)(words, *(x.reshape(parts, -1, *x.shape[1:]) for x in rows))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), out)
