"""The modules that sentence-transformers adds to a bare encoder: a cross-encoder's head, or the layers of a text's vector."""

import glob
import json
import os
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json
from harp_jax.checkpoints.recorded import is_workdir, recorded_config
from harp_jax.model.encoders.encoder import Encoder, EncoderConfig, Tensors
from harp_jax.text.tokenizer import SHORTEST

MODULES, PROMPTS, LENGTH = "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"
STEPS = ("Normalize", "Identity", "Tanh")  # after the pooling of a sentence encoder
NORM_EPS = 1e-5  # of sentence-transformers' LayerNorm, which does not record it
OWN = ("sentence_transformers.", "torch.nn.")  # packages of modules; others are custom code that comes with the model
WEIGHTS = "model.safetensors"
PICKLED = "pytorch_model*.bin"  # one file, or shards
AGAIN = "fetch the model again"
STAGE = "retriever"  # of a training of vectors


class Module(NamedTuple):
    """A module after the encoder."""

    kind: str  # its class
    name: str  # its pooling, the activation of a dense layer, or its class
    fields: dict[str, Any]  # config.json
    tensors: Tensors


class Embedding(NamedTuple):
    """How to compute a text's vector from hidden states."""

    pooling: str = "mean"
    steps: tuple[str, ...] = ()  # after the pooling: the activation of a dense layer, or "Normalize"
    dense: tuple[Tensors, ...] = ()  # "kernel" [in, out] and "bias" [out] of each dense layer
    prompts: tuple[str, str] = ("", "")  # before every query and every document
    max_length: int | None = None  # tokens to read per text; None: the encoder's maximum
    recorded: bool = False  # whether the files name the pooling


def modular_head(directory: str, encoder: Encoder, shape: EncoderConfig) -> tuple[str, Tensors] | None:
    """The head: its pooling, and the tensors of the encoder's own pooler and score by their Hugging Face names. None if
    modules.json lists no score, as for a sentence encoder. InputError for a head that the encoder does not have."""
    path, modules = os.path.join(directory, MODULES), _modules(directory)
    if not _has_score(modules):
        return None
    names = [module.name for module in modules]
    wanted = [[pooling, *encoder.modules, "Identity"] for pooling in encoder.poolings]
    if names not in wanted:
        raise InputError(
            f"{path}: its head ({', '.join(names)}) is not supported for {shape.model_type}, only "
            f"{' or '.join(map(', '.join, wanted))}; use another model"
        )
    groups = encoder.leaves(shape)
    pooler = {leaf.path[-1]: leaf.name for leaf in groups["pooler"]}
    score = {leaf.path[-1]: leaf.name for leaf in groups["score"]}
    pooling, *inner, last = modules
    weight = last.tensors.get("linear.weight", np.zeros((0, 0), np.float32))
    if weight.shape != (1, shape.hidden):
        raise InputError(
            f"{path}: its score layer has a weight of shape {weight.shape}, not {(1, shape.hidden)}; {AGAIN}"
        )
    bias, tensors = last.tensors.get("linear.bias", np.zeros(1, np.float32)), {score["kernel"]: weight}
    for module in inner:
        given = module.tensors
        if "norm.weight" in given and "norm.bias" in given:
            if shape.layer_norm_eps != NORM_EPS:
                raise InputError(f"{path}: its LayerNorm's eps is {NORM_EPS}, not the encoder's {shape.layer_norm_eps}")
            tensors[pooler["scale"]] = given["norm.weight"]
            bias = bias + weight @ given["norm.bias"]  # ModernBERT's norm has none
        elif "linear.weight" in given:
            tensors[pooler["kernel"]] = given["linear.weight"]
            if "bias" in pooler:
                tensors[pooler["bias"]] = given.get("linear.bias", np.zeros(shape.hidden, np.float32))
            elif "linear.bias" in given:
                raise InputError(f"{path}: its dense layer has a bias, unlike {shape.model_type}'s; use another model")
        else:
            raise InputError(f"{path}: its module {module.kind} has no {WEIGHTS} with its weights; {AGAIN}")
    return pooling.name, {**tensors, score["bias"]: bias}


def embedding(directory: str, hidden: int) -> Embedding:
    """How sentence-transformers' files define a text's vector; without them, it is the mean of hidden states. For a cross-encoder
    only the pooling counts. InputError for a module that is not supported."""
    path, modules = os.path.join(directory, MODULES), _modules(directory)
    alone = os.path.join(directory, "1_Pooling", "config.json")
    if not os.path.exists(path) and os.path.exists(alone):
        fields = read_json(alone)
        modules = [Module("Pooling", _name("Pooling", fields), fields, {})]
    if _has_score(modules):
        modules = modules[:1]
    pooling = modules[0].name if modules else "mean"

    # Prompts. That of documents has several names in sentence-transformers; the first with a text counts.
    named = _optional(os.path.join(directory, PROMPTS)).get("prompts") or {}
    if not isinstance(named, dict) or not all(isinstance(text, str) for text in named.values()):
        raise InputError(f"{directory}/{PROMPTS}: prompts={named!r} is not an object of texts; {AGAIN}")
    document = next((text for name in ("document", "passage", "corpus") if (text := named.get(name))), "")
    prompts = named.get("query", ""), document
    if pooling not in ("mean", "cls") or (
        any(prompts) and modules and not modules[0].fields.get("include_prompt", True)
    ):
        advice = "use an encoder that pools by mean or cls, including its prompt"
        raise InputError(f"{path}: pooling {pooling!r} is not supported; {advice}")

    # Dense layers and normalisation, which follow the pooling.
    size, dense = hidden, []
    for module in modules[1:]:
        if module.name not in STEPS:
            allowed = "only Normalize, and Dense with Identity or Tanh, may follow the pooling; use another encoder"
            raise InputError(f"{path}: its module {module.kind} ({module.name}) is not supported; {allowed}")
        if module.name != "Normalize":
            weight = module.tensors.get("linear.weight", np.zeros(0, np.float32))
            if weight.shape[1:] != (size,):
                wrong = f"has a weight of shape {weight.shape} in {WEIGHTS}, not [any, {size}]"
                raise InputError(f"{path}: its module {module.kind} {wrong}; {AGAIN}")
            size = len(weight)
            dense.append({"kernel": weight.T, "bias": module.tensors.get("linear.bias", np.zeros(size, np.float32))})

    # The length at which sentence-transformers truncates a text, often less than the encoder's positions.
    length, steps = _length(directory, 1), tuple(module.name for module in modules[1:])
    return Embedding(pooling, steps, tuple(dense), prompts, length, recorded=bool(modules))


