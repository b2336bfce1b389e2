"""Encoders to start from and rankers to score with: a Hugging Face directory, a training workdir, or fresh parameters."""

import os
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.huggingface import check_vocabulary, load_hf
from harp_jax.checkpoints.recorded import best, is_workdir, recorded_config
from harp_jax.checkpoints.sentence_transformers import pair_length
from harp_jax.model.cross_encoder import init_params
from harp_jax.model.encoders.encoder import WORDS, EncoderConfig
from harp_jax.model.encoders.table import encoder_of, recorded_shape
from harp_jax.model.products import fastest_dtype
from harp_jax.objectives.contrastive import START
from harp_jax.objectives.finetune import DECODER
from harp_jax.text.tokenizer import Marks, Tokenizer, load_tokenizer, recorded_marks


def encoder_and_tokenizer(config: ConfigDict) -> tuple[EncoderConfig, Tokenizer, dict | None]:
    """The encoder's shape, the tokenizer, and the parameters of `config.init` (None from scratch). Raises InputError if the
    vocabulary does not match the parameters."""
    params: dict | None = None
    m = config.model
    if config.init:
        shape, params = load_encoder(config.init)
        tokenizer = load_tokenizer(config.tokenizer or tokenizer_of(config.init))
        check_vocabulary(tokenizer, shape, config.init)
        # Some models have a few more rows than tokens.
        shape, params = replace(shape, vocab_size=tokenizer.size), _resize_vocab(params, tokenizer.size)
    else:
        tokenizer = load_tokenizer(config.tokenizer)
        kind = encoder_of(m.model_type, "--config.model.model_type")
        wide = round(kind.widening * m.hidden)
        shape = kind(tokenizer.size, m.layers, m.hidden, m.heads, wide, m.max_positions, pad=tokenizer.pad)
        if shape.type_vocab:  # RoBERTa has one by default
            shape = replace(shape, type_vocab=max(shape.type_vocab, tokenizer.template.second_type + 1))
    if config.row_length > shape.max_positions:
        limit = f"the encoder's {shape.max_positions} positions"
        raise InputError(f"row_length={config.row_length} exceeds {limit}; lower it")
    shape = replace(
        shape,
        dtype=fastest_dtype(jax.default_backend()) if config.dtype == "auto" else config.dtype,
        attention=m.attention,
        remat=m.remat,
        dropout=float(m.dropout),
        attention_dropout=float(m.attention_dropout),
    )
    return shape, tokenizer, params


def load_encoder(path: str) -> tuple[EncoderConfig, dict]:
    """Shape and parameters (numpy float32) of a Hugging Face directory or of a training workdir. From a workdir: the selected
    parameters, or else its newest checkpoint's, without an MLM head that was never trained."""
    if not os.path.isdir(path):
        hint = f"use a Hugging Face directory or a training workdir{how_to_fetch(path)}"
        raise InputError(f"{path} is not a directory; {hint}")
    if is_workdir(path):
        params, config, _ = load_params(path)
        # The run's attention may be a kernel that does not run on this device.
        shape = replace(recorded_shape(config, path), attention="auto")
        for name in (DECODER, START):
            params.pop(name, None)  # only used in the training that made it
        params = _resize_vocab(params, shape.vocab_size)
        if "mlm" in params and not params["mlm"]["bias"].any():
            del params["mlm"]  # never trained: `init` had none, and no tokens were predicted
        if chosen := best(path):
            params |= load_hf(chosen["model"])[1]
        return shape, params
    return load_hf(path)


def load_ranker(path: str) -> tuple[EncoderConfig, dict, Tokenizer, Marks]:
    """`load_encoder` with the tokenizer and the marks of the training. The tokenizer's max_length is the row length of the
    training, so that a workdir scores like its export, or that of CrossEncoder (`pair_length`). Raises InputError if tokenizer and
    encoder do not match."""
    shape, params = load_encoder(path)
    tokenizer = load_tokenizer(tokenizer_of(path))
    length = int(recorded_config(path).row_length) if is_workdir(path) else pair_length(path)
    tokenizer = replace(tokenizer, max_length=length or tokenizer.max_length)
    check_vocabulary(tokenizer, shape, path)
    return shape, params, tokenizer, recorded_marks(path, tokenizer)


