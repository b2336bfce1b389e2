"""Hugging Face BERT directories ↔ the parameter tree, both ways, without torch.

One table (`_leaves`) names every tensor once: where it stands in the tree, what Hugging Face calls it, and its shape.
"""

import glob
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from harp_jax import __version__
from harp_jax.errors import InputError
from harp_jax.model.bert import BertConfig
from harp_jax.text.marks import MARKS, NO_MARKS, Marks
from harp_jax.text.tokenizer import Tokenizer

WEIGHTS = "model.safetensors"
MARK = "harp_jax_version"  # in config.json of what `save_hf` wrote
HEADS = ("pooler", "score", "mlm")
# Vocabulary rows added so that sharding divides them; more than this is another vocabulary.
MAX_PADDING_ROWS = 127


class Leaf(NamedTuple):
    """A tensor: its path in the tree, its Hugging Face name, and its shape here and there (kernels are transposed)."""

    path: tuple[str, ...]
    name: str
    shape: tuple[int, ...]
    stored: tuple[int, ...]

    @property
    def transposed(self) -> bool:
        return self.path[-1] == "kernel"


Shape = tuple[int, ...]


def _dense(path: str, name: str, into: int, out: int, kernel: Shape = (), bias: Shape = ()) -> list[Leaf]:
    parts = tuple(path.split("/"))
    return [
        Leaf((*parts, "kernel"), f"{name}.weight", kernel or (into, out), (out, into)),
        Leaf((*parts, "bias"), f"{name}.bias", bias or (out,), (out,)),
    ]


def _norm(path: str, name: str, size: int) -> list[Leaf]:
    parts = tuple(path.split("/"))
    leaves = (((*parts, "scale"), f"{name}.weight"), ((*parts, "bias"), f"{name}.bias"))
    return [Leaf(ours, theirs, (size,), (size,)) for ours, theirs in leaves]


def _encoder_leaves(c: BertConfig) -> Iterator[Leaf]:
    for name, rows in (("word", c.vocab_size), ("position", c.max_positions), ("token_type", c.type_vocab)):
        path = ("bert", "embeddings", name, "embedding")
        yield Leaf(path, f"bert.embeddings.{name}_embeddings.weight", (rows, c.hidden), (rows, c.hidden))
    yield from _norm("bert/embeddings/norm", "bert.embeddings.LayerNorm", c.hidden)
    for i in range(c.layers):
        ours, theirs = f"bert/layer_{i}", f"bert.encoder.layer.{i}"
        split = (c.heads, c.head_dim)
        for part in ("query", "key", "value"):
            name = f"{theirs}.attention.self.{part}"
            yield from _dense(f"{ours}/attention/{part}", name, c.hidden, c.hidden, (c.hidden, *split), split)
        name = f"{theirs}.attention.output"
        yield from _dense(f"{ours}/attention/output", f"{name}.dense", c.hidden, c.hidden, (*split, c.hidden))
        yield from _norm(f"{ours}/attention/norm", f"{name}.LayerNorm", c.hidden)
        yield from _dense(f"{ours}/mlp/up", f"{theirs}.intermediate.dense", c.hidden, c.intermediate)
        yield from _dense(f"{ours}/mlp/down", f"{theirs}.output.dense", c.intermediate, c.hidden)
        yield from _norm(f"{ours}/mlp/norm", f"{theirs}.output.LayerNorm", c.hidden)


def _leaves(c: BertConfig) -> dict[str, list[Leaf]]:
    """The tensors of the encoder ("bert") and of each head; the MLM decoder is tied and so not among them."""
    mlm = "cls.predictions"
    return {
        "bert": list(_encoder_leaves(c)),
        "pooler": _dense("pooler", "bert.pooler.dense", c.hidden, c.hidden),
        "score": _dense("score", "classifier", c.hidden, 1),
        "mlm": [
            *_dense("mlm/transform", f"{mlm}.transform.dense", c.hidden, c.hidden),
            *_norm("mlm/norm", f"{mlm}.transform.LayerNorm", c.hidden),
            Leaf(("mlm", "bias"), f"{mlm}.bias", (c.vocab_size,), (c.vocab_size,)),
        ],
    }


def bert_config_from_hf(config: dict[str, Any], where: str = "config.json") -> BertConfig:
    """The encoder's shape from a Hugging Face config; InputError where this BERT is not what `bert.py` computes.

    Attention dropout is not taken over: it is off here unless a training config turns it on.
    """
    wanted = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
    for field, value in wanted.items():
        default = None if field == "model_type" else value
        given = config.get(field, default)
        if given != value:
            raise InputError(f"{where}: {field} is {given!r}, only {value!r} is supported; use another model")
    try:
        return BertConfig(
            vocab_size=config["vocab_size"],
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            heads=config["num_attention_heads"],
            intermediate=config["intermediate_size"],
            max_positions=config.get("max_position_embeddings", 512),
            type_vocab=config.get("type_vocab_size", 2),
            layer_norm_eps=config.get("layer_norm_eps", 1e-12),
            dropout=config.get("hidden_dropout_prob", 0.1),
            initializer_range=config.get("initializer_range", 0.02),
        )
    except KeyError as error:
        raise InputError(f"{where} lacks {error.args[0]!r}; it is no complete BERT config") from error


