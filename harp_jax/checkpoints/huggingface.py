"""Hugging Face directories to the parameter tree and back, without torch; the encoders have the names and shapes."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_sums, output_folder, read_json, replacing
from harp_jax.base.version import __version__
from harp_jax.model.encoders.encoder import WORDS, EncoderShape
from harp_jax.model.encoders.table import ENCODERS, encoder_of
from harp_jax.text.tokenizer import MARKS, NO_MARKS, Marks, Tokenizer

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MARK = "harp_jax_version"  # in config.json of what `save_hf` wrote
HEADS = ("pooler", "score", "mlm")
# Vocabulary rows added so that sharding divides them; more than this is another vocabulary.
MAX_PADDING_ROWS = 127


def check_vocabulary(tokenizer: Tokenizer, config: EncoderShape, where: str) -> None:
    """InputError unless the tokenizer's ids are rows of the embedding (a few rows of padding are allowed)."""
    if not 0 <= config.vocab_size - tokenizer.size <= MAX_PADDING_ROWS:
        raise InputError(
            f"the tokenizer has {tokenizer.size} tokens, but {where} has {config.vocab_size} word embeddings; "
            "use the tokenizer that the model was trained with"
        )
    if 0 < config.type_vocab <= tokenizer.template.second_type:
        raise InputError(
            f"the tokenizer gives documents the token type {tokenizer.template.second_type}, but {where} has "
            f"{config.type_vocab}; use a model of pairs"
        )


def load_hf(directory: str) -> tuple[EncoderShape, dict[str, Any]]:
    """(shape, parameter tree of numpy float32) of any Hugging Face directory of ENCODERS with safetensors.

    Heads that the checkpoint lacks are absent from the tree: "pooler", "mlm", and "score", which is a classifier with
    one label (an NSP head or a classifier with more labels is no relevance score and is left out).
    Raises InputError with the file and the tensor if something is missing or has another shape, and for files that were
    changed since they were exported (`digests`).
    """
    check_sums(directory)
    path = os.path.join(directory, "config.json")
    fields = _read_config(path)
    encoder = encoder_of(fields.get("model_type"), f"{path}: model_type")
    shape = encoder.from_config(fields, path)
    return shape, _tree(encoder.read(_read_tensors(directory), directory), shape, directory)


def _tree(state: dict[str, np.ndarray], config: EncoderShape, where: str) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    groups = ENCODERS[config.model_type].leaves(config)
    known = {leaf.name for leaf in groups["encoder"]}
    roots = {name.partition(".")[0] for name in known}  # other tensors are heads, which may be of any kind
    layers = {name for name in state if name.partition(".")[0] in roots and re.search(r"\.\d+\.", name)}
    if stray := sorted(layers - known):
        raise InputError(
            f"{where}: config.json has no place for tensor {stray[0]}; config and weights do not belong together"
        )
    for group, leaves in groups.items():
        missing = [leaf.name for leaf in leaves if leaf.name not in state]
        if group in HEADS and len(missing) == len(leaves):
            continue
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InputError(f"{where}: tensor {missing[0]}{more} missing; the checkpoint is incomplete")
        for leaf in leaves:
            tensor = state[leaf.name]
            if tensor.shape != leaf.stored:
                raise InputError(
                    f"{where}: tensor {leaf.name} has shape {tensor.shape}, config.json has {leaf.stored}; "
                    "config and weights do not belong together"
                )
            if tensor.dtype.kind != "f" and tensor.dtype.name != "bfloat16":
                raise InputError(
                    f"{where}: tensor {leaf.name} is {tensor.dtype}, a quantised model; use its float original"
                )
            tensor = np.asarray(tensor, np.float32)
            node = tree
            for part in leaf.path[:-1]:
                node = node.setdefault(part, {})
            node[leaf.path[-1]] = np.ascontiguousarray(tensor.T if leaf.transposed else tensor).reshape(leaf.shape)
    return tree


