"""Reads and writes Hugging Face directories without torch; names and shapes of tensors are defined with each encoder."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_sums, listed_sums, output_folder, read_json
from harp_jax.base.version import __version__
from harp_jax.checkpoints import sentence_transformers as st
from harp_jax.checkpoints.sentence_transformers import LENGTH, MODULES, PROMPTS, WEIGHTS
from harp_jax.model.encoders.encoder import WORDS, EncoderConfig
from harp_jax.model.encoders.table import ENCODERS, encoder_of
from harp_jax.text.tokenizer import MARKS, NO_MARKS, Marks, Tokenizer, check_no_custom_code, read_model_config

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
IDENTITY = "torch.nn.modules.linear.Identity"  # the score is a raw logit; CrossEncoder's default would be a sigmoid
PACKAGE = "sentence_transformers.models"  # where sentence-transformers 2 to 6 find the modules of vectors
MARK = "harp_jax_version"  # field of config.json in exports of `save_hf`
HEADS = ("pooler", "score", "mlm")
# Vocabulary rows added so that sharding divides them; more than this is another vocabulary.
MAX_PADDING_ROWS = 127


def check_vocabulary(tokenizer: Tokenizer, config: EncoderConfig, where: str) -> None:
    """InputError unless all ids and token types of the tokenizer have embeddings (a few rows of padding are allowed), and, if the
    encoder counts positions from its padding id, the tokenizer pads with that id."""
    types = tokenizer.template.second_type + 1
    fits = 0 <= config.vocab_size - tokenizer.size <= MAX_PADDING_ROWS
    if not fits or 0 < config.type_vocab < types:
        raise InputError(
            f"the tokenizer has {tokenizer.size} tokens and {types} token types, but {where} has {config.vocab_size} word "
            f"embeddings and {config.type_vocab} token types; use the tokenizer that the model was trained with"
        )
    if config.first_position not in (0, tokenizer.pad + 1):
        raise InputError(
            f"the tokenizer pads with id {tokenizer.pad}, but {where} has pad_token_id {config.first_position - 1}, which its "
            "positions follow; use the tokenizer that the model was trained with"
        )


def load_hf(directory: str) -> tuple[EncoderConfig, dict[str, Any]]:
    """(shape, parameter tree of numpy float32) of a Hugging Face directory with safetensors, whose model type is in ENCODERS. Heads
    that the checkpoint lacks are absent from the tree: "pooler", "mlm", and "score", a classifier with one label (other heads and
    classifiers are not relevance scores and are left out). Raises InputError with the file and the tensor if something is missing
    or has another shape, and for files that were changed since they were exported (SHA256SUMS)."""
    check_sums(directory)
    path = os.path.join(directory, CONFIG)
    fields = read_json(path, "write or fetch it again")
    check_no_custom_code(fields, path)
    encoder = encoder_of(fields.get("model_type"), path)
    if CONFIG not in listed_sums(directory):  # else harp_jax wrote it, with all fields
        fields = read_model_config(directory)
    shape = encoder.from_config(fields, path)
    state = encoder.read(_read_tensors(directory), directory)
    if head := st.modular_head(directory, encoder, shape):
        shape, state = replace(shape, pooling=head[0]), {**state, **head[1]}
    return shape, _tree(state, shape, directory)


def _tree(state: dict[str, np.ndarray], config: EncoderConfig, where: str) -> dict[str, Any]:
    groups = ENCODERS[config.model_type].leaves(config)
    known = {leaf.name for leaf in groups["encoder"]}
    roots = {name.partition(".")[0] for name in known}  # other tensors are heads, which may be of any kind
    layers = {name for name in state if name.partition(".")[0] in roots and re.search(r"\.\d+\.", name)}
    wrong = [f"{name} has no place in config.json" for name in sorted(layers - known)]
    tree: dict[str, Any] = {}
    for group, leaves in groups.items():
        if group in HEADS and not any(leaf.name in state for leaf in leaves):
            continue
        for leaf in leaves:
            tensor = state.get(leaf.name)
            if tensor is None:
                wrong.append(f"{leaf.name} is missing")
            elif tensor.shape != leaf.stored:
                wrong.append(f"{leaf.name} has shape {tensor.shape}, but {leaf.stored} by config.json")
            elif tensor.dtype.kind != "f" and tensor.dtype.name != "bfloat16":
                wrong.append(f"{leaf.name} is quantised ({tensor.dtype})")
            else:
                array = np.asarray(tensor, np.float32)
                node = tree
                for part in leaf.path[:-1]:
                    node = node.setdefault(part, {})
                node[leaf.path[-1]] = np.ascontiguousarray(array.T if leaf.transposed else array).reshape(leaf.shape)
    if wrong:
        more = f" (and {len(wrong) - 1} more such tensors)" if len(wrong) > 1 else ""
        raise InputError(f"{where}: tensor {wrong[0]}{more}; use a complete float model with its own config.json")
    return tree


def _read_tensors(directory: str) -> dict[str, np.ndarray]:
    """All tensors of model.safetensors, or of the shards that its index lists."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path, index = os.path.join(directory, WEIGHTS), os.path.join(directory, INDEX)
    if not os.path.exists(path) and not os.path.exists(index):
        st.check_not_pickled(directory)
        raise InputError(f"no {WEIGHTS} in {directory}; fetch or write the whole model again")
    tensors: dict[str, np.ndarray] = {}
    try:
        names = {WEIGHTS} if os.path.exists(path) else {*read_json(index, "fetch it again")["weight_map"].values()}
        for name in sorted(names):
            path = os.path.join(directory, os.path.basename(name))
            tensors.update(load_file(path))
    except (SafetensorError, OSError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} or its index is damaged: {error}; fetch or write it again") from error
    return tensors


