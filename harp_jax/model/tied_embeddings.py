"""One all-reduce for the gradient of the tied word embeddings, which is the sum of two: embedding lookup and MLM decoder.

The partitioner inserts an all-reduce right after each of the two operations, and XLA does not merge them: 90 MiB of
BERT-base's gradients would be sent twice. Here the operations read a copy of the embeddings per part of the rows,
[parts, vocab, hidden] sharded by parts (so that a device still holds one copy); the gradients have the same shape and are
added on each device, and the sum over the parts, which is the transpose of copying, comes last.
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

    Returns them unchanged if the mesh also shards parameters (fsdp, model): their gradients are reduce-scattered already.
    """
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
    """function(words, *rows) for words [vocab, hidden]; for [parts, vocab, hidden], each part of the rows with its own copy.

    `rows` and the results are arrays [rows, ...]; a part is a block of consecutive rows, as on a mesh.
    """
    if words.ndim == 2:
        return function(words, *rows)
    parts = len(words)
    out = jax.vmap(function)(words, *(x.reshape(parts, -1, *x.shape[1:]) for x in rows))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), out)