def _read_config(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        raise InputError(f"no config.json in {os.path.dirname(path)!r}; use a Hugging Face directory")
    return read_json(path, "write or fetch it again")


def _read_tensors(directory: str) -> dict[str, np.ndarray]:
    """All tensors of model.safetensors, or of the shards that its index lists."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    names, index = [WEIGHTS], os.path.join(directory, INDEX)
    if not os.path.exists(os.path.join(directory, WEIGHTS)) and os.path.exists(index):
        shards = read_json(index, "fetch it again").get("weight_map")
        names = sorted(set(shards.values())) if isinstance(shards, dict) else []
        if not all(isinstance(name, str) and os.path.basename(name) == name for name in names):
            raise InputError(f"{index}: weight_map names files elsewhere; fetch it again")
    elif not os.path.exists(os.path.join(directory, WEIGHTS)):
        if os.path.exists(os.path.join(directory, "pytorch_model.bin")):
            raise InputError(
                f"{directory} holds pytorch_model.bin only, which is a pickle; convert it with transformers: "
                "AutoModel.from_pretrained(DIR).save_pretrained(DIR, safe_serialization=True)"
            )
        raise InputError(f"no {WEIGHTS} in {directory}; use a complete Hugging Face directory")
    tensors: dict[str, np.ndarray] = {}
    for path in (os.path.join(directory, name) for name in names):
        try:
            tensors.update(load_file(path))
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged: {error}; fetch or write it again") from error
    return tensors


def save_hf(
    directory: str,
    config: EncoderShape,
    params: dict[str, Any],
    tokenizer: Tokenizer,
    model_card: str,
    marks: Marks = NO_MARKS,
    more: Callable[[str], None] | None = None,
) -> None:
    """Writes a Hugging Face directory that transformers' Auto classes and sentence-transformers' CrossEncoder load.

    Heads absent from `params` are absent from the file. Without the MLM head the file has the tensors of sequence classification
    and no others, so that strict loaders (Text Embeddings Inference, vLLM) accept it; `Encoder.exported_as` names the class. Rows
    of the vocabulary beyond the tokenizer's (padding for sharding) are left out.

    `more(directory)` may add files. The directory appears complete or not at all; InputError unless it is replaceable
    (`files.output_folder`).
    """
    check_vocabulary(tokenizer, config, "the parameter tree")
    with output_folder(directory) as folder:
        _write(folder, replace(config, vocab_size=tokenizer.size), params, tokenizer, model_card, marks)
        if more is not None:
            more(folder)


def _write(
    directory: str, config: EncoderShape, params: dict[str, Any], tokenizer: Tokenizer, model_card: str, marks: Marks
) -> None:
    from safetensors.numpy import save_file

    save_file(_state(config, params), os.path.join(directory, WEIGHTS), metadata={"format": "pt"})
    encoder = ENCODERS[config.model_type]
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
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump(fields, file, indent=2)
    shutil.copymode(os.path.join(directory, "config.json"), os.path.join(directory, WEIGHTS))  # safetensors writes 0600
    max_length = min(tokenizer.max_length, config.max_positions)
    replace(tokenizer, max_length=max_length).write(directory)
    if "score" in params:
        write_layout(directory, max_length)
    with open(os.path.join(directory, "README.md"), "w", encoding="utf-8") as file:
        file.write(model_card)


def _state(config: EncoderShape, params: dict[str, Any]) -> dict[str, np.ndarray]:
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


IDENTITY = "torch.nn.modules.linear.Identity"  # the score is a raw logit; CrossEncoder's default would be a sigmoid
FILES = ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json")


def write_layout(directory: str, max_length: int) -> None:
    """Writes FILES to an export with a score head. `max_length`: tokens of query and document with the special ones."""
    module = "sentence_transformers.base.modules.transformer.Transformer"
    contents: tuple[Any, ...] = (
        [{"idx": 0, "name": "0", "path": "", "type": module}],
        {"model_type": "CrossEncoder", "activation_fn": IDENTITY, "prompts": {}, "default_prompt_name": None},
        {
            "transformer_task": "sequence-classification",
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
            "module_output_name": "scores",
            # Text Embeddings Inference does not start where this file lacks it.
            "max_seq_length": max_length,
        },
    )
    for name, content in zip(FILES, contents, strict=True):
        with replacing(os.path.join(directory, name)) as file:
            json.dump(content, file, indent=2)
            file.write("\n")