def save_hf(
    directory: str,
    config: EncoderConfig,
    params: dict[str, Any],
    tokenizer: Tokenizer,
    model_card: str,
    marks: Marks = NO_MARKS,
    more: Callable[[str], None] | None = None,
    layout: Mapping[str, Any] | None = None,
) -> None:
    """Writes a Hugging Face directory that transformers' Auto classes and sentence-transformers' CrossEncoder load. Heads absent
    from `params` are absent from the file. Without the MLM head the file has the tensors of sequence classification and no others,
    so that strict loaders (Text Embeddings Inference, vLLM) accept it; `Encoder.exported_as` names the class. Rows of the
    vocabulary beyond the tokenizer's (padding for sharding) are left out. `more(directory)` may add files; `layout`:
    sentence-transformers' files (name → JSON), by default those of a cross-encoder if `params` has a score. The directory appears
    complete or not at all; InputError unless it is replaceable (`files.output_folder`)."""
    check_vocabulary(tokenizer, config, "the parameter tree")
    config = replace(config, vocab_size=tokenizer.size)
    encoder, max_length = ENCODERS[config.model_type], min(tokenizer.max_length, config.max_positions)
    fields = {
        "architectures": [encoder.exported_as(params)],
        MARK: __version__,
        **encoder.to_config(config),
        "tie_word_embeddings": True,
        "pad_token_id": tokenizer.pad,
        # One label, so that sequence classification returns the score.
        "num_labels": 1,
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        # Without it CrossEncoder of sentence-transformers 4 and 5, and vLLM, put a sigmoid on the score.
        "sentence_transformers": {"activation_fn": IDENTITY},
        "torch_dtype": "float32",
    }
    if marks.ids:
        fields[MARKS] = [tokenizer.tokens[i] if i >= 0 else "" for i in (marks.query, marks.document)]
    if layout is None and "score" in params:  # as sentence-transformers 6 describes a CrossEncoder
        module = "sentence_transformers.base.modules.transformer.Transformer"
        method = {"text": {"method": "forward", "method_output_name": "logits"}}
        layout = {
            MODULES: [{"idx": 0, "name": "0", "path": "", "type": module}],
            PROMPTS: {
                "model_type": "CrossEncoder",
                "activation_fn": IDENTITY,
                "prompts": {},
                "default_prompt_name": None,
            },
            LENGTH: {
                "transformer_task": "sequence-classification",
                "modality_config": method,
                "module_output_name": "scores",
                "max_seq_length": max_length,  # Text Embeddings Inference does not start without it
            },
        }
    with output_folder(directory) as folder:
        for name, content in {CONFIG: fields, **(layout or {})}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                json.dump(content, file, indent=2)
        _save(hf_tensors(config, params), folder)
        types = tokenizer.token_types and config.type_vocab > 1
        replace(tokenizer, max_length=max_length, token_types=types).write(folder)
        with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
            file.write(model_card)
        if more is not None:
            more(folder)


