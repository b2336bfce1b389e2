"""The head of a sentence-transformers cross-encoder of several modules: pooling, dense layers and norms on a bare encoder."""

import json
import os
from typing import Any, NamedTuple

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.model.encoders.encoder import Encoder, EncoderShape, Tensors

MODULES = "modules.json"
NORM_EPS = 1e-5  # of sentence-transformers' LayerNorm, which does not record it


class Head(NamedTuple):
    pooling: str
    tensors: Tensors  # of the pooler and the score, by the encoder's Hugging Face names


def modular_head(directory: str, encoder: Encoder, shape: EncoderShape) -> Head | None:
    """The head, as the encoder's own pooler and score; None where modules.json lists no score, as for a sentence encoder.

    InputError for a head that the encoder does not have.
    """
    path = os.path.join(directory, MODULES)
    if not os.path.exists(path):
        return None
    modules = _modules(directory, path)
    if not any(kind == "LogitScore" or fields.get("module_output_name") == "scores" for kind, fields, _ in modules):
        return None
    names = [_name(kind, fields) for kind, fields, _ in modules]
    wanted = [[pooling, *encoder.modules, "Identity"] for pooling in encoder.poolings]
    if names not in wanted:
        raise InputError(
            f"{path}: its head ({', '.join(names)}) is not one that {shape.model_type} has here "
            f"({' or '.join(map(', '.join, wanted))}); use another model"
        )
    return Head(names[0], _tensors(encoder, shape, [tensors for _, _, tensors in modules[1:]], path))


def _modules(directory: str, path: str) -> list[tuple[str, dict[str, Any], Tensors]]:
    """Class, config.json and tensors of each module behind the encoder."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    found = []
    try:
        with open(path, encoding="utf-8") as file:
            listed = json.load(file)
        for module in listed[1:]:
            folder = os.path.join(directory, os.path.basename(module["path"]))
            config, weights = os.path.join(folder, "config.json"), os.path.join(folder, "model.safetensors")
            fields = {}
            if os.path.exists(config):
                with open(config, encoding="utf-8") as file:
                    fields = dict(json.load(file))
            tensors = load_file(weights) if os.path.exists(weights) else {}
            found.append((module["type"].rpartition(".")[2], fields, tensors))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} or a module that it lists is damaged ({error}); fetch the model again") from error
    return found


def _name(kind: str, fields: dict[str, Any]) -> str:
    """A module by what it computes: the pooling, the activation of a dense layer, or its class."""
    if kind == "Pooling":
        return pooling_mode(fields)
    if kind == "Dense" and not fields.get("use_residual"):
        return str(fields.get("activation_function")).rpartition(".")[2]
    return kind


def pooling_mode(fields: dict[str, Any]) -> str:
    """The one pooling mode of a Pooling's config.json, also of one written before sentence-transformers 5.4."""
    if "pooling_mode" in fields:
        return str(fields["pooling_mode"])
    modes = [name for name, on in fields.items() if name.startswith("pooling_mode_") and on]
    short = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    return short.get(modes[0], modes[0]) if len(modes) == 1 else ", ".join(modes)


def _tensors(encoder: Encoder, shape: EncoderShape, modules: list[Tensors], path: str) -> Tensors:
    """Tensors by the names of the encoder's leaves. The norm's bias, which ModernBERT lacks, is a part of the score's bias."""
    groups = encoder.leaves(shape)
    pooler = {leaf.path[-1]: leaf.name for leaf in groups["pooler"]}
    score = {leaf.path[-1]: leaf.name for leaf in groups["score"]}
    *inner, last = modules
    weight = last.get("linear.weight", np.zeros((0, 0), np.float32))
    if weight.shape != (1, shape.hidden):
        raise InputError(f"{path}: its score has a weight of shape {weight.shape}, not {(1, shape.hidden)}")
    bias = last.get("linear.bias", np.zeros(1, np.float32))
    found = {score["kernel"]: weight}
    for tensors in inner:
        if not tensors.keys() >= {"linear.weight"} and not tensors.keys() >= {"norm.weight", "norm.bias"}:
            raise InputError(
                f"{path}: a module that it lists has no model.safetensors with its weights; fetch the model again"
            )
        if "norm.weight" in tensors:
            if shape.layer_norm_eps != NORM_EPS:
                raise InputError(f"{path}: its LayerNorm's eps is {NORM_EPS}, the encoder's {shape.layer_norm_eps}")
            found[pooler["scale"]] = tensors["norm.weight"]
            bias = bias + weight @ tensors["norm.bias"]
            continue
        found[pooler["kernel"]] = tensors["linear.weight"]
        if "bias" in pooler:
            found[pooler["bias"]] = tensors.get("linear.bias", np.zeros(shape.hidden, np.float32))
        elif "linear.bias" in tensors:
            raise InputError(f"{path}: its dense layer has a bias, which {shape.model_type} has not; use another model")
    return {**found, score["bias"]: bias}