def bert_config_to_hf(config: BertConfig, pad_token_id: int = 0) -> dict[str, Any]:
    """The inverse of `bert_config_from_hf`, with one label, so that sequence classification gives the score."""
    return {
        "model_type": "bert",
        "vocab_size": config.vocab_size,
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "intermediate_size": config.intermediate,
        "max_position_embeddings": config.max_positions,
        "type_vocab_size": config.type_vocab,
        "layer_norm_eps": config.layer_norm_eps,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "initializer_range": config.initializer_range,
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        "pad_token_id": pad_token_id,
        "num_labels": 1,
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        # Without it CrossEncoder puts a sigmoid on the score.
        "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
        "torch_dtype": "float32",
    }


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
    Raises InputError naming the file and the tensor where something is missing or has another shape.
    """
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
    for group, leaves in _leaves(config).items():
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
                    f"{where}: tensor {leaf.name} has shape {tensor.shape}, config.json asks for {leaf.stored}; "
                    "config and weights do not belong together"
                )
            tensor = np.asarray(tensor, np.float32)
            node = tree
            for part in leaf.path[:-1]:
                node = node.setdefault(part, {})
            node[leaf.path[-1]] = np.ascontiguousarray(tensor.T if leaf.transposed else tensor).reshape(leaf.shape)
    return tree


def _canonical(name: str) -> str:
    """Old checkpoints say gamma and beta; a bare BertModel lacks the "bert." prefix."""
    name = name.removesuffix(".gamma") + ".weight" if name.endswith(".gamma") else name
    name = name.removesuffix(".beta") + ".bias" if name.endswith(".beta") else name
    return f"bert.{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name


def _read_config(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        raise InputError(f"no config.json in {os.path.dirname(path)!r}; give a Hugging Face BERT directory")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}; write or fetch it again") from error


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
        raise InputError(f"no {WEIGHTS} in {directory}; give a complete Hugging Face BERT directory")
    tensors: dict[str, np.ndarray] = {}
    for path in paths:
        try:
            tensors.update(load_file(path))
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged: {error}; fetch or write it again") from error
    return tensors


def is_export(directory: str) -> bool:
    """Is this an export of ours, which another one may replace? Somebody's downloaded BERT has the same files."""
    path = os.path.join(directory, "config.json")
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return f'"{MARK}"' in file.read()


def check_replaceable(directory: str) -> None:
    """InputError where something stands at `directory` that is neither an empty directory nor an exported model."""
    empty = os.path.isdir(directory) and not os.listdir(directory)
    if os.path.exists(directory) and not (empty or is_export(directory)):
        raise InputError(f"{directory} exists and is no exported model; choose another --output or remove it")


def save_hf(
    directory: str,
    config: BertConfig,
    params: dict[str, Any],
    tokenizer: Tokenizer,
    model_card: str,
    marks: Marks = NO_MARKS,
) -> None:
    """Writes a Hugging Face directory that AutoModel and its kin, and sentence-transformers' CrossEncoder, load.

    The score head is stored as `classifier.*` and as row 1 of `cls.seq_relationship` (row 0 is zero); heads absent
    from `params` are absent from the file. Rows of the vocabulary beyond the tokenizer's (padding for sharding) are
    left out. The directory appears complete or not at all; InputError where another kind of directory stands there.
    """
    check_vocabulary(tokenizer, config, "the parameter tree")
    check_replaceable(directory)
    temporary = f"{directory.rstrip('/')}.tmp.{os.getpid()}"
    try:
        os.makedirs(temporary)
    except OSError as error:
        raise InputError(f"cannot write {directory}: {error.strerror}; choose another place") from error
    try:
        _write(temporary, replace(config, vocab_size=tokenizer.size), params, tokenizer, model_card, marks)
        if os.path.isdir(directory):
            os.rename(directory, f"{temporary}.old")
        os.rename(temporary, directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(f"{temporary}.old", ignore_errors=True)


def _write(
    directory: str,
    config: BertConfig,
    params: dict[str, Any],
    tokenizer: Tokenizer,
    model_card: str,
    marks: Marks,
) -> None:
    from safetensors.numpy import save_file

    save_file(_state(config, params), os.path.join(directory, WEIGHTS), metadata={"format": "pt"})
    # The class that leaves the fewest tensors out when someone asks for "the" architecture.
    by_head = {"score": "BertForSequenceClassification", "mlm": "BertForMaskedLM"}
    architecture = next((name for head, name in by_head.items() if head in params), "BertModel")
    fields = {"architectures": [architecture], MARK: __version__, **bert_config_to_hf(config, tokenizer.pad)}
    if marks.ids:
        fields[MARKS] = [tokenizer.tokens[i] if i >= 0 else "" for i in (marks.query, marks.document)]
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump(fields, file, indent=2)
    replace(tokenizer, max_length=min(tokenizer.max_length, config.max_positions)).save(directory)
    with open(os.path.join(directory, "README.md"), "w", encoding="utf-8") as file:
        file.write(model_card)


def _state(config: BertConfig, params: dict[str, Any]) -> dict[str, np.ndarray]:
    state: dict[str, np.ndarray] = {}
    for group, leaves in _leaves(config).items():
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
    if "score" in params:
        for part in ("weight", "bias"):
            score = state[f"classifier.{part}"]
            state[f"cls.seq_relationship.{part}"] = np.concatenate([np.zeros_like(score), score])
    return state
