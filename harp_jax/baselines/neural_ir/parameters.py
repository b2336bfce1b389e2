"""A neural ranker's parameters on disk: the selected ones as one safetensors file, or a checkpoint's."""

import os
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from harp_jax.base.digests import check_sums, write_sums
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.baselines.neural_ir.shape import NeuralConfig
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.recorded import best, read_config
from harp_jax.text.words import WordVocabulary, load_words

PARAMETERS = "parameters.safetensors"


def save_selected(directory: str, params: dict[str, Any]) -> None:
    """Writes a parameter tree (numpy) as one safetensors file."""
    from safetensors.numpy import save

    with replacing(os.path.join(directory, PARAMETERS), "wb") as file:
        file.write(save({name: np.ascontiguousarray(leaf) for name, leaf in flatten_dict(params, sep="/").items()}))
    write_sums(directory, [PARAMETERS])


def load_selected(directory: str) -> dict[str, Any]:
    """What `save_selected` wrote; InputError where it is damaged, changed or missing."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    check_sums(directory)
    path = os.path.join(directory, PARAMETERS)
    try:
        return unflatten_dict(load_file(path), sep="/")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: {error}; the selected parameters are damaged, train again") from error


def load_ranker(workdir: str) -> tuple[NeuralConfig, dict[str, Any], WordVocabulary]:
    """Shape, parameters (numpy float32) and vocabulary of a trained neural ranker.

    The parameters are those that the training selected (`recorded.best`), or those of its newest checkpoint, without
    the rows that sharding added to the word vectors. Raises InputError where there is nothing to load.
    """
    config = read_config(workdir)
    if "neural_ir" not in config:
        raise InputError(f"{workdir} holds no neural ranker; check the path")
    selected = best(workdir)
    if selected:
        params = load_selected(selected["model"])
    else:
        params, _ = load_params(workdir)
    words = load_words(os.path.join(workdir, "tokenizer"))
    params = {name: tree[: words.size] if name == "vectors" else tree for name, tree in params.items()}
    return NeuralConfig(**config.neural_ir), params, words