def tokenizer_of(path: str) -> str:
    """Directory of the tokenizer of a Hugging Face directory or training workdir."""
    inner = os.path.join(path, "tokenizer")
    return inner if os.path.isdir(inner) else path


def _resize_vocab(params: dict, rows: int) -> dict:
    """Parameters with rows of the vocabulary added, as sharding needs, or with those rows removed."""
    params = jax.tree.map(lambda x: x, params)
    word = params["encoder"]["embeddings"]["word"]
    extra = max(0, rows - len(word["embedding"]))
    word["embedding"] = np.pad(word["embedding"], ((0, extra), (0, 0)))[:rows]
    if "mlm" in params:  # rows that are not tokens get no probability in the softmax
        params["mlm"]["bias"] = np.pad(params["mlm"]["bias"], (0, extra), constant_values=-1e9)[:rows]
    return params


WIDER_WORDS = 3.0  # standard deviation of word embeddings, relative to that of positions and types


def matching_start(config: EncoderConfig, params: dict, key: jax.Array) -> dict:
    """Fresh parameters (float32) from which a small encoder learns to match words, changed in three ways.

    - Query and key kernels of a layer are the same normal draw of variance 1 / hidden: equal tokens attend to each other from
      the start ("mimetic" initialisation, Trockman and Kolter 2023).
    - The other kernels of encoder, pooler and score head have this variance too. The standard deviation of .02 suits BERT's
      width: at 128 a layer adds a twentieth to its input, and the gradient through two of them is below Adam's epsilon.
    - Word embeddings are WIDER_WORDS times as large as those of positions and types, which would otherwise make any two words of
      the query as similar as the same word in query and document.
    """
    wider = np.float32(config.hidden**-0.5 / config.initializer_range)

    def changed(path: tuple[jax.tree_util.DictKey, ...], array: np.ndarray) -> np.ndarray:
        names = [entry.key for entry in path]
        if tuple(names[-3:]) == WORDS:
            return array * np.float32(WIDER_WORDS)
        if names[-1] != "kernel" or names[0] == "mlm":
            return array
        if names[-2] in ("query", "key"):
            layer = int(names[1].removeprefix("layer_"))
            draw = jax.random.normal(jax.random.fold_in(key, layer), array.shape, jnp.float32)
            return np.asarray(draw) / np.sqrt(np.float32(config.hidden))
        return array * wider

    return jax.tree_util.tree_map_with_path(changed, params)


def starting_params(
    loaded: dict | None, drop: tuple[str, ...], vocab_size: int, initialisation: str = "normal"
) -> Callable[[EncoderConfig, jax.Array], dict]:
    """A function that returns the initial parameters: fresh ones, replaced by the loaded ones except the heads in `drop`.
    `initialisation` is used from scratch only: "normal", or "matching" (`matching_start`)."""

    def start(shape: EncoderConfig, key: jax.Array) -> dict:
        narrow = replace(shape, vocab_size=vocab_size, dtype="float32")
        given = {*(loaded or ())} - {*drop}  # a parameter's draw depends on its path only
        drawn = jax.jit(lambda k: {name: tree for name, tree in init_params(narrow, k).items() if name not in given})
        fresh = jax.device_get(drawn(key))
        if loaded is None and initialisation == "matching":
            fresh = matching_start(narrow, fresh, jax.random.fold_in(key, 1))
        for name, tree in (loaded or {}).items():
            if name not in drop:
                fresh[name] = jax.tree.map(lambda x: np.asarray(x, np.float32), dict(tree))
        return _resize_vocab(fresh, shape.vocab_size)

    return start
