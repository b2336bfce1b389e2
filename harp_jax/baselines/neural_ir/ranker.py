"""The loss that trains a neural ranker, and its parameters on disk."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_sums, replacing, write_sums
from harp_jax.baselines.neural_ir.models import NeuralConfig, WordTables
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.recorded import best, read_config
from harp_jax.objectives.losses import ranking_loss
from harp_jax.objectives.objective import Batch, Metrics
from harp_jax.text.words import WordVocabulary, load_words

PARAMETERS = "parameters.safetensors"


@dataclass(frozen=True)
class NeuralRank:
    """A ranking loss over each group's scores; an `Objective` without masking. Batches are those of `groups.GroupLayout`."""

    ranker: nn.Module
    tables: WordTables
    rank_loss: str
    predictions: int = 0

    def mask(self, batch: Batch, key: jax.Array) -> Batch:
        return batch

    def counts(self, masked: Batch) -> Metrics:
        present = masked["present"]
        return {"groups": present.any(-1).sum(), "members": present.sum(), "negatives": present[:, 1:].sum()}

    def loss(
        self, params: Mapping, masked: Batch, dropout_key: jax.Array | None, counts: Metrics
    ) -> tuple[jax.Array, Metrics]:
        groups, size = masked["present"].shape
        documents = masked["tokens"]
        query = jnp.repeat(masked["query"], size, axis=0)
        rngs = {} if dropout_key is None else {"dropout": dropout_key}
        scores = jnp.asarray(
            self.ranker.apply(
                {"params": params}, query, documents, self.tables, deterministic=dropout_key is None, rngs=rngs
            )
        )
        loss, metrics = ranking_loss(self.rank_loss, scores.reshape(groups, size), masked["present"], counts)
        metrics["tokens"] = (documents > 0).sum().astype(jnp.float32)
        metrics["slots"] = jnp.asarray(documents.size, jnp.float32)
        return loss, metrics


def save_selected(directory: str, params: dict[str, Any]) -> None:
    """Writes a parameter tree (numpy) as one safetensors file."""
    from safetensors.numpy import save

    with replacing(os.path.join(directory, PARAMETERS), "wb") as file:
        file.write(save({name: np.ascontiguousarray(leaf) for name, leaf in flatten_dict(params, sep="/").items()}))
    write_sums(directory, [PARAMETERS])


def load_ranker(workdir: str) -> tuple[NeuralConfig, dict[str, Any], WordVocabulary]:
    """Shape, parameters (numpy float32) and vocabulary of a trained neural ranker.

    The parameters are the ones selected in training (`recorded.best`), or else the newest checkpoint's, without the rows that
    sharding added to the word vectors. Raises InputError if there is nothing to load.
    """
    from safetensors.numpy import load_file

    config = read_config(workdir)
    if "neural_ir" not in config:
        raise InputError(f"{workdir} holds no neural ranker; check the path")
    selected = best(workdir)
    if selected:
        check_sums(selected["model"])
        params = unflatten_dict(load_file(os.path.join(selected["model"], PARAMETERS)), sep="/")
    else:
        params = load_params(workdir)[0]
    words = load_words(os.path.join(workdir, "tokenizer"))
    params = {name: tree[: words.size] if name == "vectors" else tree for name, tree in params.items()}
    return NeuralConfig(**config.neural_ir), params, words