def pair_length(directory: str) -> int | None:
    """The maximum tokens of a pair in CrossEncoder; None: those of the tokenizer. InputError for a prompt that it puts before every
    query."""
    path = os.path.join(directory, PROMPTS)
    fields = _optional(path)
    if fields.get("model_type") != "CrossEncoder" or not os.path.exists(os.path.join(directory, MODULES)):
        return None
    named, default = fields.get("prompts"), fields.get("default_prompt_name")
    if default is not None and isinstance(named, dict) and (prompt := named.get(str(default))):
        raise InputError(
            f"{path}: the default prompt {prompt!r} is not supported for a cross-encoder; use another model"
        )
    return _length(directory, SHORTEST)


def embedding_of(config: ConfigDict) -> Embedding:
    """How the training of `config` computes vectors."""
    query, document = config.prompts or ("", "")
    return Embedding(config.pooling, ("Normalize",), (), (query, document), config.row_length, recorded=True)


def recorded_embedding(directory: str, hidden: int) -> Embedding:
    """`embedding`, or that of a training workdir."""
    config = recorded_config(directory) if is_workdir(directory) else ConfigDict()
    return embedding_of(config) if config.get("stage") == STAGE else embedding(directory, hidden)


def check_not_pickled(directory: str) -> None:
    """InputError for pickled weights, with a command that converts them."""
    pickled = os.path.join(glob.escape(directory), PICKLED)
    if files := sorted(glob.glob(pickled)):
        raise InputError(
            f"no {WEIGHTS} in {directory}; {os.path.basename(files[0])} is a pickle, which can execute code and is not read here; "
            'convert it: python -c "import glob, torch, safetensors.torch as s; s.save_file({k: v.clone() for f in '
            f"glob.glob({pickled!r}) for k, v in torch.load(f, weights_only=True).items()}}, "
            f'{os.path.join(directory, WEIGHTS)!r})"'
        )


def _length(directory: str, least: int) -> int | None:
    length = _optional(os.path.join(directory, LENGTH)).get("max_seq_length")
    if length is not None and (not isinstance(length, int) or length < least):
        wrong = f"max_seq_length={length!r} is not a number of tokens from {least}"
        raise InputError(f"{directory}/{LENGTH}: {wrong}; {AGAIN}")
    return length


def _has_score(modules: list[Module]) -> bool:
    return any(module.kind == "LogitScore" or module.fields.get("module_output_name") == "scores" for module in modules)


def _modules(directory: str) -> list[Module]:
    """The modules after the encoder; empty without modules.json. InputError if the first module is not an encoder."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path, modules = os.path.join(directory, MODULES), []
    if not os.path.exists(path):
        return []
    try:
        with open(path, encoding="utf-8") as file:
            listed = json.load(file)
        kinds = [module["type"] for module in listed]
        first = kinds[0].rpartition(".")[2]
        for module in listed[1:]:
            folder, kind = os.path.join(directory, os.path.basename(module["path"])), module["type"].rpartition(".")[2]
            fields, weights = _optional(os.path.join(folder, "config.json")), os.path.join(folder, WEIGHTS)
            if not os.path.exists(weights):
                check_not_pickled(folder)
            tensors = load_file(weights) if os.path.exists(weights) else {}
            modules.append(Module(kind, _name(kind, fields), fields, tensors))
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} or a module that it lists is damaged ({error}); {AGAIN}") from error
    if custom := [kind for kind in kinds if not kind.startswith(OWN)]:
        wrong = "is custom code, which is not executed here; use another model"
        raise InputError(f"{path}: its module {custom[0]} {wrong}")
    if first != "Transformer":
        raise InputError(f"{path}: its first module is {first}, not Transformer; use another model")
    return modules


def _optional(path: str) -> dict[str, Any]:
    return read_json(path, AGAIN) if os.path.exists(path) else {}


def _name(kind: str, fields: dict[str, Any]) -> str:
    if kind == "Dense" and not fields.get("use_residual"):
        return str(fields.get("activation_function")).rpartition(".")[2]
    if kind != "Pooling":
        return kind
    if "pooling_mode" in fields:  # since sentence-transformers 5.4
        return str(fields["pooling_mode"])
    modes = [name for name, on in fields.items() if name.startswith("pooling_mode_") and on]
    short = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    return short.get(modes[0], modes[0]) if len(modes) == 1 else ", ".join(modes)