def _save(tensors: dict[str, np.ndarray], folder: str) -> None:
    """Writes the parameters of a folder that has its config.json, for the same readers."""
    from safetensors.numpy import save_file

    save_file(tensors, os.path.join(folder, WEIGHTS), metadata={"format": "pt"})
    shutil.copymode(os.path.join(folder, CONFIG), os.path.join(folder, WEIGHTS))  # safetensors writes 0600


def save_vectors(
    directory: str,
    shape: EncoderConfig,
    params: dict[str, Any],
    tokenizer: Tokenizer,
    made: st.Embedding,
    card: str,
    more: Callable[[str], None] | None = None,
) -> None:
    """Writes a bi-encoder as Transformer, Pooling, the steps of `made`, and prompts; AutoModel loads it, too. `more`: as in
    `save_hf`."""
    poolings = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    query, document = made.prompts
    layout: dict[str, Any] = {
        "1_Pooling/config.json": {
            "word_embedding_dimension": shape.hidden,
            **{f"pooling_mode_{name}": name.startswith(made.pooling) and "sqrt" not in name for name in poolings},
            "include_prompt": True,
        },
        PROMPTS: {
            "prompts": {"query": query, "document": document},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        LENGTH: {"max_seq_length": made.max_length, "do_lower_case": False},
    }
    modules, dense, tensors = [("", "Transformer"), ("1_Pooling", "Pooling")], iter(made.dense), {}
    for number, step in enumerate(made.steps, 2):
        kind = "Normalize" if step == "Normalize" else "Dense"
        path = f"{number}_{kind}"
        modules.append((path, kind))
        if kind == "Dense":
            layer = next(dense)
            size, out = layer["kernel"].shape
            activation = IDENTITY if step == "Identity" else f"torch.nn.modules.activation.{step}"
            fields = {"in_features": size, "out_features": out, "bias": True, "activation_function": activation}
            layout[f"{path}/{CONFIG}"] = fields
            tensors[path] = {"linear.weight": np.ascontiguousarray(layer["kernel"].T), "linear.bias": layer["bias"]}
    kinds = [(path, f"{PACKAGE}.{kind}") for path, kind in modules]
    layout[MODULES] = [{"idx": n, "name": str(n), "path": path, "type": kind} for n, (path, kind) in enumerate(kinds)]

    def add(folder: str) -> None:
        for path, layer in tensors.items():
            _save(layer, os.path.join(folder, path))
        if more is not None:
            more(folder)

    save_hf(directory, shape, {"encoder": params["encoder"]}, tokenizer, card, more=add, layout=layout)


def hf_tensors(config: EncoderConfig, params: dict[str, Any]) -> dict[str, np.ndarray]:
    """The tensors of a parameter tree under their Hugging Face names, float32; `config.vocab_size` rows of the vocabulary."""
    state: dict[str, np.ndarray] = {}
    for group, leaves in ENCODERS[config.model_type].leaves(config).items():
        if group in HEADS and group not in params:
            continue
        for leaf in leaves:
            value: Any = params
            for part in leaf.path:
                value = value[part]
            tensor = np.asarray(value, np.float32)
            if leaf.path in (("encoder", *WORDS), ("mlm", "bias")):
                tensor = tensor[: config.vocab_size]
            if leaf.transposed:
                tensor = tensor.reshape(leaf.stored[::-1]).T
            state[leaf.name] = np.ascontiguousarray(tensor.reshape(leaf.stored))
    return ENCODERS[config.model_type].written(state)
