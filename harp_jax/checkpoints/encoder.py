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
from harp_jax.model.bert import BertConfig
from harp_jax.model.cross_encoder import init_params
from harp_jax.model.matching import matching_start
from harp_jax.model.products import fastest_dtype
from harp_jax.text.marks import Marks, recorded_marks
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer


def encoder_and_tokenizer(config: ConfigDict) -> tuple[BertConfig, Tokenizer, dict | None]:
    """The encoder's shape, the tokenizer, and the parameters of `config.init` (None from scratch).

    Raises InputError if the vocabulary does not match the parameters.
    """
    params: dict | None = None
    if config.init:
        bert, params = load_encoder(config.init)
        bert = replace(
            bert,
            dropout=float(config.model.dropout),
            attention_dropout=float(config.model.attention_dropout),
            attention=config.model.attention,
            remat=config.model.remat,
        )
        tokenizer = load_tokenizer(config.tokenizer or tokenizer_of(config.init))
        if tokenizer.size != bert.vocab_size:
            raise InputError(
                f"the vocabulary {config.tokenizer or config.init} has {tokenizer.size} tokens, the parameters of "
                f"{config.init} have {bert.vocab_size}; use the tokenizer that belongs to `init`"
            )
    else:
        tokenizer = load_tokenizer(config.tokenizer)
        m = config.model
        bert = BertConfig(
            tokenizer.size, m.layers, m.hidden, m.heads, m.intermediate or 4 * m.hidden, m.max_positions,
            dropout=float(m.dropout), attention_dropout=float(m.attention_dropout), attention=m.attention,
            remat=m.remat,
        )  # fmt: skip
    if config.row_length > bert.max_positions:
        raise InputError(
            f"row_length={config.row_length} exceeds the encoder's {bert.max_positions} positions; lower it"
        )
    dtype = fastest_dtype(jax.default_backend()) if config.dtype == "auto" else config.dtype
    return replace(bert, dtype=dtype), tokenizer, params


def load_encoder(path: str) -> tuple[BertConfig, dict]:
    """Shape and parameters (numpy float32) of a Hugging Face directory or of a training workdir.

    Of a workdir: the parameters that the training selected, or those of its newest checkpoint. Raises InputError where there
    is no BERT to load.
    """
    if not os.path.isdir(path):
        raise InputError(
            f"{path} is no directory; use a Hugging Face directory or a training workdir{how_to_fetch(path)}"
        )
    if is_workdir(path):
        params, config = load_params(path)
        if "bert" not in config:
            raise InputError(f"{path} holds no BERT; use the workdir of a pre-training or fine-tuning run")
        # The run's attention may be a kernel of a device that is not this one.
        bert = replace(BertConfig(**config.bert), attention="auto")
        params = strip_vocab(params, bert.vocab_size)
        if chosen := best(path):
            params |= load_hf(chosen["model"])[1]
        return bert, params
    return load_hf(path)


def load_ranker(path: str) -> tuple[BertConfig, dict, Tokenizer, Marks]:
    """`load_encoder` with the tokenizer and the marks of the training; the tokenizer's max_length is the trained row length.

    So a workdir scores as its export does. Raises InputError where they do not belong together.
    """
    bert, params = load_encoder(path)
    tokenizer = load_tokenizer(tokenizer_of(path))
    if is_workdir(path):
        tokenizer = replace(tokenizer, max_length=int(read_config(path).row_length))
    check_vocabulary(tokenizer, bert, path)
    return bert, params, tokenizer, recorded_marks(path, tokenizer)


def is_workdir(path: str) -> bool:
    """Whether a directory is a training workdir with checkpoints."""
    return os.path.isdir(os.path.join(path, "checkpoints"))


def tokenizer_of(path: str) -> str:
    """Directory of the tokenizer of a Hugging Face directory or training workdir."""
    inner = os.path.join(path, "tokenizer")
    return inner if os.path.isdir(inner) else path


def strip_vocab(params: dict, vocab_size: int) -> dict:
    """Parameters without the vocabulary rows that sharding padded."""
    return _resize_vocab(params, vocab_size)


def _resize_vocab(params: dict, rows: int) -> dict:
    params = jax.tree.map(lambda x: x, params)
    word = params["bert"]["embeddings"]["word"]
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
    loaded: dict | None, drop: tuple[str, ...], vocab_size: int, initialisation: str = "bert"
) -> Callable[[BertConfig, jax.Array], dict]:
    """A function that returns the initial parameters: fresh ones, replaced by the loaded ones except the heads in `drop`.

    `initialisation` is used from scratch only: "bert", or "matching" (`matching_start`).
    """
    if initialisation not in ("bert", "matching"):
        raise InputError(f"model.initialisation={initialisation!r} is unknown; choose bert or matching")

    def start(bert: BertConfig, key: jax.Array) -> dict:
        narrow = replace(bert, vocab_size=vocab_size, dtype="float32")
        fresh = jax.device_get(jax.jit(lambda k: init_params(narrow, k))(key))
        if loaded is None and initialisation == "matching":
            fresh = matching_start(narrow, fresh, jax.random.fold_in(key, 1))
        for name, tree in (loaded or {}).items():
            if name not in drop:
                fresh[name] = jax.tree.map(lambda x: np.asarray(x, np.float32), dict(tree))
        return _resize_vocab(fresh, bert.vocab_size)

    return start
