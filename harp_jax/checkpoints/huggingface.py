"""Hugging Face BERT directories to the parameter tree and back, without torch; `hf_tensors` has the names and shapes."""

import glob
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from harp_jax.base.digests import check_sums, output_folder
from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json
from harp_jax.base.version import __version__
from harp_jax.checkpoints.hf_tensors import bert_config_from_hf, bert_config_to_hf, leaves_of
from harp_jax.checkpoints.sentence_transformers_layout import write_layout
from harp_jax.model.bert import BertConfig
from harp_jax.text.marks import MARKS, NO_MARKS, Marks
from harp_jax.text.tokenizer import Tokenizer

WEIGHTS = "model.safetensors"
MARK = "harp_jax_version"  # in config.json of what `save_hf` wrote
HEADS = ("pooler", "score", "mlm")
# Vocabulary rows added so that sharding divides them; more than this is another vocabulary.
MAX_PADDING_ROWS = 127


def check_vocabulary(tokenizer: Tokenizer, config: BertConfig, where: str) -> None:
    """InputError unless the tokenizer's ids are rows of the embedding (a few rows of padding are allowed)."""
    if not 0 <= config.vocab_size - tokenizer.size <= MAX_PADDING_ROWS:
        raise InputError(
            f"the tokenizer has {tokenizer.size} tokens, but {where} has {config.vocab_size} word embeddings; "
            "use the tokenizer that the model was trained with"
        )


def load_hf(directory: str) -> tuple[BertConfig, dict[str, Any]]:
    """(config, parameter tree of numpy float32) of any Hugging Face BERT directory with safetensors.

    Heads that the checkpoint lacks are absent from the tree: "pooler", "mlm", and "score", which is a classifier with
    one label (an NSP head or a classifier with more labels is no relevance score and is left out).
    Raises InputError with the file and the tensor if something is missing or has another shape, and for files that were
    changed since they were exported (`digests`).
    """
    check_sums(directory)
    path = os.path.join(directory, "config.json")
    config = bert_config_from_hf(_read_config(path), path)
    state = {_canonical(name): tensor for name, tensor in _read_tensors(directory).items()}
    if "cls.predictions.decoder.bias" in state:
        state.setdefault("cls.predictions.bias", state["cls.predictions.decoder.bias"])
    if "classifier.weight" in state and state["classifier.weight"].shape[0] != 1:
        state = {name: tensor for name, tensor in state.items() if not name.startswith("classifier.")}
    decoder, words = state.get("cls.predictions.decoder.weight"), state.get("bert.embeddings.word_embeddings.weight")
    if decoder is not None and words is not None and not np.array_equal(decoder, words):
        raise InputError(f"{directory}: the MLM decoder is not tied to the word embeddings; use a model where it is")
    return config, _tree(state, config, directory)


def _tree(state: dict[str, np.ndarray], config: BertConfig, where: str) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for group, leaves in leaves_of(config).items():
        missing = [leaf.name for leaf in leaves if leaf.name not in state]
        if group in HEADS and len(missing) == len(leaves):
            continue
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise InputError(f"{where}: tensor {missing[0]}{more} missing; the checkpoint is incomplete or no BERT")
        for leaf in leaves:
            tensor = state[leaf.name]
            if tensor.shape != leaf.stored:
                raise InputError(
                    f"{where}: tensor {leaf.name} has shape {tensor.shape}, config.json has {leaf.stored}; "
                    "config and weights do not belong together"
                )
            tensor = np.asarray(tensor, np.float32)
            node = tree
            for part in leaf.path[:-1]:
                node = node.setdefault(part, {})
            node[leaf.path[-1]] = np.ascontiguousarray(tensor.T if leaf.transposed else tensor).reshape(leaf.shape)
    return tree


def _canonical(name: str) -> str:
    """Old checkpoints have gamma and beta; a bare BertModel lacks the "bert." prefix."""
    name = name.removesuffix(".gamma") + ".weight" if name.endswith(".gamma") else name
    name = name.removesuffix(".beta") + ".bias" if name.endswith(".beta") else name
    return f"bert.{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name


