"""A neural ranker's parameters on disk: one safetensors file."""

import os
from typing import Any

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from harp_jax.errors import InputError
from harp_jax.files import replacing

PARAMETERS = "parameters.safetensors"


def save_selected(directory: str, params: dict[str, Any]) -> None:
    """Writes a parameter tree (numpy) as one safetensors file."""
    from safetensors.numpy import save

    with replacing(os.path.join(directory, PARAMETERS), "wb") as file:
        file.write(save({name: np.ascontiguousarray(leaf) for name, leaf in flatten_dict(params, sep="/").items()}))


def load_selected(directory: str) -> dict[str, Any]:
    """What `save_selected` wrote; InputError where it is damaged or missing."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = os.path.join(directory, PARAMETERS)
    try:
        return unflatten_dict(load_file(path), sep="/")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: {error}; the selected parameters are damaged, train again") from error
