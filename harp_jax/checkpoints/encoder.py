"""Encoders to start from and rankers to score with: a Hugging Face directory, a training workdir, or fresh parameters."""

import os
from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.huggingface import check_vocabulary, load_hf
from harp_jax.checkpoints.recorded import best, read_config
from harp_jax.model.cross_encoder import init_params
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.model.encoders.table import ENCODERS, encoder_of, recorded_shape
from harp_jax.model.products import fastest_dtype
from harp_jax.objectives.finetune import DECODER
from harp_jax.text.tokenizer import Marks, Tokenizer, load_tokenizer, recorded_marks


def encoder_and_tokenizer(config: ConfigDict) -> tuple[EncoderShape, Tokenizer, dict | None]:
    """The encoder's shape, the tokenizer, and the parameters of `config.init` (None from scratch).

    Raises InputError if the vocabulary does not match the parameters.
    """
    params: dict | None = None
    m = config.model
    chosen = {"attention": m.attention, "remat": m.remat}
    chosen |= {"dropout": float(m.dropout), "attention_dropout": float(m.attention_dropout)}
    if config.init:
        shape, params = load_encoder(config.init)
        tokenizer = load_tokenizer(config.tokenizer or tokenizer_of(config.init))
        check_vocabulary(tokenizer, shape, config.init)
        # Some models have a few more rows than tokens.
        shape, params = replace(shape, vocab_size=tokenizer.size), _resize_vocab(params, tokenizer.size)
    else:
        tokenizer = load_tokenizer(config.tokenizer)
        kind = encoder_of(m.model_type, "--config.model.model_type").shape
        wide = round(kind.widening * m.hidden)
        shape = kind(tokenizer.size, m.layers, m.hidden, m.heads, wide, m.max_positions, pad=tokenizer.pad)
    if config.row_length > shape.max_positions:
        raise InputError(
            f"row_length={config.row_length} exceeds the encoder's {shape.max_positions} positions; lower it"
        )
    dtype = fastest_dtype(jax.default_backend()) if config.dtype == "auto" else config.dtype
    return replace(shape, dtype=dtype, **chosen), tokenizer, params


def load_encoder(path: str) -> tuple[EncoderShape, dict]:
    """Shape and parameters (numpy float32) of a Hugging Face directory or of a training workdir.

    Of a workdir: the parameters that the training selected, or those of its newest checkpoint.
    """
    if not os.path.isdir(path):
        raise InputError(
            f"{path} is no directory; use a Hugging Face directory or a training workdir{how_to_fetch(path)}"
        )
    if is_workdir(path):
        params, config = load_params(path)
        # The run's attention may be a kernel of a device that is not this one.
        shape = replace(recorded_shape(config, path), attention="auto")
        params.pop(DECODER, None)  # of another training
        params = _resize_vocab(params, shape.vocab_size)
        if chosen := best(path):
            params |= load_hf(chosen["model"])[1]
        return shape, params
    return load_hf(path)


def load_ranker(path: str) -> tuple[EncoderShape, dict, Tokenizer, Marks]:
    """`load_encoder` with the tokenizer and the marks of the training; the tokenizer's max_length is the trained row length.

    So a workdir scores as its export does. Raises InputError where they do not belong together.
    """
    shape, params = load_encoder(path)
    tokenizer = load_tokenizer(tokenizer_of(path))
    if is_workdir(path):
        tokenizer = replace(tokenizer, max_length=int(read_config(path).row_length))
    check_vocabulary(tokenizer, shape, path)
    return shape, params, tokenizer, recorded_marks(path, tokenizer)


def is_workdir(path: str) -> bool:
    """Whether a directory is a training workdir with checkpoints."""
    return os.path.isdir(os.path.join(path, "checkpoints"))


def tokenizer_of(path: str) -> str:
    """Directory of the tokenizer of a Hugging Face directory or training workdir."""
    inner = os.path.join(path, "tokenizer")
    return inner if os.path.isdir(inner) else path


def _resize_vocab(params: dict, rows: int) -> dict:
    """Parameters with rows of the vocabulary added, as sharding needs, or those that it added removed."""
    params = jax.tree.map(lambda x: x, params)
    word = params["encoder"]["embeddings"]["word"]
    extra = rows - word["embedding"].shape[0]
    if extra > 0:
        word["embedding"] = np.pad(word["embedding"], ((0, extra), (0, 0)))
    word["embedding"] = word["embedding"][:rows]
    if "mlm" in params:
        # Rows that are no tokens get no probability in the softmax.
        bias = params["mlm"]["bias"]
        params["mlm"]["bias"] = np.pad(bias, (0, max(extra, 0)), constant_values=-1e9)[:rows]
    return params


def starting_params(
    loaded: dict | None, drop: tuple[str, ...], vocab_size: int, initialisation: str = "normal"
) -> Callable[[EncoderShape, jax.Array], dict]:
    """A function that returns the initial parameters: fresh ones, replaced by the loaded ones except the heads in `drop`.

    `initialisation` is used from scratch only: "normal", or one of `Encoder.initialisations`.
    """

    def start(shape: EncoderShape, key: jax.Array) -> dict:
        narrow = replace(shape, vocab_size=vocab_size, dtype="float32")
        fresh = jax.device_get(jax.jit(lambda k: init_params(narrow, k))(key))
        if loaded is None and initialisation != "normal":
            known = ENCODERS[shape.model_type].initialisations
            if initialisation not in known:
                raise InputError(
                    f"model.initialisation={initialisation!r}: choose from {', '.join(('normal', *known))}"
                )
            fresh = known[initialisation](narrow, fresh, jax.random.fold_in(key, 1))
        for name, tree in (loaded or {}).items():
            if name not in drop:
                fresh[name] = jax.tree.map(lambda x: np.asarray(x, np.float32), dict(tree))
        return _resize_vocab(fresh, shape.vocab_size)

    return start