def _read_config(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        raise InputError(f"no config.json in {os.path.dirname(path)!r}; use a Hugging Face BERT directory")
    return read_json(path, "write or fetch it again")


def _read_tensors(directory: str) -> dict[str, np.ndarray]:
    """All tensors of model.safetensors, or of its shards (model-00001-of-….safetensors)."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    paths = [os.path.join(directory, WEIGHTS)]
    if not os.path.exists(paths[0]):
        paths = sorted(glob.glob(os.path.join(glob.escape(directory), "model-*-of-*.safetensors")))
    if not paths:
        if os.path.exists(os.path.join(directory, "pytorch_model.bin")):
            raise InputError(
                f"{directory} holds pytorch_model.bin only, which is a pickle; convert it with transformers: "
                "AutoModel.from_pretrained(DIR).save_pretrained(DIR, safe_serialization=True)"
            )
        raise InputError(f"no {WEIGHTS} in {directory}; use a complete Hugging Face BERT directory")
    tensors: dict[str, np.ndarray] = {}
    for path in paths:
        try:
            tensors.update(load_file(path))
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged: {error}; fetch or write it again") from error
    return tensors


def save_hf(
    directory: str,
    config: BertConfig,
    params: dict[str, Any],
    tokenizer: Tokenizer,
    model_card: str,
    marks: Marks = NO_MARKS,
    more: Callable[[str], None] | None = None,
) -> None:
    """Writes a Hugging Face directory that transformers' Auto classes and sentence-transformers' CrossEncoder load.

    The score head is stored as `classifier.*`; heads absent from `params` are absent from the file. Without the MLM head the
    file has the tensors of BertForSequenceClassification and no others, so that strict loaders (Text Embeddings Inference,
    vLLM) accept it. With it, the directory is one of BertForPreTraining: `cls.predictions.*`, and the score head also as row 1
    of `cls.seq_relationship` (row 0 is zero). Rows of the vocabulary beyond the tokenizer's (padding for sharding) are left
    out.

    `more(directory)` may add files. The directory appears complete or not at all; InputError unless it is replaceable
    (`digests.output_folder`).
    """
    check_vocabulary(tokenizer, config, "the parameter tree")
    with output_folder(directory) as folder:
        _write(folder, replace(config, vocab_size=tokenizer.size), params, tokenizer, model_card, marks)
        if more is not None:
            more(folder)


def _write(
    directory: str, config: BertConfig, params: dict[str, Any], tokenizer: Tokenizer, model_card: str, marks: Marks
) -> None:
    from safetensors.numpy import save_file

    save_file(_state(config, params), os.path.join(directory, WEIGHTS), metadata={"format": "pt"})
    fields = {"architectures": [architecture(params)], MARK: __version__, **bert_config_to_hf(config, tokenizer.pad)}
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


def architecture(params: Mapping[str, Any]) -> str:
    """The class of transformers that has a parameter for every tensor of these heads, or the closest to it."""
    if "mlm" in params:
        return "BertForPreTraining" if "score" in params else "BertForMaskedLM"
    return "BertForSequenceClassification" if "score" in params else "BertModel"


def _state(config: BertConfig, params: dict[str, Any]) -> dict[str, np.ndarray]:
    state: dict[str, np.ndarray] = {}
    for group, leaves in leaves_of(config).items():
        if group in HEADS and group not in params:
            continue
        for leaf in leaves:
            value: Any = params
            for part in leaf.path:
                value = value[part]
            tensor = np.asarray(value, np.float32)
            if leaf.path in (("bert", "embeddings", "word", "embedding"), ("mlm", "bias")):
                tensor = tensor[: config.vocab_size]
            if leaf.transposed:
                tensor = tensor.reshape(leaf.stored[::-1]).T
            state[leaf.name] = np.ascontiguousarray(tensor.reshape(leaf.stored))
    if {"score", "mlm"} <= params.keys():
        for part in ("weight", "bias"):
            score = state[f"classifier.{part}"]
            state[f"cls.seq_relationship.{part}"] = np.concatenate([np.zeros_like(score), score])
    return state
