"""The first layers of an encoder as a start of its own: a third of the time, and a start that supervision has not finished."""

import os
from dataclasses import replace

from harp_jax.base.errors import InputError
from harp_jax.base.files import sha256_file
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.text.tokenizer import load_tokenizer


def write_first_layers(encoder: str, layers: int, output: str, sha256: str = "") -> None:
    """Writes embeddings and first `layers` layers of a Hugging Face encoder, without its heads, as a directory of the same kind.

    The heads belong to the last layer. Raises InputError if the encoder has fewer layers, or if its `model.safetensors` does not
    have the wanted `sha256`.
    """
    if sha256:
        check_sha256(os.path.join(encoder, "model.safetensors"), sha256)
    shape, params = load_hf(encoder)
    if not 1 <= layers <= shape.layers:
        raise InputError(f"{encoder} has {shape.layers} layers; choose --layers from 1 to {shape.layers}, not {layers}")
    kept = {name: tree for name, tree in params["encoder"].items() if _layer(name) < layers}
    save_hf(output, replace(shape, layers=layers), {"encoder": kept}, load_tokenizer(encoder), "")


def _layer(name: str) -> int:
    """The number of a layer from its name in the tree; -1 for the embeddings."""
    head, _, number = name.rpartition("_")
    return int(number) if head == "layer" else -1


def check_sha256(path: str, wanted: str) -> None:
    """Raises InputError unless the file has the hash."""
    found = sha256_file(path)
    if found != wanted:
        raise InputError(f"{path} has sha256 {found}, not {wanted}; it is another model or damaged: fetch it again")
